"""Fingerprints of a job: whether its query or its configuration has changed.

The query is what decides the rows and the state: `sql`, `code` or `script`, the target table, the
output mode, and the definitions that the job needs. The configuration is everything else, with the
options of streams and sinks that only tune them. White space and comments of SQL do not count.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headrace.deploy.definitions import NeededDefinitions
from headrace.deploy.manifest import BATCH_KEYS, JobKind, JobManifest
from headrace.deploy.script_statements import DefinitionCommand, JobStatement, read_statements
from headrace.grammar.clauses import Options
from headrace.grammar.lexer import code_tokens
from headrace.grammar.parse import parse
from headrace.grammar.stream_statements import CreateSink, CreateStream, CreateStreamAs, SaveStream
from headrace.model.connector_options import is_tuning_option

_CONFIGURATION_STARTS = frozenset({"SET", "RESET"})
"""First words of the statements of Spark's that set its configuration."""


def query_fingerprint(manifest: JobManifest, needed: NeededDefinitions) -> str:
    """Return the SHA-256 of the query of a job, in hex."""
    return _hash(describe_query(manifest, needed))


def configuration_fingerprint(manifest: JobManifest, needed: NeededDefinitions) -> str:
    """Return the SHA-256 of the configuration of a job, in hex."""
    return _hash(describe_configuration(manifest, needed))


def describe_query(manifest: JobManifest, needed: NeededDefinitions) -> dict[str, Any]:
    """Return what identifies the query of a job, as JSON, by key."""
    mode = manifest.output_mode
    return {
        str(manifest.kind): _describe_text(manifest),
        "target-table": manifest.target,
        "output-mode": None if mode is None else mode.value,
        "definitions": sorted(
            [_describe_statement(command) for command in _list_commands(needed)], key=json.dumps
        ),
        "setup": [_list_tokens(text) for text in needed.setup if not _is_configuration(text)],
    }


def describe_configuration(manifest: JobManifest, needed: NeededDefinitions) -> dict[str, Any]:
    """Return the configuration of a job, as JSON, by key."""
    trigger = manifest.parsed_trigger
    return {
        "description": manifest.description,
        "spark-properties": manifest.spark_properties,
        "trigger": None if trigger is None else trigger.to_sql(),
        **_describe_runs(manifest),
        "session": manifest.session,
        "metadata-columns": manifest.metadata_columns,
        "script": _describe_script_tuning(manifest),
        "definitions": sorted(
            [_describe_tuning(command) for command in _list_commands(needed)], key=json.dumps
        ),
        "setup": [_list_tokens(text) for text in needed.setup if _is_configuration(text)],
    }


def _describe_runs(manifest: JobManifest) -> dict[str, Any]:
    """Return the keys of a batch job, and `expect`. Other fingerprints stay as they were."""
    keys = ("expect",) if manifest.schedule is None else ("schedule", *BATCH_KEYS, "expect")
    values = manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: values[key] for key in keys if key in values}


def _hash(value: dict[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _describe_text(manifest: JobManifest) -> Any:
    text = manifest.query_text
    if manifest.kind is JobKind.CODE:
        return _describe_code(text)
    if manifest.kind is JobKind.SCRIPT and manifest.schedule is None:
        return [_describe_script_statement(statement) for statement in _read_script(text)]
    return _list_tokens(text)


def _describe_code(text: str) -> str:
    """Return Python code without comments and layout, or the text if it is not valid."""
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


def _read_script(text: str) -> list[JobStatement]:
    statements, _problems = read_statements(text, allow_queries=True)
    return statements


def _describe_script_statement(statement: JobStatement) -> Any:
    if statement.command is None:
        return _list_tokens(statement.text)
    return _describe_statement(statement.command)


def _describe_statement(command: DefinitionCommand | SaveStream) -> Any:
    """Return a statement without what only tunes it, as the tokens of one spelling."""
    if isinstance(command, CreateStreamAs):
        return _list_tokens(command.to_sql())
    plain: CreateStream | CreateSink | SaveStream = replace(command, options=())
    if isinstance(plain, SaveStream):
        plain = replace(plain, trigger=None)
    options = {key.lower(): value for key, value in command.options if not is_tuning_option(key)}
    return [_list_tokens(plain.to_sql()), options]


def _describe_script_tuning(manifest: JobManifest) -> Any:
    if manifest.kind is not JobKind.SCRIPT or manifest.schedule is not None:
        return None
    commands = [statement.command for statement in _read_script(manifest.query_text)]
    return [_describe_tuning(command) for command in commands if command is not None]


def _describe_tuning(command: DefinitionCommand | SaveStream) -> Any:
    if isinstance(command, CreateStreamAs):
        return None
    trigger = command.trigger if isinstance(command, SaveStream) else None
    return [
        command.name.casefold(),
        {key.lower(): value for key, value in _tuning_options(command.options)},
        None if trigger is None else trigger.to_sql(),
    ]


def _tuning_options(options: Options) -> Iterable[tuple[str, str]]:
    return ((key, value) for key, value in options if is_tuning_option(key))


def _list_commands(needed: NeededDefinitions) -> list[DefinitionCommand]:
    streams = [parse(text).command for text in needed.streams]
    return [*(c for c in streams if isinstance(c, DefinitionCommand)), *needed.sinks]


def _is_configuration(text: str) -> bool:
    first = next(code_tokens(text), None)
    return first is not None and first.word in _CONFIGURATION_STARTS


def _list_tokens(text: str) -> list[str]:
    """Return the tokens of a SQL text, without white space, comments and final semicolons."""
    tokens = [text[token.start : token.end] for token in code_tokens(text)]
    while tokens and tokens[-1] == ";":
        tokens.pop()
    return tokens
