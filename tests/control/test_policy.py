"""Who may do what: owners, roles, and what belongs to the whole store."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.control.policy import (
    ANONYMOUS,
    Action,
    Caller,
    NotPermitted,
    OwnedBy,
    Role,
    Shared,
    may,
    require,
    visible_owner,
)
from headrace.errors import SessionNotFound, StatementNotFound
from headrace.model.session import SessionSpec
from headrace.model.statement import StatementSpec, StatementView

ADMIN = Caller("root", frozenset({Role.ADMIN}))
USER = Caller("ada")
OTHER = Caller("bob")
OWNER = Caller(ANONYMOUS)


def test_a_user_acts_on_own_objects_only() -> None:
    for action in Action:
        assert may(USER, action, OwnedBy("ada"))
        assert not may(USER, action, OwnedBy("bob"))
        assert not may(USER, action, OwnedBy(None))


def test_a_caller_without_the_role_of_a_user_has_no_objects() -> None:
    assert not may(ADMIN, Action.READ, OwnedBy("root"))
    assert not may(Caller("ada", frozenset()), Action.READ, OwnedBy("ada"))
    assert not may(Caller("ada", frozenset()), Action.READ, Shared.NODES)


@pytest.mark.parametrize("target", [Shared.NODES, Shared.HISTORY])
def test_only_an_administrator_changes_what_belongs_to_the_store(target: Shared) -> None:
    assert may(ADMIN, Action.CHANGE, target)
    with pytest.raises(NotPermitted, match="ada may not change") as refusal:
        require(USER, Action.CHANGE, target)
    assert refusal.value.status == 403


def test_an_action_that_the_policy_does_not_list_is_never_allowed() -> None:
    everything = Caller("root", frozenset(Role))
    assert not may(everything, Action.CHANGE, Shared.METRICS)


def test_an_administrator_lists_the_objects_of_all_owners() -> None:
    assert visible_owner(ADMIN, Shared.EVENTS) is None
    assert visible_owner(USER, Shared.EVENTS) == "ada"


@pytest.mark.parametrize(
    "call",
    [
        lambda node: node.nodes.drain(USER, "no_x"),
        lambda node: node.nodes.confirm_gone(USER, "no_x"),
        lambda node: node.history.purge(USER, timedelta(days=1)),
        lambda node: node.history.count(USER, timedelta(days=1)),
        lambda node: node.statements.submit(ADMIN, StatementSpec(text="SELECT 1")),
        lambda node: node.sessions.open(ADMIN, SessionSpec()),
        lambda node: node.nodes.list_nodes(Caller("ada", frozenset())),
        lambda node: node.metrics(Caller("ada", frozenset())),
    ],
)
def test_a_service_asks_for_the_role(node: InProcessNode, call: Callable[[Any], object]) -> None:
    with node.expect_no_changes(), pytest.raises(NotPermitted):
        call(node.node)


def test_a_service_hides_the_objects_of_others(node: InProcessNode) -> None:
    statement_id = node.submit()["id"]
    service = node.node.statements
    statement = service.get(OWNER, statement_id)
    for call in (
        lambda: service.get(OTHER, statement_id),
        lambda: service.wait(OTHER, statement_id, 0),
        lambda: service.cancel(OTHER, statement_id),
        lambda: service.open_result(OTHER, statement),
        lambda: service.find_location(OTHER, statement),
        lambda: service.find_flight_offer(OTHER, statement, is_local=True),
        lambda: service.await_end(OTHER, statement),
    ):
        with pytest.raises(StatementNotFound):
            call()
    assert service.find_wait_reasons(OTHER, [statement]) == {}
    assert service.find_session_names(OTHER, [statement]) == {}
    with pytest.raises(SessionNotFound):
        node.node.sessions.close(OTHER, statement.session_id)


def test_events_and_views_show_a_user_its_own_and_an_administrator_all(
    start_node: StartNode,
) -> None:
    node = start_node()
    first = node.node.events.last(USER)
    own = node.node.statements.submit(USER, StatementSpec(text="SELECT 1"))
    node.node.statements.submit(OTHER, StatementSpec(text="SELECT 1"))

    def read(caller: Caller) -> set[str | None]:
        events = node.node.events.read(
            caller, after=first, entity="statement", entity_id=None, limit=1000
        )
        return {event.owner for event in events}

    def list_waiting(caller: Caller) -> set[str]:
        page = node.node.statements.page(
            caller,
            session=None,
            states=None,
            before=None,
            id_prefix=None,
            limit=1000,
            view=StatementView.WAITING,
        )
        return {statement.owner for statement in page.items}

    assert read(USER) == {"ada"}
    assert read(ADMIN) >= {"ada", "bob"}
    assert list_waiting(USER) == {"ada"}
    assert list_waiting(ADMIN) >= {"ada", "bob"}
    assert node.node.statements.get(USER, own.id).owner == "ada"


def test_every_public_function_of_a_service_takes_the_caller(node: InProcessNode) -> None:
    served = node.node
    services = [
        served.statements,
        served.async_statements,
        served.sessions,
        served.session_logs,
        served.streams,
        served.jobs,
        served.transactions,
        served.catalog_listing,
        served.nodes,
        served.history,
        served.events,
    ]
    without_caller = {
        f"{type(service).__name__}.{name}"
        for service in services
        for name, function in inspect.getmembers(type(service), inspect.isfunction)
        if not name.startswith("_") and "caller" not in inspect.signature(function).parameters
    }
    # These choose threads and wait: what they read is checked.
    assert without_caller == {"AsyncStatements.select_reads", "AsyncStatements.wait_for"}
