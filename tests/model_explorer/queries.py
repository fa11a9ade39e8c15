"""The steps of a driver that supervises a streaming query, and what users do to the query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.model.lifecycle import STREAM, StreamState
from headrace.model.messages import Poll, Renew
from headrace.model.session import DriverLease
from headrace.model.stream_query import EndReason, QueryReport, QuerySpec, Wanted

if TYPE_CHECKING:
    from tests.model_explorer.state import DriverState, World

QUERY = "sq_" + "1" * 32
NAME = "q"
SPEC = QuerySpec(text=f"SAVE STREAM s TO noop IDENTIFIED BY {NAME}", sink="noop")
NUMBERED, OLDER = "stream", "stream of an older driver"
KINDS = {NUMBERED, OLDER}
"""The driver numbers its reports, or is one version older and does not."""
_STOPPABLE = {StreamState.STARTING, StreamState.RUNNING, StreamState.BACKING_OFF}
_AGREEING: dict[StreamState, set[StreamState]] = {
    StreamState.STARTING: {StreamState.STARTING, StreamState.STOPPING},
    StreamState.RUNNING: {StreamState.RUNNING, StreamState.STOPPING},
    StreamState.BACKING_OFF: {StreamState.BACKING_OFF, StreamState.STOPPING},
    StreamState.STOPPED: {StreamState.STOPPED, StreamState.PAUSED, StreamState.STARTING},
}
"""States of the store after a report of its present generation, by the reported state."""

Change = Callable[["World", "DriverState", Any], "World"]


@dataclass(frozen=True)
class QueryFacts:
    """What a driver knows of its query."""

    id: str
    generation: int
    wanted: Wanted
    state: StreamState = StreamState.STARTING
    run: int = 0
    failures: int = 0
    reason: EndReason | None = None


def list_query_steps(
    world: World, driver: DriverState, session: str, kind: str
) -> Iterator[tuple[str, Change]]:
    """Yield the next steps of a driver that supervises the query."""
    lease = DriverLease(session, driver.epoch)
    yield "reads its orders", lambda *step: _read_orders(*step, lease)
    if driver.query != driver.reported or not driver.renewed:
        yield "renews", lambda *step: _renew(*step, lease, is_numbered=kind == NUMBERED)
    if driver.query is not None:
        yield from _list_changes(world, driver.query)


def _list_changes(world: World, query: QueryFacts) -> Iterator[tuple[str, Change]]:
    """Yield what can happen to the query in its driver."""
    if query.wanted is not Wanted.RUNNING:
        if query.state in _STOPPABLE:
            yield "its query stops", _change(state=StreamState.STOPPED)
    elif query.state is StreamState.STARTING:
        yield "its query runs", _change(state=StreamState.RUNNING, run=query.run + 1)
    elif query.state is StreamState.BACKING_OFF:
        yield "its query starts again", _change(state=StreamState.STARTING)
    elif query.state is StreamState.RUNNING:
        failed = {"state": StreamState.BACKING_OFF, "failures": query.failures + 1}
        ended = {"state": StreamState.STOPPED, "reason": EndReason.SOURCES_ENDED}
        if world.faults_left("fail"):
            yield "its query fails", _change("fail", **failed)
        if world.faults_left("end"):
            yield "the sources of its query end", _change("end", **ended)


def find_disagreement(driver: DriverState, state: str, generation: int) -> str | None:
    """Return how the store differs from the query that its driver has just reported, or None."""
    query = driver.query
    if query is None or query.generation != generation:
        return None
    if StreamState(state) in _AGREEING[query.state]:
        return None
    return f"the driver has reported that its query is {query.state}, but the store says {state}"


def _change(fault: str | None = None, **facts: Any) -> Change:
    def change(world: World, driver: DriverState, _link: Any) -> World:
        assert driver.query is not None
        after = world if fault is None else world.spend(fault)
        return after.with_driver(replace(driver, query=replace(driver.query, **facts)))

    return change


def _read_orders(world: World, driver: DriverState, link: Any, lease: DriverLease) -> World:
    """Do what the supervisor of a driver does with new orders."""
    message = Poll(wait_seconds=0, announces_effects=True, streams_generation=driver.orders)
    streams = link.poll(lease, message).orders.streams
    if streams is None:
        return world
    desired = next(iter(streams.queries), None)
    query = driver.query
    if desired is None:
        query = None
    elif query is None or query.id != desired.id or query.state in STREAM.terminal:
        if query is None or query.id != desired.id or desired.generation > query.generation:
            query = QueryFacts(desired.id, desired.generation, desired.wanted)
    elif desired.generation > query.generation:
        query = replace(query, generation=desired.generation, wanted=desired.wanted)
    return world.with_driver(replace(driver, orders=streams.generation, query=query))


def _renew(
    world: World, driver: DriverState, link: Any, lease: DriverLease, *, is_numbered: bool
) -> World:
    query, sequence, reports = driver.query, driver.sequence, []
    if query is not None:
        sequence += query != driver.reported
        is_waiting = query.state is StreamState.BACKING_OFF
        report = QueryReport(
            id=query.id,
            generation=query.generation,
            sequence=sequence if is_numbered else None,
            state=query.state,
            run_id=f"run-{query.run}" if query.run else None,
            failures=query.failures,
            delay_seconds=60.0 if is_waiting else None,
            retry_seconds=60.0 if is_waiting else None,
            reason=query.reason,
        )
        reports.append(report)
    is_running = query is not None and query.state is StreamState.RUNNING
    link.renewals.renew(lease, Renew(streams=int(is_running), queries=reports))
    return world.with_driver(replace(driver, renewed=True, sequence=sequence, reported=query))
