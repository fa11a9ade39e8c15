"""Checks of statements on streams, before anything is stored or started."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import InvalidLocation, InvalidStatement
from headrace.files.places import check_has_no_password
from headrace.grammar.clauses import Options, override_options, qualified_name_to_sql
from headrace.grammar.lexer import code_tokens
from headrace.grammar.quoting import quote_name
from headrace.grammar.secret_references import check_has_no_reference
from headrace.grammar.stream_clauses import TriggerKind
from headrace.grammar.stream_statements import (
    CreateSink,
    CreateStream,
    CreateStreamAs,
    SaveStream,
)
from headrace.grammar.text import find_position, position_at
from headrace.model.retry_policy import read_retry_policy
from headrace.model.stream_providers import (
    CHECKPOINT_OPTION,
    CONTINUOUS_SOURCES,
    FORMAT_OPTION,
    KAFKA_FORMATS,
    RETRY_PREFIXES,
    SINKS,
    StreamSink,
    StreamSource,
    find_sink,
    find_source,
)

_LOCATIONS = {"path", CHECKPOINT_OPTION.lower()}


def check_locations(text: str, options: Options) -> None:
    """Raise InvalidLocation, with the position of the option, if a location has a password.

    Raise SecretMisplaced for a reference to a secret in it: the store keeps locations.
    """
    for key, value in options:
        if key.lower() not in _LOCATIONS:
            continue
        check_has_no_reference(value, f"The location in the option {key}")
        try:
            check_has_no_password(value)
        except InvalidLocation as error:
            raise InvalidLocation(
                error.message, position=find_position(text, key), hint=error.hint
            ) from None


_MAX_LISTED = 60
"""Largest number of options in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSink:
    """The sink of a query: its provider, with what CREATE SINK and SAVE STREAM say together."""

    provider: StreamSink
    options: Options
    partitioned_on: tuple[str, ...]

    @property
    def by_key(self) -> dict[str, str]:
        """Options by key in lower case."""
        return {key.lower(): value for key, value in self.options}


def check_is_unqualified(text: str, command: CreateStream | CreateStreamAs | CreateSink) -> None:
    """Raise InvalidStatement if the new stream or sink has a qualified name."""
    if not command.qualifier:
        return
    words = list(code_tokens(text))
    keywords = 4 if command.replace else 2
    raise InvalidStatement(
        "Only table definitions of jobs can have qualified names. This statement defines"
        f" {qualified_name_to_sql((*command.qualifier, command.name))}.",
        position=position_at(text, words[keywords].start),
        hint=f"Define {quote_name(command.name)}.",
    )


def check_create_stream(text: str, command: CreateStream) -> None:
    """Raise InvalidStatement unless the source of a stream can exist."""
    check_locations(text, command.options)
    source = find_source(command.provider)
    if not source.is_listed:
        return
    _check_source_columns(text, source, command)
    _check_options(text, command.options, source.options, source.prefixes, source.name)
    _check_required(source.name, source.required, command.options)
    _check_format(text, command.options, has_columns=command.columns is not None)


def check_create_sink(text: str, command: CreateSink) -> None:
    """Raise InvalidStatement unless a query can write to the sink."""
    check_locations(text, command.options)
    if find_sink(command.name).is_listed:
        raise _error(text, command.name, f"{command.name} is the name of a provider.")
    provider = _find_provider(text, command.provider)
    sink = ChosenSink(
        provider=provider, options=command.options, partitioned_on=command.partitioned_on
    )
    _check_sink_options(text, sink)
    _check_partitioning(text, sink)
    if command.columns is not None:
        check_partition_columns(
            text, sink.partitioned_on, [column.name for column in command.columns]
        )


def choose_sink(text: str, command: SaveStream, sinks: Mapping[str, CreateSink]) -> ChosenSink:
    """Return the sink of a SAVE STREAM. Raise InvalidStatement if it cannot write there.

    Args:
        sinks: Defined sinks, by name in lower case.
    """
    if command.to_table:
        sink = ChosenSink(
            provider=SINKS["table"], options=command.options, partitioned_on=command.partitioned_on
        )
    else:
        sink = _choose_named(text, command, sinks)
    check_locations(text, sink.options)
    _check_mode(text, command, sink.provider)
    _check_trigger(text, command, sink.provider)
    _check_partitioning(text, sink)
    _check_sink_options(text, sink)
    _check_required(sink.provider.name, sink.provider.required, sink.options)
    return sink


def check_source_trigger(text: str, command: SaveStream, source: CreateStream) -> None:
    """Raise InvalidStatement for TRIGGER CONTINUOUS over a source that only has batches."""
    trigger = command.trigger
    is_continuous = trigger is not None and trigger.kind is TriggerKind.CONTINUOUS
    if is_continuous and not find_source(source.provider).continuous:
        raise _error(
            text,
            "CONTINUOUS",
            f"The source {source.provider.lower()} does not support TRIGGER CONTINUOUS. Sources"
            f" that do: {', '.join(CONTINUOUS_SOURCES)}.",
        )


def check_retry_options(options: Options, conf: Mapping[str, str]) -> None:
    """Raise InvalidSetting unless the options of a retry policy are valid."""
    read_retry_policy(dict(options), conf)


def check_partition_columns(text: str, names: Iterable[str], columns: Collection[str]) -> None:
    """Raise InvalidStatement if PARTITIONED ON names a column that does not exist."""
    known = {column.casefold() for column in columns}
    for name in names:
        if name.casefold() not in known:
            raise _error(
                text,
                name,
                f"PARTITIONED ON names the column {name}, which the query does not have. Columns:"
                f" {', '.join(columns)}.",
            )


def _choose_named(text: str, command: SaveStream, sinks: Mapping[str, CreateSink]) -> ChosenSink:
    # A provider that is a class has a name of several parts.
    name = ".".join(command.target)
    defined = sinks.get(name.casefold()) if len(command.target) == 1 else None
    if defined is None:
        return ChosenSink(
            provider=_find_provider(text, name),
            options=command.options,
            partitioned_on=command.partitioned_on,
        )
    return ChosenSink(
        provider=_find_provider(text, defined.provider),
        options=override_options(defined.options, command.options),
        partitioned_on=command.partitioned_on or defined.partitioned_on,
    )


def _find_provider(text: str, name: str) -> StreamSink:
    provider = find_sink(name)
    if provider.name == "table":
        raise _error(text, name, "A table needs its name: TO TABLE name.")
    return provider


def _check_source_columns(text: str, source: StreamSource, command: CreateStream) -> None:
    if command.columns is not None and not source.takes_columns:
        raise _error(
            text,
            command.columns[0].name,
            f"The source {source.name} has columns of its own, and none can be declared.",
        )
    if command.columns is None and source.needs_columns:
        raise _error(
            text,
            command.provider,
            f"The source {source.name} needs declared columns: CREATE STREAM {command.name}"
            f" (column type, …) FROM {source.name}.",
        )


def _check_mode(text: str, command: SaveStream, provider: StreamSink) -> None:
    mode = command.output_mode
    if mode is not None and mode.value not in provider.modes:
        raise _error(
            text,
            mode.value,
            f"The sink {provider.name} does not support the output mode {mode}. Supported:"
            f" {', '.join(provider.modes)}.",
        ).with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE", "42KDE")


def _check_trigger(text: str, command: SaveStream, provider: StreamSink) -> None:
    trigger = command.trigger
    if trigger is None or trigger.kind is not TriggerKind.CONTINUOUS or provider.continuous:
        return
    supported = ", ".join(sink.name for sink in SINKS.values() if sink.continuous)
    raise _error(
        text,
        "CONTINUOUS",
        f"The sink {provider.name} does not support TRIGGER CONTINUOUS. Sinks that do:"
        f" {supported}.",
    )


def _check_partitioning(text: str, sink: ChosenSink) -> None:
    if sink.partitioned_on and sink.provider.partitioning is None:
        supported = ", ".join(each.name for each in SINKS.values() if each.partitioning)
        raise _error(
            text,
            "PARTITIONED",
            f"The sink {sink.provider.name} has no partitions. Sinks that do: {supported}.",
        )


def _check_sink_options(text: str, sink: ChosenSink) -> None:
    provider = sink.provider
    if not provider.is_listed:
        return
    common = {CHECKPOINT_OPTION} if provider.write_ahead_log else set[str]()
    _check_options(
        text,
        sink.options,
        provider.options | common,
        (*provider.prefixes, *RETRY_PREFIXES),
        provider.name,
    )
    _check_format(text, sink.options, has_columns=True)


def _check_options(
    text: str,
    options: Options,
    allowed: frozenset[str] | set[str],
    prefixes: tuple[str, ...],
    provider: str,
) -> None:
    known = {name.lower() for name in allowed}
    for key, _value in options:
        if key.lower() in known or key.lower().startswith(prefixes):
            continue
        near = difflib.get_close_matches(key, allowed, 1)
        listed = ", ".join([*sorted(allowed)[:_MAX_LISTED], *(f"{name}*" for name in prefixes)])
        meant = f" Did you mean {near[0]}?" if near else ""
        raise _error(
            text,
            key,
            f"{provider} has no option {key}.{meant} Options: {listed or 'none'}.",
        )


def _check_required(provider: str, required: Iterable[tuple[str, ...]], options: Options) -> None:
    given = {key.lower() for key, _value in options}
    for group in required:
        count = sum(name.lower() in given for name in group)
        names = " or ".join(group)
        if count == 0:
            raise InvalidStatement(f"{provider} needs the option {names}.")
        if count > 1:
            raise InvalidStatement(f"{provider} takes only one of the options {names}.")


def _check_format(text: str, options: Options, *, has_columns: bool) -> None:
    value = {key.lower(): value for key, value in options}.get(FORMAT_OPTION)
    if value is None:
        return
    if value.lower() not in KAFKA_FORMATS:
        raise _error(
            text,
            value,
            f"The option {FORMAT_OPTION} is {value!r}. Allowed values: {', '.join(KAFKA_FORMATS)}.",
        )
    if value.lower() != "raw" and not has_columns:
        raise _error(
            text, value, f"The format {value} needs declared columns, which the value is read into."
        )


def _error(text: str, value: str, message: str) -> InvalidStatement:
    return InvalidStatement(message, position=find_position(text, value))
