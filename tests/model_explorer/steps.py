"""Steps of the code under test: one store transaction or one backend call at a time.

The code runs in one thread and cannot be suspended. An *operation* is therefore run again from its
start for each of its steps. Its earlier steps are replayed: a transaction runs on the rows that it
had, and is undone; a backend call returns what it returned. Then the operation makes one new step,
and an exception ends it before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.model_explorer.store import MemoryStore, Rows

from headrace.errors import HeadraceError


class LeftBeforeNextStep(BaseException):
    """The operation has made its new step. No code under test catches this."""


@dataclass(frozen=True)
class Step:
    """A step that an operation has made."""

    name: str
    now: float
    rows: Rows | None = None
    """The rows before a transaction; None for a call."""
    result: Any = None
    error: HeadraceError | None = None


class Steps:
    """Runs operations step by step, or as a whole."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._log: list[Step] = []
        self._replayed = 0
        self._position = 0
        self._limit: int | None = None
        store.enter = self._transaction

    @property
    def is_replaying(self) -> bool:
        """Whether the code that runs now has run in an earlier step."""
        return 0 < self._replayed >= self._position

    @contextmanager
    def run_all(self) -> Iterator[None]:
        """Run the block without interruption."""
        self._begin([], limit=None)
        yield

    def run_whole(self, act: Callable[[], Any]) -> Any:
        """Run `act` without interruption and return its result."""
        self._begin([], limit=None)
        return act()

    def run_next(self, act: Callable[[], Any], log: tuple[Step, ...]) -> tuple[Step, ...] | None:
        """Make the next step of `act`, after the steps of the log.

        Return the new log, or None if `act` has ended.
        """
        self._begin(list(log), limit=len(log))
        try:
            act()
        except LeftBeforeNextStep:
            return tuple(self._log)
        return None

    def call(self, name: str, act: Callable[[], Any]) -> Any:
        """Make a call to a backend as one step, and return its result or raise its error."""
        replayed = self._next_step()
        if replayed is not None:
            if replayed.error is not None:
                raise replayed.error
            return replayed.result
        try:
            result = act()
        except HeadraceError as error:
            self._log.append(Step(name, self._store.now, error=error))
            raise
        self._log.append(Step(name, self._store.now, result=result))
        return result

    def _begin(self, log: list[Step], *, limit: int | None) -> None:
        self._log, self._replayed, self._position, self._limit = log, len(log), 0, limit

    def _next_step(self) -> Step | None:
        """Return the step to replay, or None if it must be made."""
        position = self._position
        if self._limit is not None and position > self._limit:
            raise LeftBeforeNextStep
        self._position += 1
        return self._log[position] if position < self._replayed else None

    @contextmanager
    def _transaction(self, name: str) -> Iterator[None]:
        replayed = self._next_step()
        if replayed is None:
            if self._limit is not None:
                self._log.append(Step(name, self._store.now, rows=self._store.capture()))
            with self._store.atomic():
                yield
            return
        assert replayed.rows is not None
        now = self._store.now
        with self._store.undone():
            self._store.load(replayed.rows)
            self._store.now = replayed.now
            try:
                yield
            finally:
                self._store.now = now
