"""The queries of a manifest: statements that the supervisor of streams can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import quote

from headrace.control.streams.checks import check_retry_options, choose_sink
from headrace.deploy.definitions import Definitions, NeededDefinitions, Script
from headrace.deploy.manifest import Manifest
from headrace.errors import HeadraceError, InvalidStatement
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, SaveStream
from headrace.model.deployment import JobQuery, JobSession
from headrace.model.job import JobMetadata, JobRows
from headrace.model.session import SessionSpec
from headrace.model.stream_providers import CHECKPOINT_OPTION
from headrace.model.stream_query import QuerySpec

DEDICATED = "dedicated"
_STATIC_SQL = (
    "spark.sql.extensions",
    "spark.sql.warehouse.dir",
    "spark.sql.catalogImplementation",
    "spark.sql.catalog.",
    "spark.sql.hive.metastore.",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.sql.queryExecutionListeners",
    "spark.sql.ui.",
    "spark.sql.globalTempDatabase",
    "spark.sql.sources.schemaStringLengthThreshold",
    "spark.sql.event.truncate.length",
)
"""Configuration of Spark SQL that an application reads once, at its start."""
_BEFORE_ANY_VERSION = datetime(1970, 1, 1, tzinfo=UTC)


def is_application_property(key: str) -> bool:
    """Return whether a property of Spark cannot differ between the queries of an application."""
    if key.startswith("spark.headrace.") or not key.startswith("spark."):
        return False
    return not key.startswith("spark.sql.") or key.startswith(_STATIC_SQL)


def choose_session(manifest: Manifest, *, profile: str, py_files: Iterable[str]) -> JobSession:
    """Return the session of a job: that of all jobs of the profile, a named one, or its own."""
    if manifest.session is None:
        name = f"jobs-{profile}"
    elif manifest.session == DEDICATED:
        name = f"job-{manifest.name}"
    else:
        name = manifest.session
    conf = {
        key: value
        for key, value in manifest.spark_properties.items()
        if is_application_property(key)
    }
    spec = SessionSpec(profile=profile, conf=conf, py_files=list(py_files))
    return JobSession(name=name, spec=spec)


def compile_queries(manifest: Manifest, definitions: Definitions) -> list[JobQuery]:
    """Return the queries of a manifest.

    Raises:
        InvalidStatement: A query cannot write to its target.
        InvalidSetting: An option of the retry policy has a wrong value.
    """
    conf = {
        key: value
        for key, value in manifest.spark_properties.items()
        if not is_application_property(key)
    }
    if manifest.script is not None:
        return _compile_script(manifest, definitions, conf)
    text = manifest.sql if manifest.sql is not None else manifest.code or ""
    assert manifest.target is not None
    needed = definitions.needed_for(text, manifest.target)
    command = SaveStream(
        source=(manifest.name,),
        target=manifest.target if needed.sink is None else (needed.sink.name,),
        to_table=needed.sink is None,
        query_name=manifest.name,
        trigger=manifest.stream_trigger,
        output_mode=manifest.stream_output_mode,
    )
    metadata = None
    if manifest.metadata_columns:
        # The values belong to the version, which does not exist yet.
        metadata = JobMetadata(
            name=manifest.name,
            description=manifest.description,
            query_id="",
            version=0,
            created_at=_BEFORE_ANY_VERSION,
        )
    rows = JobRows(setup=needed.setup, sql=manifest.sql, code=manifest.code, metadata=metadata)
    return [_compile(command, needed, rows, conf, directory="")]


def _compile_script(
    manifest: Manifest, definitions: Definitions, conf: Mapping[str, str]
) -> list[JobQuery]:
    script = definitions.with_script(manifest.script or "")
    commands = script.queries
    return [
        _compile(
            command,
            script.needed_for_query(command),
            JobRows(setup=script.setup),
            conf,
            directory="" if len(commands) == 1 else quote(command.name, safe=""),
        )
        for command in commands
    ]


def _compile(
    command: SaveStream,
    needed: NeededDefinitions,
    rows: JobRows,
    conf: Mapping[str, str],
    *,
    directory: str,
) -> JobQuery:
    text = command.to_sql()
    sinks = {} if needed.sink is None else {needed.sink.name.casefold(): needed.sink}
    sink = choose_sink(text, command, sinks)
    if CHECKPOINT_OPTION.lower() in sink.by_key:
        raise InvalidStatement(
            f"The option {CHECKPOINT_OPTION} is not possible in a job: the state location decides"
            " where its checkpoints are.",
            hint=f"Remove the option {CHECKPOINT_OPTION}.",
        )
    check_retry_options(sink.options, conf)
    texts = list(needed.streams)
    if needed.sink is not None:
        texts.append(replace(needed.sink, qualifier=()).to_sql())
    spec = QuerySpec(
        text=text,
        definitions=texts,
        sink=sink.provider.name,
        path=sink.by_key.get("path") if sink.provider.has_default_path else None,
        conf=dict(conf),
        rows=rows,
    )
    return JobQuery(
        name=command.name,
        directory=directory,
        spec=spec,
        needs_path=sink.provider.has_default_path and spec.path is None,
    )
