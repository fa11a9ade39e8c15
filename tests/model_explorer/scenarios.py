"""The initial worlds of the searches, and the faults that may happen in each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.model_explorer.driver import SESSION, STATEMENT
from tests.model_explorer.node import handle_of
from tests.model_explorer.state import NodeState, World
from tests.model_explorer.store import MemoryStore
from tests.model_explorer.world import LiveWorld

from headrace.model.session import DriverLease, NewSession
from headrace.model.statement import NewStatement, StatementSpec
from headrace.store import sessions, statements, takeovers

_PRESENT_TICKS = 6


@dataclass(frozen=True)
class Scenario:
    """A search: the statement, the faults, the time."""

    name: str
    kind: str
    """`query`, `insert`, `table`, or `endless`: an INSERT that runs until the end of the search."""
    faults: tuple[tuple[str, int], ...]
    """How often each fault may happen: freeze, crash and start (of a node), freeze_driver, kill,
    sigterm."""
    ticks: int
    """End of the search, in ticks of 5 s after the first claim. A lease lasts for three ticks."""
    nodes_up: tuple[bool, bool] = (True, True)
    driver_is_gone: bool = False
    """Whether the driver ends at the beginning, unnoticed. Otherwise node A has started it, and
    notices its exit."""

    def faults_of(self, kind: str) -> int:
        return dict(self.faults).get(kind, 0)


def _scenario(name: str, kind: str, ticks: int, **options: Any) -> Scenario:
    fields = {key: options.pop(key) for key in list(options) if key in Scenario.__annotations__}
    return Scenario(name, kind, faults=tuple(sorted(options.items())), ticks=ticks, **fields)


_ONE_NODE = (True, False)

NODE_FREEZES = _scenario("a node freezes", "endless", 5, freeze=1, nodes_up=_ONE_NODE)
DRIVER_RECEIVES_SIGTERM = _scenario(
    "a driver receives SIGTERM", "query", 1, sigterm=1, nodes_up=_ONE_NODE
)
NODE_RESTARTS = _scenario(
    "a node starts while a driver is gone",
    "endless",
    5,
    start=1,
    nodes_up=_ONE_NODE,
    driver_is_gone=True,
)
FAST = (
    NODE_FREEZES,
    DRIVER_RECEIVES_SIGTERM,
    NODE_RESTARTS,
    _scenario("both nodes take over", "insert", 5, driver_is_gone=True),
    _scenario("a query loses its driver", "query", 2, kill=1, nodes_up=_ONE_NODE),
    _scenario("a table loses its driver", "table", 1, kill=1, nodes_up=_ONE_NODE),
)
"""Searches of some seconds, for `make test`."""
DEEP = (
    _scenario("both nodes freeze", "endless", 5, freeze=2),
    _scenario("a node freezes twice", "endless", 7, freeze=2, nodes_up=_ONE_NODE),
    _scenario(
        "a node crashes in a loop",
        "endless",
        6,
        start=2,
        crash=2,
        nodes_up=_ONE_NODE,
        driver_is_gone=True,
    ),
    _scenario("a query loses two drivers", "query", 4, kill=2, sigterm=1, nodes_up=_ONE_NODE),
    _scenario("a frozen driver wakes up", "insert", 5, freeze_driver=1, nodes_up=_ONE_NODE),
    _scenario("a table loses a frozen driver", "table", 5, freeze_driver=1, nodes_up=_ONE_NODE),
    _scenario("a node dies during a takeover", "insert", 3, kill=1, crash=1, start=1),
    _scenario(
        "a table loses its driver and its node",
        "table",
        1,
        kill=1,
        crash=1,
        start=1,
        nodes_up=_ONE_NODE,
    ),
)
"""Searches of minutes, for `make chaos`."""


def make_initial_world(scenario: Scenario, store: MemoryStore, live: LiveWorld) -> World:
    """Return the world in which a driver has just reported `hello`, and one statement waits.

    An endless statement runs already. The nodes that are up have been present for more than a
    lease.
    """
    nodes = (NodeState(up=False), NodeState(up=False))
    starts = (("start", 2),)
    empty = World(store.capture(), nodes, drivers=(), budget=starts, tick=-_PRESENT_TICKS)
    live.load(empty)
    names = [f"node {'AB'[number]}" for number, up in enumerate(scenario.nodes_up) if up]
    for name in names:
        live.act(f"{name} starts")
    for _ in range(_PRESENT_TICKS):
        for name in names:
            live.act(f"{name} sweeps")
            with suppress(KeyError):  # it has just started with a new lease
                live.act(f"{name} renews its lease")
        live.act("5 s pass")
    _start_driver(scenario, store, live)
    live.act("driver 1: reports hello")
    if scenario.driver_is_gone or scenario.kind == "endless":
        live.act("driver 1: polls")
    if scenario.kind == "endless":
        live.act("driver 1: reports the start")
    if scenario.driver_is_gone:
        live.state = live.state.with_node(0, children=frozenset()).without_driver(1)
    return replace(live.save(), budget=tuple(sorted(scenario.faults)), gone_ticks=0)


def _start_driver(scenario: Scenario, store: MemoryStore, live: LiveWorld) -> None:
    """Store a session with one statement, and start its driver."""
    is_query = scenario.kind == "query"
    spec = StatementSpec(text="SELECT 1")
    with live.whole_transaction() as tx:
        sessions.insert(tx, NewSession(id=SESSION, owner="ada"), actor="ada")
        new = NewStatement(
            id=STATEMENT, session_id=SESSION, owner="ada", spec=spec, is_query=is_query
        )
        statements.insert(tx, new, actor="ada")
        epoch = takeovers.claim_launch(tx, SESSION, node="no_0", seconds=120.0, token_hash="hash")
        assert epoch == 1
        assert sessions.set_handle(tx, DriverLease(SESSION, epoch), handle_of(epoch))
    live.start(0, epoch)
