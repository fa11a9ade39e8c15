"""The queries of a manifest: statements that the supervisor of streams can run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from headrace.control.jobs.trigger_checks import list_sources
from headrace.control.places import to_file_name
from headrace.control.streams.checks import (
    check_create_sink,
    check_create_stream,
    check_retry_options,
    choose_sink,
)
from headrace.deploy.batch_writes import (
    OVERWRITE_CONF,
    create_statement,
    parse_write,
    write_statement,
)
from headrace.deploy.definitions import NeededDefinitions, find_created_name
from headrace.deploy.freshness import complete_lag
from headrace.deploy.manifest import DEDICATED, JobManifest
from headrace.deploy.relations import order_relations, split_definitions
from headrace.deploy.script_statements import DefinitionCommand, read_statements
from headrace.errors import InvalidStatement, Position
from headrace.files.places import to_hadoop_form
from headrace.grammar.parse import parse
from headrace.grammar.script import split_script
from headrace.grammar.secret_references import check_has_no_reference
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    SaveStream,
)
from headrace.grammar.text import offset_at
from headrace.model.deployment import JobQuery, JobSession
from headrace.model.job import METADATA_COLUMNS, JobMetadata, JobRows
from headrace.model.job_messages import ROWS_VIEW
from headrace.model.run import (
    BatchSpec,
    BatchStatement,
    BatchTarget,
    CatchUp,
    FiringRules,
    Overlap,
    ResumeAt,
    RunRetries,
    WriteMode,
)
from headrace.model.schedule import Schedule
from headrace.model.session import SessionSpec
from headrace.model.stream_providers import CHECKPOINT_OPTION
from headrace.model.stream_query import QuerySpec

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
_INTERVAL = re.compile(r":interval_(start|end)\b")
_BEFORE_ANY_VERSION = datetime(1970, 1, 1, tzinfo=UTC)


def is_application_property(key: str) -> bool:
    """Return whether a property of Spark cannot differ between the queries of an application."""
    if key.startswith("spark.headrace.") or not key.startswith("spark."):
        return False
    return not key.startswith("spark.sql.") or key.startswith(_STATIC_SQL)


def choose_session(manifest: JobManifest, *, profile: str, py_files: Iterable[str]) -> JobSession:
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


def check_definition(text: str, command: DefinitionCommand) -> None:
    """Raise InvalidStatement unless the stream or sink of a table definition can exist."""
    if isinstance(command, CreateSink):
        check_create_sink(text, command)
    else:
        _check_stream(text)


def compile_batch(
    manifest: JobManifest, needed: NeededDefinitions, session: JobSession
) -> BatchSpec | None:
    """Return what the runs of a manifest do; None for a stream.

    Args:
        session: The session that `choose_session` returns.

    Raises:
        InvalidStatement: The manifest is not possible in a batch job.
        SecretMisplaced: The code has a reference to a secret.
    """
    if manifest.schedule is None:
        return None
    schedule = complete_lag(manifest, needed.setup)
    definitions = split_definitions(needed.setup)
    statements = [BatchStatement(text=text) for text in definitions.per_run]
    target = _describe_target(manifest)
    if manifest.script is not None:
        statements += [BatchStatement(text=part.text) for part in split_script(manifest.script)]
    else:
        assert target is not None
        statements += _write_rows(manifest, target, needed.setup)
    return BatchSpec(
        rules=_describe_rules(manifest, schedule),
        definitions=definitions.deployed,
        statements=statements,
        conf=_list_query_conf(manifest),
        # A session of its own costs a driver: only a job that asks for one has it.
        in_pool=manifest.session is None and session.spec == SessionSpec(),
        target=target,
        retries=manifest.retries or RunRetries(),
        time_limit=manifest.time_limit,
        resume_at=manifest.resume_at or ResumeAt.FAILED_STATEMENT,
    )


def _choose_overlap(manifest: JobManifest, schedule: Schedule) -> Overlap:
    """Return what happens to runs that overlap. A job needs each run that a condition starts."""
    if manifest.overlap is None:
        # The tables of a `max-lag` may not be known yet.
        has_conditions = list_sources(schedule) or schedule.files or schedule.max_lag
        return Overlap.QUEUE if has_conditions else Overlap.SKIP
    return manifest.overlap


def _describe_rules(manifest: JobManifest, schedule: Schedule) -> FiringRules:
    return FiringRules(
        schedule=None if schedule.is_manual else schedule,
        overlap=_choose_overlap(manifest, schedule),
        catch_up=manifest.catch_up or _choose_catch_up(manifest),
        delay=manifest.delay or timedelta(),
        lookback=manifest.lookback or 0,
    )


def _describe_target(manifest: JobManifest) -> BatchTarget | None:
    if manifest.target is None:
        return None
    write, keys = parse_write(manifest.write or WriteMode.APPEND)
    partition_by = tuple(manifest.partition_by or ())
    return BatchTarget(
        name=manifest.target, write=write, merge_keys=keys, partition_by=partition_by
    )


def _write_rows(
    manifest: JobManifest, target: BatchTarget, setup: Iterable[str]
) -> list[BatchStatement]:
    """Return the statements that create the target table of a job, and write the rows of a run.

    Args:
        setup: Definitions of the job, one of which may create the table.
    """
    check_has_no_reference(manifest.code or "", "The code of a job")
    _check_expectations(manifest, target)
    query = manifest.sql or f"SELECT * FROM {ROWS_VIEW}"  # noqa: S608 - a constant
    query = add_metadata(query) if manifest.metadata_columns else query
    statements = []
    if target.name[-1].casefold() not in {
        (find_created_name(text) or "").casefold() for text in setup
    }:
        create = create_statement(target, query)
        statements.append(BatchStatement(text=create, code=manifest.code, creates_target=True))
    is_overwrite = target.write is WriteMode.OVERWRITE_PARTITIONS
    write = BatchStatement(
        text=write_statement(target, query),
        conf=OVERWRITE_CONF if is_overwrite else {},
        code=manifest.code,
        expectations=manifest.expect or [],
    )
    return [*statements, write]


def _check_expectations(manifest: JobManifest, target: BatchTarget) -> None:
    """Raise InvalidStatement or SecretMisplaced for expectations that are not possible."""
    if manifest.expect and target.write is WriteMode.MERGE:
        raise InvalidStatement(
            "A job with `write: merge` cannot have `expect`: a MERGE may read its rows twice.",
            hint="Write the rows with `overwrite-partitions` or `append`.",
        )
    _check_conditions_have_no_secret(manifest)


def _check_conditions_have_no_secret(manifest: JobManifest) -> None:
    for each in manifest.expect or []:
        check_has_no_reference(each.condition, f"The condition of the expectation {each.name}")


def add_metadata(sql: str) -> str:
    """Return a query with the metadata columns of a job, whose values are parameters of a run."""
    query = sql.strip().removesuffix(";")
    first, *others = METADATA_COLUMNS
    columns = [f"current_timestamp() AS {first}"]
    columns += [f":{name.removeprefix('__')} AS {name}" for name in others]
    return f"SELECT *, {', '.join(columns)} FROM (\n{query}\n)"  # noqa: S608 - SQL of the user


def _choose_catch_up(manifest: JobManifest) -> CatchUp:
    """Return the default: a job that reads an interval needs each interval."""
    return CatchUp.ALL if _INTERVAL.search(manifest.query_text) else CatchUp.LAST


def compile_queries(manifest: JobManifest, needed: NeededDefinitions) -> list[JobQuery]:
    """Return the queries of a manifest.

    Args:
        needed: The table definitions that the manifest needs.

    Raises:
        InvalidStatement: A query cannot write to its target.
        InvalidSetting: An option of the retry policy has a wrong value.
        SecretMisplaced: A condition has a reference to a secret.
    """
    conf = _list_query_conf(manifest)
    if manifest.script is not None:
        return _compile_script(manifest.script, needed, conf)
    command = _write_statement(manifest, needed.sink)
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
    relations = order_relations([*needed.streams, *needed.setup])
    _check_conditions_have_no_secret(manifest)
    rows = JobRows(
        setup=relations.setup,
        sql=manifest.sql,
        code=manifest.code,
        metadata=metadata,
        expectations=manifest.expect or [],
    )
    return [_compile(command, relations.streams, needed.sink, rows, conf, directory="")]


def _list_query_conf(manifest: JobManifest) -> dict[str, str]:
    """Return the Spark configuration of a manifest that can differ between queries of a session."""
    return {
        key: value
        for key, value in manifest.spark_properties.items()
        if not is_application_property(key)
    }


def _write_statement(manifest: JobManifest, sink: CreateSink | None) -> SaveStream:
    """Return the statement that runs the query of a manifest with `sql` or `code`."""
    assert manifest.target is not None
    return SaveStream(
        source=(manifest.name,),
        target=manifest.target if sink is None else (sink.name,),
        to_table=sink is None,
        query_name=manifest.name,
        trigger=manifest.parsed_trigger,
        output_mode=manifest.output_mode,
    )


def find_key_of_clause(manifest: JobManifest, needed: NeededDefinitions, place: Position) -> str:
    """Return the key of a manifest to which a position in its generated statement belongs.

    Return "" for a manifest with `script`, whose statements are not generated.
    """
    if manifest.script is not None:
        return ""
    command = _write_statement(manifest, needed.sink)
    text = command.to_sql()
    offset = offset_at(text, place)
    clauses = {
        "output-mode": None if command.output_mode is None else "OUTPUT MODE",
        "trigger": None if command.trigger is None else "TRIGGER",
    }
    for key, keyword in clauses.items():
        if keyword is not None and offset > text.rindex(f" {keyword} "):
            return key
    return "target-table"


def _compile_script(
    script: str, needed: NeededDefinitions, conf: Mapping[str, str]
) -> list[JobQuery]:
    statements, _problems = read_statements(script, allow_queries=True)
    commands = [each.command for each in statements if isinstance(each.command, SaveStream)]
    own = [each for each in statements if not isinstance(each.command, SaveStream)]
    sinks = {sink.name.casefold(): sink for sink in needed.sinks}
    sinks |= {
        each.command.name.casefold(): each.command
        for each in own
        if isinstance(each.command, CreateSink)
    }
    relations = order_relations(
        [
            *needed.streams,
            *needed.setup,
            *(each.text for each in own if not isinstance(each.command, CreateSink)),
        ]
    )
    return [
        _compile(
            command,
            relations.streams,
            None if command.to_table else sinks.get(command.target[-1].casefold()),
            JobRows(setup=relations.setup),
            conf,
            directory="" if len(commands) == 1 else to_file_name(command.name),
        )
        for command in commands
    ]


def _compile(
    command: SaveStream,
    streams: Sequence[str],
    sink_definition: CreateSink | None,
    rows: JobRows,
    conf: Mapping[str, str],
    *,
    directory: str,
) -> JobQuery:
    _check_definitions(streams, sink_definition)
    text = command.to_sql()
    definition = None if sink_definition is None else replace(sink_definition, qualifier=())
    sinks = {} if definition is None else {definition.name.casefold(): definition}
    sink = choose_sink(text, command, sinks)
    if CHECKPOINT_OPTION.lower() in sink.by_key:
        raise InvalidStatement(
            f"The option {CHECKPOINT_OPTION} is not possible in a job: the state location decides"
            " where its checkpoints are.",
            hint=f"Remove the option {CHECKPOINT_OPTION}.",
        )
    check_retry_options(sink.options, conf)
    path = sink.by_key.get("path") if sink.provider.has_default_path else None
    texts = [*streams, *([] if definition is None else [definition.to_sql()])]
    spec = QuerySpec(
        text=text,
        definitions=texts,
        sink=sink.provider.name,
        path=None if path is None else to_hadoop_form(path),
        conf=dict(conf),
        rows=rows,
    )
    return JobQuery(
        name=command.name,
        directory=directory,
        spec=spec,
        needs_path=sink.provider.has_default_path and spec.path is None,
    )


def _check_definitions(streams: Iterable[str], sink: CreateSink | None) -> None:
    """Raise InvalidStatement unless the streams and the sink of a query can exist."""
    for text in streams:
        _check_stream(text)
    if sink is not None:
        check_create_sink(sink.to_sql(), sink)


@lru_cache(maxsize=1000)
def _check_stream(text: str) -> None:
    """Raise InvalidStatement unless a stream can exist. Many jobs share a definition."""
    command = parse(text).command
    if isinstance(command, CreateStream):
        check_create_stream(text, command)
