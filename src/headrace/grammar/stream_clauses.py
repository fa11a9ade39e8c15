"""The clauses of the statements on streams that follow the target, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from headrace.grammar.clauses import (
    Interval,
    Options,
    names_to_sql,
    options_to_sql,
    read_interval,
    read_names,
    read_options,
)
from headrace.grammar.lexer import code_tokens
from headrace.grammar.token_reader import TokenReader


class OutputMode(StrEnum):
    """Which rows of a result a query writes."""

    APPEND = "APPEND"
    COMPLETE = "COMPLETE"
    UPDATE = "UPDATE"


class TriggerKind(StrEnum):
    """When a query runs its next batch."""

    INTERVAL = "INTERVAL"
    ONCE = "ONCE"
    AVAILABLE_NOW = "AVAILABLE NOW"
    CONTINUOUS = "CONTINUOUS"


@dataclass(frozen=True, slots=True)
class StreamTrigger:
    """The TRIGGER clause of a query."""

    kind: TriggerKind
    interval: Interval | None = None
    """Given for INTERVAL and CONTINUOUS only."""

    def to_sql(self) -> str:
        parts = [] if self.kind is TriggerKind.INTERVAL else [self.kind.value]
        if self.interval is not None:
            parts.append(self.interval.to_sql())
        return f"TRIGGER {' '.join(parts)}"


class StreamClauses:
    """The clauses after the target, in any order, each at most once."""

    def __init__(self, reader: TokenReader) -> None:
        self._reader = reader
        self.query_name: str | None = None
        self.trigger: StreamTrigger | None = None
        self.output_mode: OutputMode | None = None
        self.partitioned_on: tuple[str, ...] | None = None
        self.options: Options | None = None

    def read(self, *clauses: Callable[[StreamClauses], bool]) -> None:
        """Read these clauses up to the end of the statement."""
        while any(read(self) for read in clauses):
            pass
        self._reader.expect_end()

    def read_query_name(self) -> bool:
        """Read `IDENTIFIED BY name` if it comes next; return whether it does.

        `IDENTIFIED BY a.b` gives the name `a.b`.
        """
        if self.query_name is not None or not self._reader.accept("IDENTIFIED", "BY"):
            return False
        self.query_name = ".".join(self._reader.read_qualified_name("the name of a query"))
        return True

    def read_trigger(self) -> bool:
        """Read `TRIGGER …` likewise."""
        if self.trigger is not None or not self._reader.accept("TRIGGER"):
            return False
        self.trigger = _read_trigger(self._reader)
        return True

    def read_output_mode(self) -> bool:
        """Read `OUTPUT MODE mode` likewise."""
        if self.output_mode is not None or not self._reader.accept("OUTPUT", "MODE"):
            return False
        self.output_mode = OutputMode(self._reader.read_word("an output mode", list(OutputMode)))
        return True

    def read_partitioned_on(self) -> bool:
        """Read `PARTITIONED ON (column, …)` likewise."""
        if self.partitioned_on is not None or not self._reader.accept("PARTITIONED", "ON"):
            return False
        self.partitioned_on = read_names(self._reader, "the name of a column")
        return True

    def read_options(self) -> bool:
        """Read `OPTIONS ('key' = 'value', …)` likewise."""
        if self.options is not None or not self._reader.accept("OPTIONS"):
            return False
        self.options = read_options(self._reader)
        return True


def _read_trigger(reader: TokenReader) -> StreamTrigger:
    if reader.accept("ONCE"):
        return StreamTrigger(TriggerKind.ONCE)
    if reader.accept("AVAILABLE", "NOW"):
        return StreamTrigger(TriggerKind.AVAILABLE_NOW)
    kind = TriggerKind.CONTINUOUS if reader.accept("CONTINUOUS") else TriggerKind.INTERVAL
    return StreamTrigger(kind, read_interval(reader))


def parse_trigger(text: str) -> StreamTrigger:
    """Parse a text that can follow TRIGGER, for example `5 MINUTES`. Raise InvalidStatement."""
    reader = TokenReader(text, list(code_tokens(text)))
    trigger = _read_trigger(reader)
    reader.expect_end()
    return trigger


def write_partitions(names: tuple[str, ...]) -> str | None:
    """Return PARTITIONED ON with these columns, or None if there are none."""
    return f"PARTITIONED ON {names_to_sql(names)}" if names else None


def write_options(options: Options) -> str | None:
    """Return the OPTIONS clause, or None if there are no options."""
    return options_to_sql(options) if options else None


def join_clauses(*clauses: str | None) -> str:
    """Return the clauses that are given, with spaces between them."""
    return " ".join(clause for clause in clauses if clause is not None)
