"""What the load has submitted, and what it has seen."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Work(StrEnum):
    """What a statement does."""

    QUERY = "query"
    STORED_QUERY = "query with a stored result"
    HELD_QUERY = "query with a result in the memory of the driver"
    INSERT = "INSERT"
    CTAS = "CREATE TABLE AS SELECT"
    FAILING_CTAS = "CREATE TABLE AS SELECT that fails half-way"
    VIEW_READ = "read of the materialized view"
    BATCH_QUERY = "batch query"
    BATCH_INSERT = "batch INSERT"
    REFRESH = "REFRESH MATERIALIZED VIEW"
    SAVE_STREAM = "SAVE STREAM"
    STREAM_ACTION = "action on a streaming query"
    SETUP = "definition"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A statement that the cluster has accepted."""

    id: str
    work: Work
    number: int
    """Number of the statement: that of its rows or of its table."""
    text: str


@dataclass(frozen=True, slots=True)
class ViewRead:
    """The rows of the materialized view that one query has seen."""

    rows: int
    oldest: int
    newest: int
    """The generations of the rows, by the time of their refresh."""


@dataclass
class LoadRecord:
    """The record of all workers of the load."""

    accepted: list[Accepted] = field(default_factory=list)
    view_reads: list[ViewRead] = field(default_factory=list)
    """In the order of the queries."""
    actions: Counter[str] = field(default_factory=Counter)
    """What was done to streaming queries and jobs, and has reached its end."""
    broken_deployments: set[str] = field(default_factory=set)
    """Deployments of versions that cannot run."""
    errors: list[str] = field(default_factory=list)
    """Answers of the cluster that no fault explains."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_number(self) -> int:
        """Return the number of a new statement."""
        with self._lock:
            return next(self._numbers)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let only one thread change the record during the block."""
        with self._lock:
            yield

    def count(self, action: str) -> None:
        """Count an action that has reached its end."""
        with self._lock:
            self.actions[action] += 1

    def select(self, *works: Work) -> list[Accepted]:
        """Return the accepted statements of some kinds."""
        return [each for each in self.accepted if each.work in works]
