"""The state of the world: the rows of the store, two nodes, the drivers, the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model_explorer.queries import QueryFacts
from tests.model_explorer.reports import Sent
from tests.model_explorer.steps import Step
from tests.model_explorer.store import Rows

TICK_SECONDS = 5.0
"""Time between two renewals. A lease lasts for three ticks."""


@dataclass(frozen=True)
class Operation:
    """Work that a node does in a thread of its own, step by step."""

    pool: int
    """Number of the pool that the work waits in."""
    session_id: str
    act: Callable[[], None] = field(compare=False)
    description: str
    log: tuple[Step, ...] = ()


@dataclass(frozen=True)
class NodeState:
    """One node, without what it keeps in the store."""

    up: bool
    frozen: bool = False
    memory: tuple[tuple[str, Any], ...] = ()
    """Fields of its periodic tasks."""
    operations: tuple[Operation, ...] = ()
    exits: tuple[int, ...] = ()
    """Epochs of its drivers whose exit it has not handled yet."""
    children: frozenset[int] = frozenset()
    """Epochs of the drivers that this process has started."""
    swept: bool = False
    """Whether it has swept in this tick."""
    renewed: bool = False
    """Whether it has renewed its own lease in this tick."""
    present_ticks: int = 0
    """Number of whole ticks for which it has served without a pause."""

    @property
    def serves(self) -> bool:
        return self.up and not self.frozen


@dataclass(frozen=True)
class DriverState:
    """The process of one epoch. A process that has ended is not in the world."""

    epoch: int
    phase: str = "starting"
    """`starting`, `idle`, `assigned`, `begun`, `written`, `committing`, `published`, `done`,
    `aborting`, or `ending` after SIGTERM."""
    attempt: int = 0
    transaction: str | None = None
    frozen: bool = False
    renewed: bool = False
    """Whether it has renewed its lease in this tick, or has just started."""
    healthy: bool = True
    """Whether nothing has happened to it that justifies a takeover."""
    calls_left: int = 0
    """Number of calls that it still makes after SIGTERM."""
    generation: int = 0
    """Generation of the materialized view that its statement writes."""
    query: QueryFacts | None = None
    """The streaming query that it supervises."""
    orders: int = 0
    """Generation of the orders that it has about streaming queries."""
    sequence: int = 0
    """Number of its last report about the query."""
    reported: QueryFacts | None = None
    """What that report said."""


@dataclass(frozen=True)
class World:
    """One state. Equal states have the same key."""

    rows: Rows
    nodes: tuple[NodeState, ...]
    drivers: tuple[DriverState, ...]
    budget: tuple[tuple[str, int], ...]
    """Faults that may still happen, by kind."""
    tick: int = 0
    effects: int = 0
    """How often a statement that is not safe to repeat has changed data."""
    published: tuple[str, ...] = ()
    """Transactions whose table the catalog has made visible."""
    acknowledged: bool = False
    """Whether a driver was notified that its success is stored."""
    gone_ticks: int = 0
    """Number of whole ticks since the driver of the session has ended unnoticed."""
    sent: tuple[Sent, ...] = ()
    """Reports of drivers, if the scenario has copies of them."""

    @property
    def records_reports(self) -> bool:
        return "copy" in dict(self.budget)

    def faults_left(self, kind: str) -> int:
        return dict(self.budget).get(kind, 0)

    def spend(self, kind: str) -> World:
        budget = dict(self.budget)
        budget[kind] -= 1
        return replace(self, budget=tuple(sorted(budget.items())))

    def with_node(self, number: int, **changes: Any) -> World:
        nodes = list(self.nodes)
        nodes[number] = replace(nodes[number], **changes)
        return replace(self, nodes=tuple(nodes))

    def with_driver(self, driver: DriverState) -> World:
        others = tuple(each for each in self.drivers if each.epoch != driver.epoch)
        return replace(self, drivers=tuple(sorted((*others, driver), key=lambda each: each.epoch)))

    def without_driver(self, epoch: int) -> World:
        """Return the world after the end of a process. The node that started it may notice."""
        drivers = tuple(each for each in self.drivers if each.epoch != epoch)
        if len(drivers) == len(self.drivers):
            return self
        nodes = tuple(
            replace(node, exits=(*node.exits, epoch)) if epoch in node.children else node
            for node in self.nodes
        )
        return replace(self, drivers=drivers, nodes=nodes)

    def driver(self, epoch: int) -> DriverState | None:
        return next((each for each in self.drivers if each.epoch == epoch), None)
