"""The manifest of a job, as its author declares it."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)

from headrace.deploy.batch_writes import parse_write
from headrace.deploy.expectations import CheckedExpectation, check_names
from headrace.deploy.read_tables import list_read_names
from headrace.deploy.schedule import check_schedule
from headrace.deploy.script_statements import (
    TextProblem,
    check_batch_script,
    check_query,
    check_script,
    list_refreshed_views,
)
from headrace.errors import InvalidStatement
from headrace.grammar.clauses import parse_qualified_name
from headrace.grammar.stream_clauses import (
    OutputMode,
    StreamTrigger,
    TriggerKind,
    parse_trigger,
)
from headrace.model.expectation import MAX_EXPECTATIONS
from headrace.model.job import JobName, OnQueryChange
from headrace.model.run import CatchUp, Overlap, ResumeAt, RunRetries, WriteMode
from headrace.model.schedule import MANUAL, MANUAL_WORD, Schedule
from headrace.model.session import is_session_name
from headrace.model.stream_query import ADHOC_SCOPE
from headrace.text.durations import Duration

DEDICATED = "dedicated"
"""The `session` of a job that has a session of its own."""
_MAX_NAME_PARTS = 3
_MOST_PARTITIONS = 50
_MOST_LOOKBACK = 31
SCRIPT_CLAUSE_KEYS = ("target-table", "trigger", "output-mode")
"""Keys whose values are clauses of SAVE STREAM in a script."""
STREAM_KEYS = ("trigger", "output-mode")
"""Keys that only go with a stream."""
TARGET_KEYS = ("write", "partition-by")
"""Keys of a batch job that say how it changes the target table."""
BATCH_KEYS = (
    *TARGET_KEYS,
    *("overlap", "catch-up", "delay", "lookback", "time-limit", "retries", "resume-at"),
)
"""Keys that only go with a `schedule`."""


TABLES_HINT = "Name the tables whose changes count: `schedule: {max-lag: 15min, of: [db.table]}`."
"""Hint where the tables of a `max-lag` are not known."""


class UnknownTables(TextProblem):
    """The tables whose changes count for `max-lag` are not known."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_schedule", message, hint=TABLES_HINT)


class JobKind(StrEnum):
    """How a manifest declares its query."""

    SQL = "sql"
    CODE = "code"
    SCRIPT = "script"


def to_kebab_case(name: str) -> str:
    """Return the key of a manifest for the name of a field."""
    return name.replace("_", "-")


def _check_name(name: str) -> str:
    if name.casefold() == ADHOC_SCOPE:
        raise TextProblem(
            "reserved_name",
            f"The name {name} is reserved for queries outside any job.",
            hint="Choose another name.",
        )
    return name


def _check_target(text: str) -> str:
    parts = _convert_error(parse_qualified_name, text, "the name of a table or sink")
    if len(parts) > _MAX_NAME_PARTS:
        raise TextProblem(
            "invalid_value",
            f"The name of a table has at most {_MAX_NAME_PARTS} parts: catalog, database and table."
            f" {text} has {len(parts)}.",
            hint="Put a part that contains dots in backticks.",
        )
    return text


def _check_trigger(text: str) -> str:
    _convert_error(parse_trigger, text)
    return text


def _convert_error(parse: Any, *arguments: str) -> Any:
    try:
        return parse(*arguments)
    except InvalidStatement as error:
        raise TextProblem("invalid_value", error.message, position=error.position) from error


def _check_sql(text: str, info: ValidationInfo) -> str:
    check_query(text)
    if _needs_tables(info) and not list_read_names(text):
        raise UnknownTables("The query reads no table, and `max-lag` needs at least one.")
    return text


def _needs_tables(info: ValidationInfo) -> bool:
    """Return whether the schedule has a `max-lag` whose tables the query names."""
    schedule = info.data.get("schedule")
    return schedule is not None and schedule.max_lag is not None and schedule.of is None


def _check_code(text: str, info: ValidationInfo) -> str:
    if _needs_tables(info):
        raise UnknownTables(
            "`max-lag` needs the tables that the code reads, and a plan does not run code."
        )
    if not text.strip():
        raise TextProblem(
            "empty_statement",
            "The code is empty.",
            hint="Write Python that binds execution_output to a DataFrame.",
        )
    return text


def _check_script(text: str, info: ValidationInfo) -> str:
    is_batch = info.data.get("schedule") is not None
    for problem in check_batch_script(text) if is_batch else check_script(text):
        raise problem
    if _needs_tables(info) and not list_refreshed_views(text):
        raise UnknownTables(
            "`max-lag` needs the tables that the script reads. A plan knows them only if every"
            " statement of the script is REFRESH MATERIALIZED VIEW."
        )
    return text


def _read_schedule(value: Any) -> Any:
    if value == MANUAL_WORD:
        return MANUAL
    if isinstance(value, str):
        raise TextProblem(
            "invalid_schedule",
            f"`schedule` is {value[:100]!r}, and must be a mapping or `{MANUAL_WORD}`.",
            hint="For example `schedule: {cron: 30 2 * * *}`.",
        )
    return value


def _check_schedule(schedule: Schedule | None) -> Schedule | None:
    if schedule is not None and not schedule.is_manual:
        check_schedule(schedule)
    return schedule


def _write_schedule(schedule: Schedule | None) -> Any:
    if schedule is None or schedule.is_manual:
        return None if schedule is None else MANUAL_WORD
    return schedule.model_dump(mode="json", by_alias=True)


def _check_write(text: str, info: ValidationInfo) -> str:
    mode, _keys = _convert_error(parse_write, text)
    # A wrong `partition-by` is an error of its own, and is not in the data.
    has_no_partitions = info.data.get("partition_by", [""]) is None
    if mode is WriteMode.OVERWRITE_PARTITIONS and has_no_partitions:
        raise TextProblem(
            "missing_key",
            "`overwrite-partitions` needs the partition columns of the target table: in a table"
            " without partitions, it would replace all rows.",
            hint="Add `partition-by`, for example `partition-by: [day]`.",
        )
    return text


def _check_overlap(overlap: Overlap | None, info: ValidationInfo) -> Overlap | None:
    schedule = info.data.get("schedule")
    parts = [] if schedule is None else schedule.list_parts()
    if overlap is Overlap.SKIP and any(part.on_change for part in parts):
        raise TextProblem(
            "conflicting_keys",
            "With `overlap: skip`, no run would read what changes during a run.",
            hint="Write `overlap: queue`, which is the default of `on-change`, or"
            " `cancel-previous`.",
        )
    if any(part.on_files for part in parts) and overlap not in {None, Overlap.QUEUE}:
        raise TextProblem(
            "conflicting_keys",
            f"With `overlap: {overlap}`, no run would read the files of a run that is left out or"
            " cancelled.",
            hint="Write `overlap: queue`, which is the default of `on-files`.",
        )
    return overlap


def _check_lookback(lookback: int | None, info: ValidationInfo) -> int | None:
    schedule, write = info.data.get("schedule"), info.data.get("write", "")
    if lookback is not None and schedule is not None and schedule.clock is None:
        raise TextProblem(
            "conflicting_keys",
            "`lookback` counts the times of a clock, and the schedule has none.",
            hint="Use `cron` or `every`. The jobs that follow run again with the job before them.",
        )
    # A wrong `write` is an error of its own, and is not in the data. So is a script.
    appends = write is None or write.strip().casefold() == WriteMode.APPEND
    if lookback is not None and appends and info.data.get("script") is None:
        raise TextProblem(
            "conflicting_keys",
            "With `write: append`, a time that runs again would add its rows a second time.",
            hint="Write with `overwrite-partitions` or `merge on (column, …)`.",
        )
    return lookback


def _check_delay(delay: Duration | None, info: ValidationInfo) -> Duration | None:
    schedule = info.data.get("schedule")
    if delay is not None and schedule is not None and schedule.max_lag is not None:
        raise TextProblem(
            "conflicting_keys",
            "`delay` does not go with `max-lag`, which chooses the start of each run.",
            hint="Delete one of them.",
        )
    return delay


def _check_session(name: str) -> str:
    if not is_session_name(name):
        raise TextProblem(
            "invalid_value",
            f"A session cannot have the name {name!r}.",
            hint="A name begins with a letter, and contains letters, digits, `_`, `.` and `-`.",
        )
    return name


def _to_upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _check_expectations(
    expectations: list[CheckedExpectation] | None, info: ValidationInfo
) -> list[CheckedExpectation] | None:
    check_names(expectations or [])
    trigger = info.data.get("trigger")
    if trigger is not None and parse_trigger(trigger).kind is TriggerKind.CONTINUOUS:
        raise TextProblem(
            "conflicting_keys",
            "A job with a continuous trigger cannot have `expect`: it has no batches.",
            hint="Choose another `trigger`, for example `1 second`.",
        )
    return expectations


class JobManifest(BaseModel):
    """A job: one query, or a script of queries, and how they run."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_kebab_case,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    name: Annotated[JobName, AfterValidator(_check_name)]
    """Name of the job. It never changes: state and versions belong to it."""
    description: str = ""
    """What the job is for. Every row carries it, in the column `__query_description`."""
    target_table: Annotated[str, AfterValidator(_check_target)] | None = None
    """Table or sink that receives the rows, in one to three parts. Not for `script`."""
    schedule: Annotated[
        Schedule | None,
        BeforeValidator(_read_schedule),
        AfterValidator(_check_schedule),
        PlainSerializer(_write_schedule),
    ] = None
    """When the runs of a batch job start: a mapping with `cron` and `timezone`, `every`, `after`,
    `on-change`, `max-lag`, `on-files`, `all` or `any`; or `manual`. Without it, the job is a
    stream."""
    sql: Annotated[str, AfterValidator(_check_sql)] | None = None
    """A query of Spark SQL."""
    code: Annotated[str, AfterValidator(_check_code)] | None = None
    """Python that binds `execution_output` to a DataFrame, with `spark` in scope."""
    script: Annotated[str, AfterValidator(_check_script)] | None = None
    """Statements on streams, with at least one SAVE STREAM; of a batch job: statements of SQL."""
    spark_properties: dict[str, str] = {}
    """Spark's configuration for this job."""
    trigger: Annotated[str, AfterValidator(_check_trigger)] | None = None
    """When a batch starts, as after TRIGGER in SQL: `5 seconds`, `available now`. Not for
    `script`."""
    output_mode: Annotated[OutputMode, BeforeValidator(_to_upper)] | None = None
    """Which rows are written: `append`, `complete` or `update`. Not for `script`."""
    session: Annotated[str, AfterValidator(_check_session)] | None = None
    """Session in which the job runs: a name, or `dedicated` for a session of its own. By default,
    jobs share the session of their profile."""
    metadata_columns: Annotated[bool, Field(strict=True)] = True
    """Whether each row gets the columns `__create_timestamp`, `__query_name`,
    `__query_description`, `__query_id`, `__query_version` and `__query_create_timestamp`. Ignored
    for `script`."""
    on_query_change: OnQueryChange = OnQueryChange.RESET
    """What happens to the state if the query changes: `reset` starts without state,
    `keep-compatible` keeps the state where Spark can continue from it, `refuse` fails."""

    partition_by: Annotated[list[str], Field(min_length=1, max_length=_MOST_PARTITIONS)] | None = (
        None
    )
    """Partition columns of the target table, which the first run creates if it does not exist.
    Needed for `overwrite-partitions`. Only with `schedule`, and not for `script`."""
    write: Annotated[str, AfterValidator(_check_write)] | None = None
    """How a run changes the target table: `append`, `overwrite-partitions` or
    `merge on (column, …)`; default: append. Only with `schedule`, and not for `script`."""
    overlap: Annotated[Overlap | None, AfterValidator(_check_overlap)] = None
    """What happens to a run that is due while an earlier one runs: `skip`, `queue` or
    `cancel-previous`; default: queue if other jobs, tables or files start the job, otherwise skip.
    Only with `schedule`."""
    catch_up: CatchUp | None = None
    """Which missed runs are made up for: `all`, `last` or `none`; default: all if the SQL names
    `:interval_start` or `:interval_end`, otherwise last. Only with `schedule`."""
    delay: Annotated[Duration | None, AfterValidator(_check_delay)] = None
    """Time between the logical time and the start of a run, for late data. Only with `schedule`."""
    lookback: Annotated[
        int | None, Field(strict=True, ge=1, le=_MOST_LOOKBACK), AfterValidator(_check_lookback)
    ] = None
    """Number of earlier logical times that run again after each new one, for late data: 1 to 31.
    Needs a clock, and `overwrite-partitions` or `merge`. Only with `schedule`, and not for
    `script`."""
    time_limit: Duration | None = None
    """Longest time of an attempt of a run. Only with `schedule`."""
    retries: RunRetries | None = None
    """A mapping with `max-attempts` (default 3), `min-backoff` (10s), `max-backoff` (1h) and
    `random-factor` (0.1) of failed runs. Only with `schedule`."""
    resume_at: ResumeAt | None = None
    """Where the next attempt of a script begins: at the `failed-statement` (default), or at the
    `start`. Only with `schedule`."""
    expect: Annotated[
        list[CheckedExpectation] | None,
        Field(max_length=MAX_EXPECTATIONS),
        AfterValidator(_check_expectations),
    ] = None
    """Expectations on the rows of a run, or of the batches of a stream: a list of mappings with
    `name`, `condition` and `on-violation`, which is `warn` (default), `drop` or `fail`. Not for
    `script`."""

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        keys = {to_kebab_case(name) for name, value in self if value is not None}
        for problem in find_key_problems(keys):
            raise problem
        return self

    @property
    def kind(self) -> JobKind:
        """Which of `sql`, `code` and `script` the manifest has."""
        if self.sql is not None:
            return JobKind.SQL
        return JobKind.SCRIPT if self.code is None else JobKind.CODE

    @property
    def query_text(self) -> str:
        """Value of `sql`, `code` or `script`."""
        text = getattr(self, self.kind)
        assert isinstance(text, str)
        return text

    @property
    def target(self) -> tuple[str, ...] | None:
        """Parts of the name of the target table; None for a script."""
        if self.target_table is None:
            return None
        return parse_qualified_name(self.target_table, "the name of a table or sink")

    @property
    def parsed_trigger(self) -> StreamTrigger | None:
        """The trigger, or None for Spark's default."""
        return None if self.trigger is None else parse_trigger(self.trigger)


MANIFEST_KEYS = tuple(to_kebab_case(name) for name in JobManifest.model_fields)
"""The keys of a manifest, in the order of their documentation."""


class KeyProblem(TextProblem):
    """A key is missing, or does not go with another."""

    def __init__(
        self, code: str, message: str, *, key: str | None, hint: str | None = None
    ) -> None:
        self.key = key
        """The key to point to; None: the whole manifest."""
        super().__init__(code, message, hint=hint)


def find_key_problems(keys: set[str]) -> list[KeyProblem]:
    """Return which keys are missing from a manifest, and which do not go together."""
    kinds = [kind for kind in JobKind if kind in keys]
    problems = list[KeyProblem]()
    if "name" not in keys:
        problems.append(_missing("name", "Give the job a name."))
    if not kinds:
        message = "The manifest has no query."
        hint = "Add one of the keys `sql`, `code` and `script`."
        problems.append(KeyProblem("missing_key", message, key=None, hint=hint))
    elif len(kinds) > 1:
        message = f"The manifest has {' and '.join(f'`{kind}`' for kind in kinds)}."
        hint = "Keep one of them."
        problems.append(KeyProblem("conflicting_keys", message, key=kinds[1], hint=hint))
    elif kinds == [JobKind.SCRIPT]:
        problems += [_not_for_script(key) for key in SCRIPT_CLAUSE_KEYS if key in keys]
        if "expect" in keys:
            problems.append(
                KeyProblem(
                    "conflicting_keys",
                    "A manifest with `script` cannot have `expect`.",
                    key="expect",
                    hint="Write the rows with `sql` and `target-table`.",
                )
            )
        problems += [
            _not_for_batch_script(key) for key in (*TARGET_KEYS, "lookback") if key in keys
        ]
    elif "target-table" not in keys:
        hint = "Name the table or sink that receives the rows."
        problems.append(_missing("target-table", hint))
    return [*problems, *_find_schedule_problems(keys)]


def _find_schedule_problems(keys: set[str]) -> list[KeyProblem]:
    if "schedule" in keys:
        return [
            KeyProblem(
                "conflicting_keys",
                f"A job with `schedule` cannot have `{key}`.",
                key=key,
                hint="Delete the key, or delete `schedule` to run the job as a stream.",
            )
            for key in STREAM_KEYS
            if key in keys
        ]
    return [
        KeyProblem(
            "conflicting_keys",
            f"`{key}` only goes with `schedule`.",
            key=key,
            hint="Add `schedule`, for example `schedule: manual`, or delete the key.",
        )
        for key in BATCH_KEYS
        if key in keys
    ]


def _missing(key: str, hint: str) -> KeyProblem:
    return KeyProblem("missing_key", f"The key `{key}` is missing.", key=None, hint=hint)


def _not_for_script(key: str) -> KeyProblem:
    return KeyProblem(
        "conflicting_keys",
        f"A manifest with `script` cannot have `{key}`.",
        key=key,
        hint="Write the target, the trigger and the output mode into its SAVE STREAM statements.",
    )


def _not_for_batch_script(key: str) -> KeyProblem:
    return KeyProblem(
        "conflicting_keys",
        f"A manifest with `script` cannot have `{key}`.",
        key=key,
        hint="Its statements say how they change tables.",
    )


META_KEY = "meta"
_FORMAT = "%Y-%m-%d %H:%M:%S"


def _check_instant(text: str) -> str:
    # strptime raises ValueError, which pydantic reports.
    datetime.strptime(text, _FORMAT).replace(tzinfo=UTC)
    return text


class ManifestMeta(BaseModel):
    """What Headrace adds to the manifest of a deployed job. A deployment ignores it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    query_id: str
    """Id of the version, a UUID."""
    query_version: Annotated[int, Field(ge=1)]
    """Number of the version, from 1."""
    query_create_timestamp: Annotated[str, AfterValidator(_check_instant)]
    """Creation of the version, UTC, as `YYYY-MM-DD HH:MM:SS`."""

    @classmethod
    def of_version(cls, query_id: str, version: int, created_at: datetime) -> Self:
        """Return the meta of a version. `created_at` has a time zone."""
        instant = created_at.astimezone(UTC).strftime(_FORMAT)
        return cls(query_id=query_id, query_version=version, query_create_timestamp=instant)

    @property
    def created_at(self) -> datetime:
        """Creation of the version, in whole seconds."""
        return datetime.strptime(self.query_create_timestamp, _FORMAT).replace(tzinfo=UTC)
