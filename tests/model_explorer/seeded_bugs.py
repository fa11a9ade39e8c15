"""Known bugs of one line each, which the explorer must find: a test of the explorer itself.

Each bug removes a guard of the store.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.model_explorer.scenarios import (
    OLDER_DRIVER_PAUSES,
    QUERY_REPORTS,
    STREAM_REPORTS,
    TABLE_REPORTS,
    TASK_REPORTS,
    VIEW_REPORTS,
    Scenario,
)

from headrace.store.statements import locks, statement_transitions
from headrace.store.streams import stream_transitions, views
from headrace.store.transitions import Transitions


@dataclass(frozen=True)
class SeededBug:
    """A guard that is removed, and how the explorer must find that."""

    name: str
    function: Callable[..., Any]
    guard: str
    """A line of the function, without its indentation."""
    mutation: str
    """The line that replaces the guard."""
    scenario: Scenario
    violation: str
    """Begin of the message of the violation."""

    def is_found_by(self, violation: str | None) -> bool:
        """Return whether the violation of a search is that of the bug."""
        return violation is not None and violation.startswith(self.violation)


SEEDED_BUGS = (
    SeededBug(
        "R3: a driver that repeats its last report stops a paused query",
        stream_transitions.answers,
        "if query.state not in _ANSWERED:",
        "if False:",
        OLDER_DRIVER_PAUSES,
        "a report of a driver changed a paused query to",
    ),
    SeededBug(
        "a late report takes a streaming query back to an earlier state",
        stream_transitions.is_new,
        "return report.sequence > (query.report_sequence or 0)",
        "return True",
        STREAM_REPORTS,
        "a repeated report changed stream_queries.",
    ),
    SeededBug(
        "a late start revives a statement that has ended",
        statement_transitions.transition,
        "if statement is None or not STATEMENT.allows(statement.state, target):",
        "if statement is None:",
        QUERY_REPORTS,
        "a repeated report breaks a rule of the store: CHECK constraint failed: statements_ended",
    ),
    SeededBug(
        "a repeated step takes a table transaction back",
        Transitions.apply,
        "is_allowed = self.lifecycle.allows(source, target)",
        "is_allowed = True",
        TABLE_REPORTS,
        "a repeated report changed transactions.state from",
    ),
    SeededBug(
        "a repeated request begins a second generation of a view",
        views.begin_generation,
        "if (view.writer_id, view.writer_attempt) == (statement_id, attempt):",
        "if False:",
        VIEW_REPORTS,
        "a repeated report changed materialized_views.generation",
    ),
    SeededBug(
        "the report of a lost driver ends the task of a job",
        locks.lock_owned_statement,
        "return _lock(tx, _LOCK_OWNED, statement_id, names)",
        "return _lock(tx, _LOCK, statement_id, {})",
        TASK_REPORTS,
        "a late report changed",
    ),
)


@contextmanager
def seed(bug: SeededBug) -> Iterator[None]:
    """Run the block with the bug, in every module that has imported the function."""
    function = bug.function
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(bug.guard) != 1:
        raise ValueError(f"{function.__qualname__} has not exactly one line {bug.guard!r}")
    mutated = f"from __future__ import annotations\n{source.replace(bug.guard, bug.mutation)}"
    names = dict(function.__globals__)
    exec(compile(mutated, f"<{bug.name}>", "exec"), names)
    original = function.__code__
    function.__code__ = names[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = original
