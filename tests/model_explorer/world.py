"""What can happen next: every step of the nodes, of the drivers, of the faults and of the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy.exc import IntegrityError
from tests.model_explorer import driver as driver_steps
from tests.model_explorer import queries
from tests.model_explorer.driver import SESSION, STATEMENT, Change
from tests.model_explorer.node import Backend, RealNode
from tests.model_explorer.reports import (
    Held,
    RecordingLink,
    Sent,
    add_sent,
    deliver,
    find_change,
    mark_delivered,
)
from tests.model_explorer.state import TICK_SECONDS, DriverState, Operation, World
from tests.model_explorer.steps import Steps
from tests.model_explorer.store import MemoryStore

from headrace.control.policy import Caller
from headrace.control.streams.service import act
from headrace.errors import LeaseLost, StreamStateConflict
from headrace.model.failure import Failure
from headrace.model.lifecycle import StreamAction
from headrace.model.messages import Ended, Goodbye, Message
from headrace.model.session import DriverLease
from headrace.store.database import Tx

Action = tuple[str, Callable[[], None]]
"""A label, and the function that makes the step in the loaded world."""
_REPORTS = {
    *("renews", "reports the start", "reports the success"),
    *("begins the generation", "prepares the table", "begins the table", "commits the table"),
    *("aborts the table", "has removed the table"),
}
"""Steps of drivers that are reports, which a network can delay."""
Termination = list[tuple[str, Message | Failure | None]]


class Violation(BaseException):
    """An invariant does not hold in the current world. No code under test catches this."""


class LiveWorld(Backend):
    """The world that is loaded into the store and the nodes, and can make a step."""

    def __init__(
        self, store: MemoryStore, steps: Steps, *, kind: str, termination: Termination
    ) -> None:
        self._store = store
        self._steps = steps
        self._kind = kind
        self._termination = termination
        self.nodes: list[RealNode] = []
        self.state: World

    def load(self, state: World) -> None:
        """Load everything except the rows, which `MemoryStore.undone` restores."""
        self.state = state
        self._store.now = tick_to_seconds(state.tick)
        for node, node_state in zip(self.nodes, state.nodes, strict=True):
            node.load(node_state)

    def save(self) -> World:
        """Return the state after a step."""
        state = self.state
        for number, node in enumerate(self.nodes):
            if state.nodes[number].up:
                state = state.with_node(number, memory=node.memory(), operations=node.operations)
        return replace(state, rows=self._store.capture())

    def act(self, label: str) -> None:
        """Make the step with this label in the loaded state."""
        dict(self.actions())[label]()

    @contextmanager
    def whole_transaction(self) -> Iterator[Tx]:
        """Open a transaction that is no step of any operation."""
        with self._steps.run_all(), self._store.write("test") as tx:
            yield tx

    # The backend

    def start(self, node: int, epoch: int) -> None:
        if self.state.drivers:
            raise Violation(f"the driver of epoch {epoch} starts beside {self.state.drivers}")
        started = self.state.with_driver(DriverState(epoch, renewed=True))
        children = started.nodes[node].children | {epoch}
        self.state = replace(started.with_node(node, children=children), gone_ticks=0)

    def kill(self, epoch: int) -> None:
        driver = self.state.driver(epoch)
        if driver is not None and driver.healthy:
            raise Violation(f"a node kills the healthy driver of epoch {epoch}")
        self.state = self.state.without_driver(epoch)

    def is_alive(self, epoch: int) -> bool:
        return self.state.driver(epoch) is not None

    def take_exits(self, node: int) -> list[int]:
        exits = list(self.state.nodes[node].exits)
        self.state = self.state.with_node(node, exits=())
        return exits

    # The steps

    def actions(self) -> Iterator[Action]:
        """Yield every step that can be made in the loaded state."""
        state = self.state
        for number in range(len(state.nodes)):
            yield from self._node_actions(number)
        for each in state.drivers:
            yield from self._driver_faults(each)
            # All nodes answer a driver from the store alone, so one node stands for all.
            serving = [number for number, node in enumerate(state.nodes) if node.serves]
            if serving:
                yield from self._driver_actions(each, serving[0])
        serving = [number for number, node in enumerate(state.nodes) if node.serves]
        if serving:
            yield from self._copy_actions(serving[0])
            yield from self._user_actions()
        if self._is_due_done():
            yield "5 s pass", self._pass_time

    def _node_actions(self, number: int) -> Iterator[Action]:
        node, name = self.state.nodes[number], f"node {'AB'[number]}"
        can = self.state.faults_left
        if not node.up:
            if can("start"):
                yield f"{name} starts", partial(self._start_node, number)
            return
        if can("crash"):
            yield f"{name} crashes", partial(self._crash_node, number)
        if node.frozen:
            yield f"{name} continues", partial(self._set_node, number, frozen=False)
            return
        if can("freeze"):
            yield f"{name} freezes", partial(self._freeze_node, number)
        yield from self._node_work(number, name)

    def _node_work(self, number: int, name: str) -> Iterator[Action]:
        """Yield what a node that runs does by itself."""
        node = self.state.nodes[number]
        if not node.swept:
            yield f"{name} sweeps", partial(self._sweep, number)
        if not node.renewed:
            yield f"{name} renews its lease", partial(self._renew_node, number)
        for operation in node.operations:
            label = f"{name} continues {operation.description.partition('(')[0]}"
            yield (
                f"{label}, step {len(operation.log) + 1}",
                partial(self._continue, number, operation),
            )

    def _driver_actions(self, driver: DriverState, number: int) -> Iterator[Action]:
        """Yield the steps of a driver while it can reach a node."""
        if driver.frozen:
            return
        at = f"driver {driver.epoch}"
        if driver.phase == "ending":
            name, argument = self._termination[-driver.calls_left]
            yield (
                f"{at}: {name} after SIGTERM",
                partial(self._call, driver, number, _ending_call(name, argument)),
            )
            return
        for label, change in self._list_steps(driver):
            yield f"{at}: {label}", partial(self._call, driver, number, change)
            if self.state.faults_left("hold") and label in _REPORTS:
                late = partial(self._call, driver, number, change, holds=True)
                yield f"{at}: {label}, but the report is delayed", late

    def _list_steps(self, driver: DriverState) -> Iterator[tuple[str, Change]]:
        if self._kind in queries.KINDS and driver.phase == "idle":
            return queries.list_query_steps(self.state, driver, SESSION, self._kind)
        return driver_steps.list_steps(driver, self._kind)

    def _copy_actions(self, number: int) -> Iterator[Action]:
        """Yield the copies of reports that may arrive now."""
        if self.state.faults_left("copy"):
            for sent in self.state.sent:
                yield f"a copy of {sent} arrives", partial(self._deliver_copy, number, sent)

    def _user_actions(self) -> Iterator[Action]:
        for action in StreamAction:
            if self._kind in queries.KINDS and self.state.faults_left(action):
                yield f"a user requests: {action}", partial(self._act, action)

    def _driver_faults(self, driver: DriverState) -> Iterator[Action]:
        name, can = f"driver {driver.epoch}", self.state.faults_left
        if can("kill"):
            yield f"{name} is killed", partial(self._kill_driver, driver)
        if can("sigterm") and driver.phase not in {"starting", "ending"} and not driver.frozen:
            yield f"{name} receives SIGTERM", partial(self._terminate, driver)
        if driver.frozen:
            yield f"{name} continues", partial(self._set_driver, driver, frozen=False)
        elif can("freeze_driver"):
            yield f"{name} freezes", partial(self._freeze_driver, driver)

    # Nodes

    def _start_node(self, number: int) -> None:
        self._set_node(number, up=True, swept=False, renewed=True)
        self.state = self.state.spend("start")
        self._steps.run_whole(self.nodes[number].start)

    def _crash_node(self, number: int) -> None:
        fresh = {"frozen": False, "memory": (), "operations": (), "exits": ()}
        fresh |= {"children": frozenset(), "swept": False, "renewed": False, "present_ticks": 0}
        self._set_node(number, up=False, **fresh)
        self.nodes[number].operations = ()
        self.state = self.state.spend("crash")

    def _freeze_node(self, number: int) -> None:
        self._set_node(number, frozen=True, present_ticks=0)
        self.state = self.state.spend("freeze")

    def _sweep(self, number: int) -> None:
        self._set_node(number, swept=True)
        self._steps.run_whole(self.nodes[number].sweep)

    def _renew_node(self, number: int) -> None:
        self._set_node(number, renewed=True)
        self._steps.run_whole(self.nodes[number].renew)

    def _continue(self, number: int, operation: Operation) -> None:
        node = self.nodes[number]
        log = self._steps.run_next(operation.act, operation.log)
        others = list(node.operations)
        others.remove(operation)
        if log is not None:
            others.append(replace(operation, log=log))
        node.operations = tuple(others)

    def _set_node(self, number: int, **changes: object) -> None:
        self.state = self.state.with_node(number, **changes)

    # Drivers

    def _call(  # noqa: C901 - the cases belong together
        self, driver: DriverState, number: int, change: Change, *, holds: bool = False
    ) -> None:
        """Make a step of a driver. A driver that has lost its lease ends itself.

        Args:
            holds: Whether its report does not arrive now.
        """
        link: Any = self.nodes[number].link
        if self.state.records_reports or self._kind in queries.KINDS:
            link = RecordingLink(link, holds=holds)
        is_fenced = driver.epoch != self._session_epoch()
        before = self._store.capture() if is_fenced else None
        try:
            self.state = self._steps.run_whole(lambda: change(self.state, driver, link))
        except Held:
            pass
        except LeaseLost:
            if driver.healthy:
                raise Violation(f"the healthy driver of epoch {driver.epoch} is fenced") from None
            self.state = self.state.without_driver(driver.epoch)
        if is_fenced and self._store.capture() != before:
            raise Violation(f"the fenced driver of epoch {driver.epoch} has changed the store")
        if holds:
            self.state = self.state.spend("hold")
        if isinstance(link, RecordingLink):
            if self.state.records_reports:
                sent = add_sent(self.state.sent, driver.epoch, link.sent, delivered=not holds)
                self.state = replace(self.state, sent=sent)
            if not holds and any(call == "renew" for call, _message in link.sent):
                self._check_agreement(driver.epoch)

    def _check_agreement(self, epoch: int) -> None:
        """Raise Violation if the store differs from what a driver has just reported."""
        driver = self.state.driver(epoch)
        if driver is None or driver.query is None:
            return
        query = driver.query.id
        where = f"FROM stream_queries WHERE id = '{query}'"
        state = self._store.value(f"SELECT state {where}")
        generation = self._store.value(f"SELECT generation {where}")
        message = queries.find_disagreement(driver, state, generation)
        if message is not None:
            raise Violation(message)

    def _deliver_copy(self, number: int, sent: Sent) -> None:
        """Deliver a report again, or late."""
        is_late = sent.overtaken or sent.epoch != self._session_epoch()
        may_change = not (sent.delivered or is_late)
        how = "repeated" if sent.delivered else "late"
        before, link = self._store.capture(), self.nodes[number].link
        lease = DriverLease(SESSION, sent.epoch)
        try:
            with suppress(LeaseLost):
                self._steps.run_whole(lambda: deliver(link, sent.call, lease, sent.message))
        except IntegrityError as error:
            raise Violation(f"a {how} report breaks a rule of the store: {error.orig}") from error
        change = find_change(before, self._store.capture())
        if change is not None and not may_change:
            raise Violation(f"a {how} report changed {change}")
        marked = mark_delivered(self.state.sent, sent)
        self.state = replace(self.state, sent=marked).spend("copy")

    def _act(self, action: StreamAction) -> None:
        """Make the request of a user. A conflict changes nothing."""
        settings = self.nodes[0].settings
        with suppress(StreamStateConflict), self.whole_transaction() as tx:
            act(tx, settings, Caller("ada"), queries.NAME, action)
        self.state = self.state.spend(action)

    def _kill_driver(self, driver: DriverState) -> None:
        self.state = self.state.spend("kill").without_driver(driver.epoch)

    def _terminate(self, driver: DriverState) -> None:
        calls = len(self._termination)
        if driver.phase == "idle":
            calls = 1
        self._set_driver(driver, phase="ending", calls_left=calls, healthy=False)
        self.state = self.state.spend("sigterm")

    def _freeze_driver(self, driver: DriverState) -> None:
        self._set_driver(driver, frozen=True, healthy=False)
        self.state = self.state.spend("freeze_driver")

    def _set_driver(self, driver: DriverState, **changes: object) -> None:
        self.state = self.state.with_driver(replace(driver, **changes))  # type: ignore[arg-type]

    # The clock

    def _is_due_done(self) -> bool:
        """Return whether everybody who can act has done what is due every 5 s."""
        serving = [node for node in self.state.nodes if node.serves]
        return all(
            node.swept and node.renewed and not node.operations for node in serving
        ) and not any(
            serving and not driver.renewed and not driver.frozen for driver in self.state.drivers
        )

    def _pass_time(self) -> None:
        state = self.state
        for number, node in enumerate(state.nodes):
            present = min(node.present_ticks + 1, 9) if node.serves else 0
            state = state.with_node(number, swept=False, renewed=False, present_ticks=present)
        for driver in state.drivers:
            state = state.with_driver(replace(driver, renewed=driver.phase == "starting"))
        gone_ticks = min(state.gone_ticks + 1, 9) if self._is_gone() else 0
        self.state = replace(state, tick=state.tick + 1, gone_ticks=gone_ticks)
        self._store.now = tick_to_seconds(self.state.tick)

    def _is_gone(self) -> bool:
        """Return whether the driver of a running session has ended."""
        epoch = self._store.value("SELECT epoch FROM sessions WHERE state = 'running'")
        return epoch is not None and self.state.driver(epoch) is None

    def _session_epoch(self) -> int:
        return int(self._store.value("SELECT epoch FROM sessions"))


def tick_to_seconds(tick: int) -> float:
    """Return the time of the database in a tick."""
    return 1_000_000.0 + tick * TICK_SECONDS


def _ending_call(name: str, argument: Message | Failure | None) -> Change:
    """Return a call that a driver makes after SIGTERM. The process ends after the last call."""

    def change(world: World, driver: DriverState, link: driver_steps.DriverLinkService) -> World:
        lease = DriverLease(SESSION, driver.epoch)
        if name == "ended":
            assert isinstance(argument, Ended)
            link.ended(lease, argument.model_copy(update={"statement_id": STATEMENT}))
        else:
            assert argument is None or isinstance(argument, Failure)
            link.goodbye(lease, Goodbye(failure=argument))
        left = driver.calls_left - 1
        if left == 0:
            return world.without_driver(driver.epoch)
        return world.with_driver(replace(driver, calls_left=left))

    return change
