"""The rows that a streaming query reads: defined streams, tables and views.

In the queries of jobs, streams can have qualified names, such as `kafka`.`orders`. Spark's
temporary views have names of one part. A stream with a qualified name is therefore a view with a
name of Headrace's own, which replaces the qualified name wherever a query reads it. Spark's parser
says where that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.avro.functions import from_avro

from headrace.driver.failures import InvalidStream
from headrace.driver.spark_version.connectors import to_avro_schema
from headrace.driver.spark_version.plans import (
    drop_temporary_views,
    find_relations,
    find_temporary_view,
    is_view,
)
from headrace.driver.streams.connectors import check_connector, check_provider
from headrace.errors import Position
from headrace.grammar.clauses import DeclaredColumn, qualified_name_to_sql
from headrace.grammar.parse import parse
from headrace.grammar.quoting import quote_name
from headrace.grammar.stream_statements import CreateStream, CreateStreamAs, SaveStream
from headrace.grammar.text import offset_at, position_at
from headrace.model.connector_options import KAFKA_PREFIX, KAFKA_SOURCE
from headrace.model.stream_providers import FORMAT_OPTION, SOURCES, find_source
from headrace.model.text import cut_text

_KAFKA_READING = {name.lower() for name in KAFKA_SOURCE}


def register_streams(session: SparkSession, definitions: Iterable[str]) -> list[str]:
    """Create the temporary views of these streams in a session, and return their names.

    Raises InvalidStream and the errors of Spark.
    """
    return list(register_job_streams(session, definitions).values())


def register_job_streams(
    session: SparkSession, definitions: Iterable[str]
) -> dict[tuple[str, ...], str]:
    """Create the temporary views of streams, which can have qualified names in a job.

    Among the definitions of a job can be temporary views over streams, as it declares them.

    Returns:
        Names of the views, by the parts of the streams' names in lower case.

    Raises InvalidStream and the errors of Spark.
    """
    views: dict[tuple[str, ...], str] = {}
    for text in definitions:
        command = parse(text).command
        if isinstance(command, CreateStream | CreateStreamAs):
            if isinstance(command, CreateStreamAs):
                query = replace_qualified_names(session, command.query, qualified(views)).text
                command = replace(command, query=query)
            frame = open_stream(session, command)
            view = view_of(command.name, command.qualifier)
            frame.createOrReplaceTempView(quote_name(view))
            parts = (*command.qualifier, command.name)
            views[tuple(part.casefold() for part in parts)] = view
        elif command is None:
            _create_view(session, text, qualified(views))
    return views


def _create_view(session: SparkSession, text: str, streams: Mapping[tuple[str, ...], str]) -> None:
    """Run the CREATE TEMPORARY VIEW of a job. The view of a session with the name is replaced."""
    replaced = replace_qualified_names(session, text, streams).text
    name = name_of_temporary_view(session, replaced)
    drop_temporary_views(session, [name])
    try:
        session.sql(replaced)
    except AnalysisException as error:
        # An earlier run in this driver has created the global temporary view.
        if error.getCondition() != "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS":
            raise


def name_of_temporary_view(session: SparkSession, text: str) -> str:
    """Return the name of the temporary view that a statement creates.

    Raises InvalidStream if the statement creates none, and the errors of Spark's parser.
    """
    name = find_temporary_view(session, text)
    if name is None:
        raise InvalidStream(f"This statement creates no temporary view: {cut_text(text, 200)}")
    return name


def qualified(views: Mapping[tuple[str, ...], str]) -> dict[tuple[str, ...], str]:
    """Return the views of the streams that have qualified names."""
    return {parts: view for parts, view in views.items() if len(parts) > 1}


def open_stream(session: SparkSession, command: CreateStream | CreateStreamAs) -> DataFrame:
    """Return the rows of a defined stream. Raises InvalidStream and the errors of Spark."""
    if isinstance(command, CreateStreamAs):
        frame = session.sql(command.query)
        if not frame.isStreaming:
            raise InvalidStream(
                f"The query of the stream {command.name} reads no stream. To read a table as a"
                " stream, write STREAM before its name: FROM STREAM t."
            )
        return frame
    source = find_source(command.provider)
    if source.is_listed:
        check_connector(session, source.name, source.package)
    else:
        check_provider(session, source.name, SOURCES)
    if source.reader is None:
        return read_format(session, source.name, command)
    read: Callable[[SparkSession, str, CreateStream], DataFrame] = resolve_name(source.reader)
    return read(session, source.name, command)


def read_format(session: SparkSession, name: str, command: CreateStream) -> DataFrame:
    """Return the rows that Spark's own reader reads from the data source with a source's name."""
    reader = session.readStream.format(name).options(**dict(command.options))
    if command.columns is not None:
        reader = reader.schema(columns_to_ddl(command.columns))
    return reader.load()


def open_source(session: SparkSession, command: SaveStream, streams: Iterable[str]) -> DataFrame:
    """Return the rows that a SAVE STREAM reads.

    Args:
        streams: Names of the defined streams, whose views the session has.
    """
    name = qualified_name_to_sql(command.source)
    is_defined = len(command.source) == 1 and command.source[0].casefold() in {
        stream.casefold() for stream in streams
    }
    frame = session.table(name)
    if not frame.isStreaming:
        if is_defined:
            raise InvalidStream(f"{command.source[0]} is not a stream any more.")
        if is_view(frame):
            raise InvalidStream(
                f"{name} is a view that reads no stream. Its query must read a stream that you have"  # noqa: S608
                " defined, or a table as a stream: SELECT … FROM STREAM t."
            )
        # A table of files, Delta or Iceberg. A temporary view over a stream is one already.
        frame = session.readStream.table(name)
    return frame if command.columns is None else select_columns(frame, command.columns)


def explain_missing_source(error: AnalysisException, command: SaveStream) -> Exception:
    """Return what to write for a source that does not exist, or the error if it is another one."""
    name = qualified_name_to_sql(command.source)
    missing = (error.getMessageParameters() or {}).get("relationName")
    if error.getCondition() != SourceNotFound.condition or missing != name:
        return error
    return SourceNotFound(
        f"{name} is neither a stream that you have defined, nor a table, nor a temporary view of"
        " the session of the statement. Define it with CREATE STREAM, or name in SAVE STREAM the"
        " session that has the view."
    )


class SourceNotFound(InvalidStream):
    """The source of a query does not exist."""

    code = "source_not_found"
    condition = "TABLE_OR_VIEW_NOT_FOUND"
    sqlstate = "42P01"


def read_kafka(session: SparkSession, name: str, command: CreateStream) -> DataFrame:
    """Return the declared columns, read from the values of Kafka's records."""
    if command.columns is None:
        return read_format(session, name, command)
    options = dict(command.options)
    format_ = next(
        (value for key, value in options.items() if key.lower() == FORMAT_OPTION), "json"
    ).lower()
    reading = {key: value for key, value in options.items() if _is_of_kafka(key)}
    parsing = {
        key: value
        for key, value in options.items()
        if key not in reading and key.lower() != FORMAT_OPTION
    }
    records = session.readStream.format(name).options(**reading).load()
    if format_ == "raw":
        return select_columns(records, command.columns)
    ddl = columns_to_ddl(command.columns)
    if format_ == "avro":
        check_connector(session, "avro")
        row = from_avro(F.col("value"), _avro_schema(session, ddl, parsing), parsing)
    else:
        parse_text = F.from_json if format_ == "json" else F.from_csv
        row = parse_text(F.col("value").cast("string"), ddl, parsing)
    return records.select(row.alias("row")).select("row.*")


def _avro_schema(session: SparkSession, ddl: str, options: dict[str, str]) -> str:
    """Return the Avro schema of the records: as the option gives it, else from the columns."""
    given = next((value for key, value in options.items() if key.lower() == "avroschema"), None)
    if given is not None:
        return given
    return to_avro_schema(session, ddl)


def _is_of_kafka(key: str) -> bool:
    return key.lower().startswith(KAFKA_PREFIX) or key.lower() in _KAFKA_READING


def columns_to_ddl(columns: Iterable[DeclaredColumn]) -> str:
    """Return columns as Spark's schema text."""
    return ", ".join(column.to_sql() for column in columns)


def select_columns(frame: DataFrame, columns: Iterable[DeclaredColumn]) -> DataFrame:
    """Return these columns of a frame, cast to their types. Raises AnalysisException."""
    session = frame.sparkSession
    # Spark's parser reads the types: NOT NULL and COMMENT are no part of a cast.
    schema = session.createDataFrame([], columns_to_ddl(columns)).schema
    return frame.selectExpr(
        *(
            f"CAST({quote_name(field.name)} AS {field.dataType.simpleString()})"
            f" AS {quote_name(field.name)}"
            for field in schema.fields
        )
    )


_PREFIX = "headrace_stream"


@dataclass(frozen=True, slots=True)
class ReplacedNames:
    """A query whose qualified names are replaced."""

    text: str
    written: str
    edits: tuple[tuple[int, int, int], ...] = ()
    """Of each replacement: start and end in `text`, and the end in the text as written."""

    def locate(self, line: int, column: int) -> Position:
        """Return the position in the text as written of a position in `text`."""
        offset = written = offset_at(self.text, Position(line, column))
        for start, end, written_end in self.edits:
            if offset < start:
                break
            written = written_end + max(0, offset - end)
        return position_at(self.written, written)


def view_of(name: str, qualifier: Sequence[str]) -> str:
    """Return the name of the view of a stream."""
    return name if not qualifier else "__".join([_PREFIX, *qualifier, name])


def replace_qualified_names(
    session: SparkSession, text: str, views: Mapping[tuple[str, ...], str]
) -> ReplacedNames:
    """Return a query that reads views instead of streams with qualified names.

    A text that Spark's parser refuses is returned as it is.

    Args:
        views: Names of the views, by the parts of the qualified name in lower case.
    """
    if not views:
        return ReplacedNames(text, text)
    parts, edits, last, size = list[str](), list[tuple[int, int, int]](), 0, 0
    for start, stop, name in find_relations(session, text):
        view = views.get(tuple(part.casefold() for part in name))
        if view is None:
            continue
        parts += [text[last:start], quote_name(view)]
        size += start - last
        edits.append((size, size + len(parts[-1]), stop + 1))
        size += len(parts[-1])
        last = stop + 1
    return ReplacedNames("".join([*parts, text[last:]]), text, tuple(edits))
