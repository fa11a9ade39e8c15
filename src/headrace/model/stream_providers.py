"""The sources and sinks of streaming queries, as data: what each supports and guarantees.

docs/reference/streams.md is generated from this module. The driver runs the providers; a node
checks the statements against them before anything is started. Spark's `format()` takes other
providers too, by short name or class: their statements pass to Spark without these checks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from importlib import metadata
from typing import TypeVar

from headrace.model import connector_options as options

APPEND, COMPLETE, UPDATE = "APPEND", "COMPLETE", "UPDATE"
CHECKPOINT_OPTION = "checkpointLocation"
RETRY_PREFIXES = ("headrace.retry.", "pstl.retry.")
FORMAT_OPTION = "format"
KAFKA_FORMATS = ("json", "csv", "avro", "raw")
"""How the value of a Kafka record is encoded. `raw` means the columns of Spark's Kafka source."""


class Guarantee(StrEnum):
    """How often the rows of a batch can appear in a sink if the query fails."""

    EXACTLY_ONCE = "exactly once"
    EFFECTIVELY_ONCE = "effectively once"
    AT_LEAST_ONCE = "at least once"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSource:
    """A provider that CREATE STREAM reads from."""

    name: str
    options: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    """Prefixes of further options."""
    required: tuple[tuple[str, ...], ...] = ()
    """Options that must be given: of each group, exactly one."""
    takes_columns: bool = False
    """Whether columns can be declared. A source without them has columns of its own."""
    needs_columns: bool = False
    """Whether columns must be declared: Spark does not infer those of a stream of files."""
    continuous: bool = False
    """Whether TRIGGER CONTINUOUS is possible."""
    note: str = ""
    is_listed: bool = True
    """Whether Headrace knows the source. Statements on any other one are not checked."""
    reader: str | None = None
    """`module:function`, which only drivers load. The default is Spark's own reader."""
    package: str | None = None
    """Maven package that a source needs which another package adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSink:
    """A provider that SAVE STREAM writes to."""

    name: str
    modes: tuple[str, ...]
    """Output modes, the default first."""
    options: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    required: tuple[tuple[str, ...], ...] = ()
    """Options that must be given: of each group, exactly one."""
    partitioning: str | None = None
    """What PARTITIONED ON does; None: it is not allowed."""
    guarantee: Guarantee
    write_ahead_log: bool = True
    """Whether a query continues where the one before it has stopped."""
    has_default_path: bool = False
    """Whether rows go to a path by convention if the option `path` is not given."""
    continuous: bool = False
    """Whether TRIGGER CONTINUOUS is possible."""
    note: str = ""
    is_listed: bool = True
    """Whether Headrace knows the sink. Statements on any other one are not checked."""
    place_options: tuple[str, ...] = ("dbtable", "path")
    """Options that say where the rows go; the first one that is given counts."""
    is_file: bool = False
    """Whether Spark's file sink writes the rows, with a log in their directory."""
    is_open: bool = False
    """Whether a query keeps its state if its columns or its place in the sink change: no rows are
    kept, or each one is a whole value. Readers of files and tables expect the columns that the
    first rows had."""
    follows_files: bool = False
    """Whether a query that wrote files can continue with this sink."""
    stages_batches: bool = False
    """Whether a batch is staged under a name with the epoch of the driver."""
    writer: str | None = None
    """`module:class` of a `SinkWriter`, which only drivers load. The default is Spark's own."""
    package: str | None = None
    """Maven package that a sink needs which another package adds."""
    rows_are: str | None = None
    """Where users find the rows, in words. `{name}` is the name of the query as an argument of a
    command, `{view}` is the name as SQL. The default names the path, if there is one."""

    @property
    def promise(self) -> str:
        """How often the rows of a batch can appear, in words."""
        return self.guarantee.value if self.is_listed else f"{self.guarantee.value}, not checked"


_FILES = "one directory for each value"
_TABLE = "partitions of a table that the query creates"

_SOURCES = (
    StreamSource(
        name="kafka",
        options=options.KAFKA_SOURCE
        | options.JSON_PARSING
        | options.CSV_PARSING
        | options.AVRO_PARSING
        | {FORMAT_OPTION},
        prefixes=(options.KAFKA_PREFIX,),
        required=(("kafka.bootstrap.servers",), ("assign", "subscribe", "subscribePattern")),
        takes_columns=True,
        continuous=True,
        reader="headrace.driver.streams.sources:read_kafka",
        note="With declared columns, `format` says how the value is encoded: json, csv or avro.",
    ),
    *(
        StreamSource(
            name=name, options=known, takes_columns=True, needs_columns=True, required=(("path",),)
        )
        for name, known in (
            ("json", options.JSON_SOURCE),
            ("csv", options.CSV_SOURCE),
            ("parquet", options.PARQUET_SOURCE),
            ("orc", options.ORC_SOURCE),
            ("avro", options.AVRO_SOURCE),
        )
    ),
    StreamSource(
        name="text",
        options=options.TEXT_SOURCE,
        required=(("path",),),
        note="One column, `value`: the lines of the files.",
    ),
    StreamSource(
        name="rate",
        options=options.RATE,
        continuous=True,
        note="Columns `timestamp` and `value`.",
    ),
    StreamSource(
        name="rate-micro-batch",
        options=options.RATE_MICRO_BATCH,
        required=(("rowsPerBatch",),),
        note="Columns `timestamp` and `value`; the same rows in each batch after a restart.",
    ),
    StreamSource(
        name="socket",
        options=options.SOCKET,
        required=(("host",), ("port",)),
        continuous=True,
        note="For tests, because it cannot be replayed: rows are lost when the query restarts.",
    ),
    StreamSource(name="delta", options=options.DELTA_SOURCE, required=(("path",),)),
    StreamSource(
        name="iceberg",
        options=options.ICEBERG_SOURCE,
        required=(("path",),),
        note="`path` is the name or the location of the table.",
    ),
)

_FILE_SINKS = (
    ("json", options.JSON_SINK),
    ("parquet", options.PARQUET_SINK),
    ("orc", options.ORC_SINK),
    ("csv", options.CSV_SINK),
    ("text", options.TEXT_SINK),
    ("avro", options.AVRO_SINK),
)

_SINKS = (
    StreamSink(
        name="console",
        modes=(APPEND, UPDATE, COMPLETE),
        options=options.CONSOLE,
        is_open=True,
        guarantee=Guarantee.NONE,
        continuous=True,
        note="Rows go to the log of the session.",
        rows_are="in the log: headrace stream logs {name}",
    ),
    StreamSink(
        name="memory",
        modes=(APPEND, UPDATE, COMPLETE),
        is_open=True,
        guarantee=Guarantee.NONE,
        write_ahead_log=False,
        continuous=True,
        note="Rows go to a temporary view of the session that has the name of the query.",
        writer="headrace.driver.streams.sinks:MemorySinkWriter",
        rows_are="the temporary view {view} of its session",
    ),
    StreamSink(
        name="noop",
        modes=(APPEND, UPDATE, COMPLETE),
        is_open=True,
        guarantee=Guarantee.NONE,
        continuous=True,
        note="Rows are computed and dropped.",
    ),
    *(
        StreamSink(
            name=name,
            modes=(APPEND,),
            options=known,
            partitioning=_FILES,
            is_file=True,
            guarantee=Guarantee.EXACTLY_ONCE,
            has_default_path=True,
            writer="headrace.driver.streams.file_sink:FileSinkWriter",
            note="Readers must read the directory with Spark, which knows the complete files.",
        )
        for name, known in _FILE_SINKS
    ),
    StreamSink(
        name="kafka",
        modes=(APPEND, UPDATE, COMPLETE),
        options=options.KAFKA_SINK
        | options.JSON_WRITING
        | options.CSV_WRITING
        | options.AVRO_WRITING
        | {FORMAT_OPTION},
        prefixes=(options.KAFKA_PREFIX,),
        required=(("kafka.bootstrap.servers",),),
        is_open=True,
        follows_files=True,
        guarantee=Guarantee.AT_LEAST_ONCE,
        continuous=True,
        writer="headrace.driver.streams.sinks:KafkaSinkWriter",
        note="Without a column `value`, the row becomes the value: as JSON, or as `format` says.",
    ),
    StreamSink(
        name="jdbc",
        modes=(APPEND, UPDATE, COMPLETE),
        options=options.JDBC,
        required=(("url",), ("dbtable",)),
        stages_batches=True,
        guarantee=Guarantee.EFFECTIVELY_ONCE,
        writer="headrace.driver.streams.jdbc_sink:JdbcSinkWriter",
        note="One transaction writes the rows of a batch and its number. COMPLETE replaces the"
        " rows of the table; UPDATE appends the changed rows.",
    ),
    StreamSink(
        name="table",
        modes=(APPEND, COMPLETE),
        partitioning=_TABLE,
        guarantee=Guarantee.AT_LEAST_ONCE,
        writer="headrace.driver.streams.table_sink:TableSinkWriter",
        note="`TO TABLE t`. Exactly once into Delta and Iceberg tables.",
    ),
    StreamSink(
        name="delta",
        modes=(APPEND, COMPLETE),
        options=options.DELTA_SINK,
        partitioning=_TABLE,
        guarantee=Guarantee.EXACTLY_ONCE,
        has_default_path=True,
    ),
    StreamSink(
        name="iceberg",
        modes=(APPEND, COMPLETE),
        options=options.ICEBERG_SINK,
        required=(("path",),),
        partitioning=_TABLE,
        guarantee=Guarantee.EXACTLY_ONCE,
        writer="headrace.driver.streams.table_sink:IcebergSinkWriter",
        note="`path` is the name of a table in an Iceberg catalog. It is created if it is missing.",
    ),
)

SOURCES: Mapping[str, StreamSource] = {source.name: source for source in _SOURCES}
"""Sources by name."""
CONTINUOUS_SOURCES = tuple(source.name for source in _SOURCES if source.continuous)
"""Names of the sources that TRIGGER CONTINUOUS can read."""
SINKS: Mapping[str, StreamSink] = {sink.name: sink for sink in _SINKS}
"""Sinks by name."""
_LOG = logging.getLogger("headrace.streams")
_Provider = TypeVar("_Provider", StreamSource, StreamSink)
_SOURCE_GROUP, _SINK_GROUP = "headrace.sources", "headrace.sinks"
"""Groups of entry points, where nodes and drivers run. Each one is a StreamSource or StreamSink,
and has its name."""


@lru_cache
def _list_added(group: str) -> dict[str, metadata.EntryPoint]:
    return {entry.name.lower(): entry for entry in metadata.entry_points(group=group)}


@lru_cache
def _find_added(group: str, name: str, kind: type[_Provider]) -> _Provider | None:
    """Return a provider that another package adds. One that cannot be loaded is logged."""
    entry = _list_added(group).get(name.lower())
    if entry is None:
        return None
    try:
        provider = entry.load()
    except Exception:  # noqa: BLE001 - the code of a package can raise anything
        _LOG.exception("the entry point %s of %s cannot be loaded", entry.name, group)
        return None
    return provider if isinstance(provider, kind) else None


def find_source(name: str) -> StreamSource:
    """Return a source by name, whatever its case; a source that is not listed allows everything."""
    listed = SOURCES.get(name.lower()) or _find_added(_SOURCE_GROUP, name, StreamSource)
    if listed is not None:
        return listed
    return StreamSource(name=name, takes_columns=True, continuous=True, is_listed=False)


def find_sink(name: str) -> StreamSink:
    """Return a sink by name, whatever its case; a sink that is not listed allows everything."""
    listed = SINKS.get(name.lower()) or _find_added(_SINK_GROUP, name, StreamSink)
    if listed is not None:
        return listed
    return StreamSink(
        name=name,
        modes=(APPEND, UPDATE, COMPLETE),
        partitioning="as the provider defines",
        guarantee=Guarantee.AT_LEAST_ONCE,
        continuous=True,
        is_listed=False,
    )
