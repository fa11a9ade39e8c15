"""Whether a changed query can continue from the state of the query before it.

The rules are those of Spark's documentation, "Recovery Semantics after Changes in a Streaming
Query". Everything that they do not allow is incompatible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.model.job import PlanSummary
from headrace.model.stream_providers import find_sink

_CHECKPOINT_KEYS = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan",
        "spark.sql.streaming.aggregation.stateFormatVersion",
        "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
        "spark.sql.streaming.join.stateFormatVersion",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.statefulOperator.useStrictDistribution",
        "spark.sql.streaming.stateStore.compression.codec",
        "spark.sql.streaming.stateStore.encodingFormat",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    }
)
"""Configuration that Spark reads from a checkpoint, whatever the session has, because the state
depends on it (`OffsetSeqMetadata.relevantSQLConfs`)."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether state can be kept."""

    is_compatible: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSummary:
    """Where a query writes."""

    provider: str
    path: str | None = None
    """Directory of a sink of files or of a table without a name."""
    table: str | None = None
    """Table of a sink without a path, or what else its options name as the place of the rows."""
    output_mode: str
    """`APPEND`, `COMPLETE` or `UPDATE`, with the default of the sink applied."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Two versions of one query."""

    old: PlanSummary
    new: PlanSummary
    old_sink: SinkSummary
    new_sink: SinkSummary


def judge(
    old: Mapping[str, PlanSummary],
    new: Mapping[str, PlanSummary],
    old_sinks: Mapping[str, SinkSummary],
    new_sinks: Mapping[str, SinkSummary],
) -> Compatibility:
    """Return whether the queries of a job can continue from its state.

    All arguments map the names of the queries of the job; a job of one query uses "".
    """
    if set(old) != set(new) or not old:
        return _refuse("the job has other queries than before.")
    for name in old:
        if name not in old_sinks or name not in new_sinks:
            return _refuse(f"{_subject(name)} has a sink that is not known.")
        change = _Change(old[name], new[name], old_sinks[name], new_sinks[name])
        for find in _RULES:
            obstacle = find(change)
            if obstacle is not None:
                return _refuse(f"{_subject(name)} {obstacle}.")
    return Compatibility(True, "Sources, state and sink are compatible.")


def list_ineffective_keys(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the keys of changed configuration that a query does not read if it keeps its state."""
    return sorted(key for key in _CHECKPOINT_KEYS if old.get(key) != new.get(key))


def _refuse(reason: str) -> Compatibility:
    return Compatibility(False, reason)


def _subject(name: str) -> str:
    return f"the query {name}" if name else "the query"


def _find_unknown(change: _Change) -> str | None:
    if not (change.old.is_complete and change.new.is_complete):
        return "has an operator whose state is not known"
    if change.old.is_streaming != change.new.is_streaming:
        return "was a stream before or is one now, and the other is a batch"
    return None


def _find_changed_sources(change: _Change) -> str | None:
    if len(change.old.sources) != len(change.new.sources):
        return f"reads {len(change.new.sources)} sources, and {len(change.old.sources)} before"
    return "reads other sources than before" if change.old.sources != change.new.sources else None


def _find_changed_state(change: _Change) -> str | None:
    if change.old.operators != change.new.operators:
        return "has other stateful operators (aggregates, joins, duplicates) than before"
    return None


def _find_changed_mode(change: _Change) -> str | None:
    old, new = change.old_sink.output_mode, change.new_sink.output_mode
    return f"has the output mode {new}, and {old} before" if old != new else None


def _find_changed_sink(change: _Change) -> str | None:
    old, new = change.old_sink, change.new_sink
    if old.provider != new.provider:
        if find_sink(old.provider).is_file and find_sink(new.provider).follows_files:
            return None
        return f"writes to {new.provider}, and to {old.provider} before"
    if find_sink(new.provider).is_open:
        return None
    if (old.path, old.table) != (new.path, new.table):
        return "writes to another place than before"
    return None


def _find_changed_columns(change: _Change) -> str | None:
    if change.old.columns == change.new.columns or find_sink(change.new_sink.provider).is_open:
        return None
    return f"has other columns than before, which {change.new_sink.provider} does not take"


_RULES: tuple[Callable[[_Change], str | None], ...] = (
    _find_unknown,
    _find_changed_sources,
    _find_changed_state,
    _find_changed_mode,
    _find_changed_sink,
    _find_changed_columns,
)
"""Each rule returns what stands against keeping the state, or None."""
