"""The initial worlds of the searches, and the faults that may happen in each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.model_explorer import queries
from tests.model_explorer.driver import SESSION, STATEMENT
from tests.model_explorer.node import handle_of
from tests.model_explorer.state import NodeState, World
from tests.model_explorer.store import MemoryStore
from tests.model_explorer.world import LiveWorld

from headrace.model.job_messages import DeleteStates
from headrace.model.session import DriverLease, NewSession
from headrace.model.statement import CREATE_VIEW, JOB_TASK, NewStatement, StatementSpec
from headrace.model.stream_query import ADHOC_SCOPE, NewStreamQuery
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.sessions import sessions, takeovers
from headrace.store.statements import statements
from headrace.store.streams import stream_queries

_PRESENT_TICKS = 6
WITH_MORE_TABLES = {*queries.KINDS, "view", "task"}
"""Kinds of scenarios that use MORE_TABLES."""
_TEXTS = {"view": "CREATE MATERIALIZED VIEW v AS SELECT 1 AS x"}
_COMMANDS = {"view": CREATE_VIEW, "task": JOB_TASK}


@dataclass(frozen=True)
class Scenario:
    """A search: the statement, the faults, the time."""

    name: str
    kind: str
    """`query`, `insert`, `table`, `view`, `task`, `endless` (an INSERT that runs until the end of
    the search), or one of `queries.KINDS`."""
    faults: tuple[tuple[str, int], ...]
    """How often each fault may happen: freeze, crash and start (of a node), freeze_driver, kill,
    sigterm, hold (a report is delayed), copy (a report arrives again or late). For streaming
    queries also fail, end (the sources have ended), and each action of a user."""
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
    _scenario("a query loses its driver", "query", 2, kill=1, nodes_up=_ONE_NODE),
    _scenario("a table loses its driver", "table", 1, kill=1, nodes_up=_ONE_NODE),
)
"""Searches of some seconds, for `make test`."""
_DELAYS = {"hold": 1, "copy": 1, "nodes_up": _ONE_NODE}
QUERY_REPORTS = _scenario("reports of a query are late", "query", 0, **_DELAYS)
TABLE_REPORTS = _scenario("reports of a table are late", "table", 0, **_DELAYS)
VIEW_REPORTS = _scenario("reports of a view are late", "view", 0, **_DELAYS)
TASK_REPORTS = _scenario(
    "reports of a task are late, and its driver is lost", "task", 0, kill=1, **_DELAYS
)
STREAM_REPORTS = _scenario(
    "reports of a streaming query are late", queries.NUMBERED, 0, fail=1, **_DELAYS
)
OLDER_DRIVER_PAUSES = _scenario(
    "a driver without numbers is paused",
    queries.OLDER,
    1,
    pause=1,
    nodes_up=_ONE_NODE,
)
REPORTS = (
    QUERY_REPORTS,
    TABLE_REPORTS,
    VIEW_REPORTS,
    TASK_REPORTS,
    STREAM_REPORTS,
    OLDER_DRIVER_PAUSES,
)
"""Searches for reports that are repeated, reordered or delayed, for `make test`."""
DEEP = (
    _scenario("both nodes take over", "insert", 5, driver_is_gone=True),
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
    *(
        _scenario(
            f"a streaming query is {name} while reports are late",
            queries.NUMBERED,
            0,
            **dict.fromkeys(actions, 1),
            **_DELAYS,
        )
        for name, actions in (
            ("paused and resumed", ("pause", "resume")),
            ("paused and stopped", ("pause", "stop")),
            ("stopped and restarted", ("stop", "restart")),
            ("retried", ("fail", "retry")),
            ("stopped at its end", ("stop", "end")),
        )
    ),
    _scenario("reports of a table are late, and its driver is lost", "table", 0, kill=1, **_DELAYS),
    _scenario("reports of a view are late, and its driver is lost", "view", 0, kill=1, **_DELAYS),
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
    if scenario.faults_of("copy") and not scenario.faults_of("kill"):
        # Nothing happens that a sweep could notice.
        live.state = live.state.with_node(0, swept=True, renewed=True)
    return replace(live.save(), budget=tuple(sorted(scenario.faults)), gone_ticks=0)


def _start_driver(scenario: Scenario, store: MemoryStore, live: LiveWorld) -> None:
    """Store a session with one statement, and start its driver."""
    with live.whole_transaction() as tx:
        sessions.insert(tx, NewSession(id=SESSION, owner="ada"), actor="ada")
        _insert_work(tx, scenario.kind)
        epoch = takeovers.claim_launch(tx, SESSION, node="no_0", seconds=120.0, token_hash="hash")
        assert epoch == 1
        assert sessions.set_handle(tx, DriverLease(SESSION, epoch), handle_of(epoch))
    live.start(0, epoch)


def _insert_work(tx: Tx, kind: str) -> None:
    """Store the statement of a scenario, or its streaming query."""
    if kind in queries.KINDS:
        query = NewStreamQuery(
            id=queries.QUERY,
            owner="ada",
            scope=ADHOC_SCOPE,
            name=queries.NAME,
            spec=queries.SPEC,
            checkpoint_place=None,
            session_id=SESSION,
            statement_id=None,
        )
        stream_queries.insert_query(tx, query, actor="ada")
        return
    new = NewStatement(
        id=STATEMENT,
        session_id=SESSION,
        owner="ada",
        spec=StatementSpec(text=_TEXTS.get(kind, "SELECT 1")),
        is_query=kind == "query",
        command=_COMMANDS.get(kind),
    )
    statements.insert(tx, new, actor="ada")
    if kind == "task":
        jobs.insert_task(tx, STATEMENT, DeleteStates(directories=[]))
