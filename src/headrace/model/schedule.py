"""The schedule of a batch job: what starts its runs. See `headrace.deploy.schedule`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from headrace.model.job import JobName
from headrace.model.time_zones import find_zone
from headrace.text.durations import Duration

SETTLE = timedelta(seconds=5)
"""Time without a change after which a run starts, unless the schedule says otherwise."""
LONGEST_BURST = 10
"""Settle times after which a run starts although changes continue."""
_SHORTEST = timedelta(seconds=1)
_SHORTEST_LAG = timedelta(minutes=1)
LONGEST_LIST = 100
"""Largest number of jobs, tables or conditions in a list."""


def _check_every(duration: timedelta) -> timedelta:
    if duration < _SHORTEST:
        raise ValueError("`every` is at least 1s.")
    return duration


def _check_poll(duration: timedelta) -> timedelta:
    if duration < _SHORTEST:
        raise ValueError("`poll` is at least 1s.")
    return duration


def _check_file_name(text: str) -> str:
    if not text or "/" in text:
        raise ValueError("`pattern` and `marker` are names of files, without a slash.")
    return text


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
    after: Annotated[list[JobName], Field(min_length=1, max_length=LONGEST_LIST)] | None = None
    """Jobs. A run starts when each has a new run that has succeeded."""
    on_change: Annotated[list[str], Field(min_length=1, max_length=LONGEST_LIST)] | None = None
    """Tables. A run starts when one of them has new data."""
    settle: Duration | None = None
    """Time without a change after which a run of `on-change` or `on-files` starts; default: 5s."""
    max_lag: Annotated[Duration, AfterValidator(_check_max_lag)] | None = None
    """Longest time from a change of a table that the job reads to the end of a run that has read
    it. Headrace chooses when runs start."""
    of: Annotated[list[str], Field(min_length=1, max_length=LONGEST_LIST)] | None = None
    """Tables of `max-lag`; default: the tables that `sql` names, or those of the materialized views
    that `script` refreshes."""
    on_files: str | None = None
    """A location. A run starts when it has new files."""
    pattern: Annotated[str, AfterValidator(_check_file_name)] | None = None
    """Names of the files of `on-files`, for example `*.json`; default: all files."""
    marker: Annotated[str, AfterValidator(_check_file_name)] | None = None
    """Name of the file, for example `_SUCCESS`, that completes a directory of `on-files`."""
    poll: Annotated[Duration, AfterValidator(_check_poll)] | None = None
    """Time between two lists of the files of `on-files`; default: 10s."""
    all_: Annotated[list[Schedule], Field(min_length=1, max_length=LONGEST_LIST)] | None = None
    """Conditions that must all have been met since the last run."""
    any_: Annotated[list[Schedule], Field(min_length=1, max_length=LONGEST_LIST)] | None = None
    """Conditions, each of which starts a run."""

    @model_validator(mode="before")
    @classmethod
    def _check_conditions(cls, values: Any) -> Any:
        if values == MANUAL_WORD:
            raise ValueError("`manual` has no conditions, so that `all` and `any` cannot have it.")
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
        _check_options(present, given[0])
        return values

    @model_serializer(mode="wrap")
    def _leave_out_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A node of an older version refuses a key that it does not know.
        return {key: value for key, value in serialize(self).items() if value is not None}

    @property
    def is_manual(self) -> bool:
        """Whether only users start the job."""
        return all(getattr(self, key) is None for key in CONDITIONS)

    @property
    def zone(self) -> tzinfo:
        """Time zone in which the schedule is read."""
        return UTC if self.timezone in {None, "UTC"} else find_zone(self.timezone)

    @property
    def clock(self) -> Schedule | None:
        """The part by which the clock starts the job; None: there is none."""
        return next((part for part in self.list_parts() if part.is_of_time), None)

    @property
    def is_of_time(self) -> bool:
        """Whether the clock alone starts the job."""
        return self.cron is not None or self.every is not None

    @property
    def parts(self) -> list[Schedule]:
        """The conditions that `all` or `any` combines; nothing of a single condition."""
        return self.all_ or self.any_ or []

    def list_parts(self) -> list[Schedule]:
        """Return the single conditions; without `all` and `any`, the schedule itself."""
        return [part for _keys, part in self.walk() if not part.parts]

    def walk(self) -> Iterator[tuple[tuple[int | str, ...], Schedule]]:
        """Yield the schedule and all that it combines, each with the keys that lead to it."""
        yield (), self
        for number, part in enumerate(self.parts):
            for keys, each in part.walk():
                yield ("all" if self.all_ else "any", number, *keys), each

    def count_combinations(self) -> int:
        """Return the number of combinations that `list_combinations` returns."""
        counts = [part.count_combinations() for part in self.parts]
        if not counts:
            return 1
        return prod(counts) if self.all_ else sum(counts)

    def list_combinations(self) -> list[Combination]:
        """Return the combinations of conditions, each of which starts a run."""
        if not self.parts:
            return [Combination((self,))]
        of_parts = [part.list_combinations() for part in self.parts]
        if self.all_ is None:
            return [each for listed in of_parts for each in listed]
        return [
            Combination(tuple(part for each in chosen for part in each.parts))
            for chosen in product(*of_parts)
        ]

    @property
    def is_clock_enough(self) -> bool:
        """Whether a time of the clock starts a run by itself."""
        return any(each.is_clock for each in self.list_combinations())

    @property
    def files(self) -> Schedule | None:
        """The part by which new files start the job; None: there is none."""
        return next((part for part in self.list_parts() if part.on_files is not None), None)

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


@dataclass(frozen=True, slots=True)
class Combination:
    """Conditions of a schedule that start a run together.

    A further kind of condition is a further property.
    """

    parts: tuple[Schedule, ...]
    """Single conditions."""

    @property
    def clock(self) -> Schedule | None:
        """The part of the clock, or None."""
        return next((part for part in self.parts if part.is_of_time), None)

    @property
    def is_clock(self) -> bool:
        """Whether the clock is the only condition."""
        return all(part.is_of_time for part in self.parts)

    @property
    def needs_files(self) -> bool:
        """Whether new files are one of the conditions."""
        return any(part.on_files is not None for part in self.parts)

    @property
    def jobs(self) -> set[str]:
        """The jobs that must have succeeded, in lower case."""
        return {name.casefold() for part in self.parts for name in part.after or []}

    @property
    def watches(self) -> list[Schedule]:
        """The conditions for each of which a table must have changed."""
        return [part for part in self.parts if part.on_change is not None]


MANUAL_WORD = "manual"
"""The text of a schedule by which only users start the job."""
MANUAL = Schedule.model_construct()
"""The schedule of a job that only users start."""
CONDITIONS = ("cron", "every", "after", "on_change", "max_lag", "on_files", "all_", "any_")
"""Names of the fields of a schedule that start a run."""


_OPTIONS = {
    "timezone": ("cron",),
    "settle": ("on_change", "on_files"),
    "of": ("max_lag",),
    **dict.fromkeys(("pattern", "marker", "poll"), ("on_files",)),
}
"""Fields that only go with some conditions."""


def _check_options(present: Collection[str], condition: str) -> None:
    """Raise ValueError for an option of another condition."""
    for key, conditions in _OPTIONS.items():
        if key in present and condition not in conditions:
            allowed = " or ".join(f"`{_to_key(each)}`" for each in conditions)
            raise ValueError(f"`{key}` only goes with {allowed}.")
    if {"marker", "settle"} <= {*present}:
        raise ValueError("With `marker`, files do not have to settle: delete `settle`.")


def _to_key(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
