"""Bodies of Livy's API. Clients read fields by key, so that every field is always present."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import ConfigDict, Field, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel

from headrace.errors import InvalidRequest
from headrace.frontends.rest.schemas import RequestModel, ResponseModel, integer
from headrace.model.request_fields import SessionFields
from headrace.model.session import SessionSpec
from headrace.text.durations import Duration, seconds_of

_MAX_INT32 = 2**31 - 1
if TYPE_CHECKING:
    _FromZero = int
    _Number = int | str
    _Count = int | str
else:
    # Airflow sends the numbers of its templates as texts.
    _FromZero = integer(0, _MAX_INT32)
    _Number = _FromZero | Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,8})$")]
    _Count = (
        integer(1, _MAX_INT32) | Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}$")]
    )
KIND = "sql"
"""The one kind of session and statement."""

_CONF_KEYS = {
    "driver_memory": "spark.driver.memory",
    "driver_cores": "spark.driver.cores",
    "executor_memory": "spark.executor.memory",
    "executor_cores": "spark.executor.cores",
    "num_executors": "spark.executor.instances",
    "queue": "spark.yarn.queue",
}
"""Fields of a session that stand for a key of Spark."""


def check_kind(kind: str | None) -> None:
    """Raise InvalidRequest unless the kind is `sql`, or is not given."""
    if kind is not None and kind.lower() != KIND:
        raise InvalidRequest(
            f"The kind {kind[:100]!r} is not served: Headrace runs SQL and no code in Scala, Python"
            f" or R. Use the kind '{KIND}'."
        )


class _LivyRequest(RequestModel):
    """Fields of a new session and of a new batch. Every one is optional."""

    model_config = ConfigDict(alias_generator=to_camel)

    proxy_user: str | None = None
    """Owner: a group of the caller; default: the caller. Other owners are refused."""
    jars: list[str] = Field(default=[])
    """Jars that Spark adds at the start."""
    py_files: list[str] = Field(default=[])
    """Python files and zips for the PYTHONPATH of driver and executors."""
    files: list[str] = Field(default=[])
    """Files that Spark distributes to the executors."""
    archives: list[str] = Field(default=[])
    """Archives that Spark unpacks for the executors: `spark.archives`."""
    driver_memory: str | None = None
    """`spark.driver.memory`."""
    driver_cores: _Count | None = None
    """`spark.driver.cores`."""
    executor_memory: str | None = None
    """`spark.executor.memory`."""
    executor_cores: _Count | None = None
    """`spark.executor.cores`."""
    num_executors: _Number | None = None
    """`spark.executor.instances`."""
    queue: str | None = None
    """`spark.yarn.queue`."""
    name: str | None = None
    """Name, unique among the live sessions of the owner."""
    conf: dict[str, str | bool | int | float] = Field(default={})
    """Spark configuration. It wins over the fields above."""

    @property
    def spec(self) -> SessionSpec:
        """The configuration of the driver."""
        named = {key: getattr(self, field) for field, key in _CONF_KEYS.items()}
        conf = {key: str(value) for key, value in named.items() if value is not None}
        if self.archives:
            conf["spark.archives"] = ",".join(self.archives)
        conf |= {key: _conf_text(value) for key, value in self.conf.items()}
        return SessionSpec(conf=conf, jars=self.jars, files=self.files, py_files=self.py_files)


class LivySessionRequest(_LivyRequest):
    """Body of a new session. Every field is optional."""

    kind: str | None = Field(default=None, examples=[KIND])
    """`sql`, the default. Other kinds are refused."""
    heartbeat_timeout_in_second: _FromZero | None = None
    """Ignored: a session does not end because a client stops asking."""
    ttl: Duration | None = None
    """Age at which the session is closed, for example `8h`."""
    idle_timeout: Duration | None = None
    """Idle time after which the session is closed, for example `30m`."""

    @property
    def fields(self) -> SessionFields:
        """The time limits of the session."""
        idle, ttl = self.idle_timeout, self.ttl
        return SessionFields(idle_seconds=_seconds(idle), ttl_seconds=_seconds(ttl))


class LivyBatchRequest(_LivyRequest):
    """Body of a new batch."""

    file: str = Field(examples=["s3://bucket/reports/daily.sql"])
    """A SQL file (`.sql`) or a Python file (`.py`), which the driver reads: a URI or a path."""
    args: list[str] = Field(default=[])
    """Arguments of a Python file: `sys.argv[1:]`."""
    class_name: str | None = None
    """Refused, unless it is null or empty: Headrace runs no jars."""

    def check_has_no_class(self) -> None:
        """Raise InvalidRequest if the batch is a class of a jar."""
        if self.class_name:
            raise InvalidRequest(
                "className: Headrace runs SQL files and Python files, and no classes of jars."
            )


def _seconds(duration: timedelta | None) -> float | None:
    return seconds_of(duration)


def _conf_text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class LivyStatementRequest(RequestModel):
    """Body of a new statement."""

    code: str = Field(examples=["SELECT 1 AS x"])
    """The SQL text of one statement."""
    kind: str | None = Field(default=None, examples=[KIND])
    """`sql`, the default. Other kinds are refused."""


class LivyError(ResponseModel):
    """An error response."""

    msg: str
    """What happened."""


class LivyMessage(ResponseModel):
    """The answer to a request that has been accepted."""

    msg: str
    """`deleted` or `canceled`."""


class LivyAppInfo(ResponseModel):
    """Addresses of a Spark application."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    driver_log_url: str | None = None
    """Always null: `/log` returns the log."""
    spark_ui_url: str | None = None
    """Address of Spark's UI, while the driver runs."""
    executor_log_urls: str | None = None
    """Always null."""


class LivySession(ResponseModel):
    """A session."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    id: int
    """Number of the session in Headrace."""
    name: str | None
    """Name of the session."""
    app_id: str | None
    """Id of the Spark application, once the driver runs."""
    owner: str
    """Owner of the session."""
    proxy_user: str | None
    """The owner, if it is a group."""
    state: str
    """`starting`, `idle`, `busy`, `recovering`, `shutting_down`, `dead` or `error`."""
    kind: str
    """Always `sql`."""
    app_info: LivyAppInfo
    """Addresses of the Spark application."""
    log: list[str] = Field(default=[])
    """Always empty: `/log` returns the log."""


class LivySessionList(ResponseModel):
    """A range of the live sessions, oldest first."""

    from_: int = Field(serialization_alias="from")
    """Position of the first session."""
    total: int
    """Number of live sessions."""
    sessions: list[LivySession]
    """The sessions."""


class LivyState(ResponseModel):
    """The state of a session or of a batch."""

    id: int
    """Number of the session."""
    state: str
    """State, as in the session or in the batch."""


class LivyBatch(ResponseModel):
    """A batch."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    id: int
    """Number of the session of the batch in Headrace."""
    name: str | None
    """Name of the batch."""
    owner: str
    """Owner of the batch."""
    proxy_user: str | None
    """The owner, if it is a group."""
    state: str
    """`starting`, `running`, `success`, `dead` or `killed`."""
    app_id: str | None
    """Id of the Spark application, once the driver runs."""
    app_info: LivyAppInfo
    """Addresses of the Spark application."""
    log: list[str] = Field(default=[])
    """Always empty: `/log` returns the log."""


class LivyBatchList(ResponseModel):
    """A range of the batches, oldest first."""

    from_: int = Field(serialization_alias="from")
    """Position of the first batch."""
    total: int
    """Number of batches."""
    sessions: list[LivyBatch]
    """The batches."""


class LivyLog(ResponseModel):
    """Lines of the log of a driver."""

    id: int
    """Number of the session or of the batch."""
    from_: int = Field(serialization_alias="from")
    """Position of the first line."""
    total: int
    """Number of lines."""
    log: list[str]
    """The lines. Empty behind the last line."""


class LivyOutput(ResponseModel):
    """The output of a statement: `data` of a success, otherwise the other fields."""

    status: str
    """`ok` or `error`."""
    execution_count: int
    """Id of the statement."""
    data: dict[str, JsonValue] | None = None
    """`application/json` with `schema`, as Spark writes it, and `data`: the values of each row."""
    ename: str | None = None
    """Code of the error."""
    evalue: str | None = None
    """What happened, after the error condition of Spark, or the code, in brackets."""
    traceback: list[str] | None = None
    """Stack trace of Spark, if there is one."""


class LivyStatement(ResponseModel):
    """A statement."""

    id: int
    """Position within the session, from 0."""
    code: str
    """The SQL text."""
    state: str
    """`waiting`, `running`, `cancelling`, `cancelled` or `available`: has an output."""
    output: LivyOutput | None
    """The output of a statement that has ended, unless it was cancelled."""
    progress: float
    """Share of the tasks that are done."""
    started: int
    """Start, in milliseconds since 1970; 0: not yet."""
    completed: int
    """End, in milliseconds since 1970; 0: not yet."""


class LivyStatementList(ResponseModel):
    """A range of the statements of a session."""

    total_statements: int
    """Number of statements."""
    statements: list[LivyStatement]
    """The statements, oldest first unless the request says otherwise."""


class LivyVersion(ResponseModel):
    """The version of Livy whose API a node serves."""

    url: str
    """Address of the source of Headrace."""
    branch: str
    """Version of Headrace."""
    revision: str
    """Version of Headrace."""
    version: str
    """Version of Livy."""
    date: str
    """Always empty."""
    user: str
    """Always `headrace`."""
