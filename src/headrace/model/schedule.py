"""The schedule of a batch job: what starts its runs. See `headrace.deploy.schedule`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from headrace.model.job import JobName
from headrace.text.durations import Duration

_SHORTEST = timedelta(seconds=1)
_SHORTEST_LAG = timedelta(minutes=1)
_LONGEST_LIST = 100
"""Largest number of jobs, tables or conditions in a list."""


def _check_every(duration: timedelta) -> timedelta:
    if duration < _SHORTEST:
        raise ValueError("`every` is at least 1s.")
    return duration


def _check_max_lag(duration: timedelta) -> timedelta:
    if duration < _SHORTEST_LAG:
        raise ValueError("`max-lag` is at least 1min.")
    return duration


class Schedule(BaseModel):
    """When a job starts: exactly one condition. `all` and `any` combine several."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    cron: str | None = None
    """Five fields as in cron, or a name such as `@daily`."""
    timezone: str | None = None
    """Time zone of `cron`, for example `Europe/Berlin`; default: UTC."""
    every: Annotated[Duration, AfterValidator(_check_every)] | None = None
    """Elapsed time between two runs. They are at multiples of it since 1970-01-01 00:00 UTC."""
    after: Annotated[list[JobName], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Jobs. A run starts when each has a new run that has succeeded."""
    on_change: Annotated[list[str], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Tables. A run starts when one of them has new data."""
    settle: Duration | None = None
    """Time without a change after which a run of `on-change` starts; default: 5s."""
    max_lag: Annotated[Duration, AfterValidator(_check_max_lag)] | None = None
    """Longest time from a change of a table that the job reads to the end of a run that has read
    it. Headrace chooses when runs start."""
    of: Annotated[list[str], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Tables of `max-lag`; default: those that `sql` reads."""
    on_files: str | None = None
    """A location. A run starts when it has new files."""
    all_: Annotated[list[Schedule], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Conditions that must all have been met since the last run."""
    any_: Annotated[list[Schedule], Field(min_length=1, max_length=_LONGEST_LIST)] | None = None
    """Conditions, each of which starts a run."""

    @model_validator(mode="before")
    @classmethod
    def _check_conditions(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        present = {key for key, value in values.items() if value is not None}
        given = [key for key in CONDITIONS if {key, _to_key(key)} & present]
        keys = ", ".join(f"`{_to_key(key)}`" for key in CONDITIONS)
        if len(given) != 1:
            which = " and ".join(f"`{_to_key(key)}`" for key in given)
            problem = f"has {which}" if given else "has no condition"
            raise ValueError(
                f"The schedule {problem}. It needs exactly one of {keys}. Combine conditions with"
                " `all` or `any`."
            )
        if "timezone" in present and "cron" not in present:
            raise ValueError("`timezone` only goes with `cron`.")
        if "settle" in present and given != ["on_change"]:
            raise ValueError("`settle` only goes with `on-change`.")
        if "of" in present and given != ["max_lag"]:
            raise ValueError("`of` only goes with `max-lag`.")
        return values

    @property
    def is_manual(self) -> bool:
        """Whether only users start the job."""
        return all(getattr(self, key) is None for key in CONDITIONS)

    @property
    def zone(self) -> tzinfo:
        """Time zone in which the schedule is read."""
        return UTC if self.timezone in {None, "UTC"} else ZoneInfo(self.timezone)

    @property
    def clock(self) -> Schedule | None:
        """The part by which the clock starts the job; None: there is none."""
        return next((part for part in self.list_parts() if part.is_of_time), None)

    @property
    def is_of_time(self) -> bool:
        """Whether the clock alone starts the job."""
        return self.cron is not None or self.every is not None

    def list_parts(self) -> list[Schedule]:
        """Return the conditions that `all` and `any` combine; without them, the schedule itself."""
        parts = self.all_ or self.any_
        return [self] if parts is None else [part for each in parts for part in each.list_parts()]

    def list_conditions(self) -> list[Schedule]:
        """Return the parts by which jobs or tables start the job."""
        return [part for part in self.list_parts() if part.after or part.on_change or part.max_lag]

    def list_tables(self) -> list[str]:
        """Return the names of the tables whose changes start a run."""
        return list(
            dict.fromkeys(
                name for part in self.list_parts() for name in part.on_change or part.of or []
            )
        )

    def list_upstream(self) -> list[str]:
        """Return the names of the jobs that the schedule follows."""
        names = [name for part in self.list_parts() for name in part.after or []]
        return list({name.casefold(): name for name in names}.values())


MANUAL = Schedule.model_construct()
"""The schedule of a job that only users start."""
CONDITIONS = ("cron", "every", "after", "on_change", "max_lag", "on_files", "all_", "any_")
"""Names of the fields of a schedule that start a run."""


def _to_key(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
