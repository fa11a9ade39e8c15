"""The search: every order of all steps, from one initial world, to a stated time.

States are visited breadth first, so the trace of a violation is as short as possible. A state that
was visited before is not visited again. Two states are the same if nothing that the protocol reads
distinguishes them.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model_explorer.invariants import check_state, check_step
from tests.model_explorer.node import open_nodes
from tests.model_explorer.scenarios import WITH_MORE_TABLES, Scenario, make_initial_world
from tests.model_explorer.state import NodeState, World
from tests.model_explorer.steps import Steps
from tests.model_explorer.store import MemoryStore
from tests.model_explorer.termination import record_calls_after_sigterm
from tests.model_explorer.world import LiveWorld, Violation, tick_to_seconds


@dataclass
class Report:
    """The outcome of a search."""

    scenario: Scenario
    states: int = 0
    steps: int = 0
    """Steps made, including those that led to a state visited before."""
    depth: int = 0
    """Largest number of steps on the shortest path to a state."""
    seconds: float = 0.0
    complete: bool = False
    """Whether every state up to the end of the scenario's time was visited."""
    violation: str | None = None
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        outcome = self.violation or ("no violation" if self.complete else "stopped early")
        size = f"{self.states:,} states, {self.steps:,} steps, depth {self.depth}"
        ticks = f"{self.scenario.ticks} ticks of 5 s"
        lines = [f"{self.scenario.name}: {size}, {ticks}, {self.seconds:.1f} s: {outcome}"]
        return "\n".join([*lines, *(f"  {n}. {step}" for n, step in enumerate(self.trace, 1))])


@dataclass(frozen=True)
class Visit:
    """A state to continue from, and how the search came to it."""

    world: World
    depth: int
    before: Visit | None
    label: str

    def trace(self) -> list[str]:
        visit: Visit | None = self
        labels = []
        while visit is not None and visit.before is not None:
            labels.append(visit.label)
            visit = visit.before
        return labels[::-1]


def explore(scenario: Scenario, *, max_states: int | None = None) -> Report:
    """Visit every state of a scenario, or stop at the first violation.

    Args:
        max_states: Stop after so many states; None: never.
    """
    report = Report(scenario)
    start = time.monotonic()
    with _open_world(scenario) as (store, live):
        search = _Search(scenario, store, live, report)
        search.run(make_initial_world(scenario, store, live), max_states)
    report.seconds = time.monotonic() - start
    return report


@contextmanager
def _open_world(scenario: Scenario) -> Iterator[tuple[MemoryStore, LiveWorld]]:
    """Yield an empty store with two nodes, which log nothing: they lose thousands of drivers."""
    store = MemoryStore(more_tables=scenario.kind in WITH_MORE_TABLES)
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    steps = Steps(store)
    termination = record_calls_after_sigterm() if scenario.faults_of("sigterm") else []
    live = LiveWorld(store, steps, kind=scenario.kind, termination=termination)
    try:
        with open_nodes(store, steps, live) as nodes:
            live.nodes = nodes
            yield store, live
        store.close()
    finally:
        logging.disable(level)


class _Search:
    def __init__(
        self, scenario: Scenario, store: MemoryStore, live: LiveWorld, report: Report
    ) -> None:
        self._scenario = scenario
        self._store = store
        self._live = live
        self._report = report
        self._seen: set[bytes] = set()
        self._queue: deque[Visit] = deque()

    def run(self, initial: World, max_states: int | None) -> None:
        self._add(Visit(initial, 0, None, ""))
        while self._queue:
            if max_states is not None and self._report.states >= max_states:
                return
            if not self._visit(self._queue.popleft()):
                return
        self._report.complete = True

    def _add(self, visit: Visit) -> None:
        key = _hash(visit.world, self._store)
        if key not in self._seen:
            self._seen.add(key)
            self._queue.append(visit)
            self._report.states += 1
            self._report.depth = max(self._report.depth, visit.depth)

    def _visit(self, visit: Visit) -> bool:
        """Make every step that is possible in a state. Return False after a violation."""
        with self._store.undone():
            self._store.load(visit.world.rows)
            self._live.load(visit.world)
            for label, step in list(self._live.actions()):
                if not self._try_step(visit, label, step):
                    return False
        return True

    def _try_step(self, visit: Visit, label: str, step: Callable[[], None]) -> bool:
        with self._store.undone():
            self._live.load(visit.world)
            self._report.steps += 1
            try:
                step()
                after = self._live.save()
                check_step(visit.world, after, self._store)
                check_state(after, self._scenario.kind)
            except Violation as violation:
                self._report.violation = str(violation)
                self._report.trace = [*visit.trace(), label]
                return False
        if after.tick <= self._scenario.ticks:
            self._add(Visit(after, visit.depth + 1, visit, label))
        return True


def _hash(world: World, store: MemoryStore) -> bytes:
    """Return a number that is equal for states that the protocol cannot distinguish."""
    now = tick_to_seconds(world.tick)
    parts = (
        store.canonical(world.rows, now),
        tuple(_canonical_node(node, store, now) for node in world.nodes),
        replace(world, rows=(), nodes=()),
    )
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).digest()


def _canonical_node(node: NodeState, store: MemoryStore, now: float) -> tuple[Any, ...]:
    memory = tuple(
        (name, value if isinstance(value, bool) else round(value - now, 3))
        for name, value in node.memory
    )
    operations = tuple(
        (
            operation.pool,
            operation.description,
            tuple(
                store.canonical(step.rows, step.now)
                if step.rows is not None
                else (step.name, repr(step.result), repr(step.error))
                for step in operation.log
            ),
        )
        for operation in node.operations
    )
    return (memory, sorted(map(repr, operations)), replace(node, memory=(), operations=()))
