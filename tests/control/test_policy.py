"""Who may do what: owners, groups, roles, scopes, and what belongs to the whole store."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import pytest
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, StartNode

from headrace.config.auth import Role
from headrace.control.jobs.drafts import PlanRequest
from headrace.control.policy import (
    Action,
    Caller,
    OwnedBy,
    Shared,
    act_for,
    check,
    find_named,
    listed_owners,
    may,
    require,
    resolve_owner,
    visible_owners,
)
from headrace.errors import AmbiguousName, NotPermitted, SessionNotFound, StatementNotFound
from headrace.model.identity import Scope, group_owner
from headrace.model.session import SessionSpec
from headrace.model.statement import StatementSpec, StatementView

ETL = group_owner("corp", "etl")
ADMIN = Caller("root", roles=frozenset({Role.ADMIN}))
OPERATOR = Caller("olga", roles=frozenset({Role.OPERATOR}))
AUDITOR = Caller("alan", roles=frozenset({Role.AUDITOR}))
USER = Caller("ada")
MEMBER = Caller("mia", groups=frozenset({ETL}))
OTHER = Caller("bob")
NOBODY = Caller("ada", roles=frozenset())


def test_a_user_acts_on_own_objects_only() -> None:
    for action in (Action.READ, Action.READ_CONTENT, Action.CHANGE):
        assert may(USER, action, OwnedBy("ada"))
        assert not may(USER, action, OwnedBy("bob"))
        assert not may(USER, action, OwnedBy(None))
        assert not may(NOBODY, action, OwnedBy("ada"))


def test_each_member_of_a_group_acts_on_its_objects() -> None:
    for action in (Action.READ, Action.READ_CONTENT, Action.CHANGE):
        assert may(MEMBER, action, OwnedBy(ETL))
        assert not may(USER, action, OwnedBy(ETL))
        # A group of the same name from another source is another group.
        assert not may(MEMBER, action, OwnedBy(group_owner("partners", "etl")))


@pytest.mark.parametrize(
    ("caller", "actions"),
    [
        (ADMIN, {Action.READ, Action.READ_CONTENT, Action.CHANGE}),
        (OPERATOR, {Action.READ}),
        (AUDITOR, {Action.READ, Action.READ_CONTENT}),
        (USER, set()),
        (NOBODY, set()),
    ],
)
def test_a_role_allows_actions_on_the_objects_of_others(
    caller: Caller, actions: set[Action]
) -> None:
    assert {action for action in Action if may(caller, action, OwnedBy("bob"))} == actions


@pytest.mark.parametrize(
    ("scope", "actions"),
    [
        (Scope.READ, {Action.READ, Action.READ_CONTENT}),
        (Scope.SUBMIT, {Action.READ, Action.READ_CONTENT, Action.CHANGE}),
    ],
)
def test_a_scope_limits_what_a_caller_may_do_with_its_own(
    scope: Scope, actions: set[Action]
) -> None:
    caller = Caller("ada", roles=frozenset(Role), scope=scope)
    own = OwnedBy("ada")
    assert {action for action in Action if may(caller, action, own)} == actions
    # What needs a role needs the scope `admin` too.
    assert not may(caller, Action.CHANGE, OwnedBy("bob"))
    assert not may(caller, Action.CHANGE, Shared.NODES)
    assert may(caller, Action.READ, OwnedBy("bob"))


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        (Shared.NODES, {ADMIN, OPERATOR}),
        (Shared.HISTORY, {ADMIN}),
        (Shared.USERS, {ADMIN}),
        (Shared.METRICS, set()),
    ],
)
def test_what_belongs_to_the_store_is_changed_by_roles(
    target: Shared, allowed: set[Caller]
) -> None:
    callers = (ADMIN, OPERATOR, AUDITOR, USER, NOBODY)
    assert {each for each in callers if may(each, Action.CHANGE, target)} == allowed
    with pytest.raises(NotPermitted, match="ada may not change") as refusal:
        require(USER, Action.CHANGE, target)
    assert refusal.value.status == 403


def test_an_object_that_the_caller_may_not_read_does_not_exist_for_it() -> None:
    missing = StatementNotFound("gone")
    for target in (None, OwnedBy("bob")):
        with pytest.raises(StatementNotFound, match="gone"):
            check(USER, Action.CHANGE, target, missing)
    with pytest.raises(NotPermitted, match="olga may not change"):
        check(OPERATOR, Action.CHANGE, OwnedBy("bob"), missing)
    assert check(USER, Action.CHANGE, OwnedBy("ada"), missing) == OwnedBy("ada")


def test_lists_have_the_objects_of_a_caller_and_its_groups_or_of_all() -> None:
    assert visible_owners(USER) == {"ada"}
    assert visible_owners(MEMBER) == {"mia", ETL}
    assert visible_owners(OPERATOR) is None
    # Who has no objects lists none: not even those of its groups.
    assert visible_owners(OPERATOR, Action.READ_CONTENT) == frozenset()
    assert visible_owners(NOBODY) == frozenset()
    assert listed_owners(MEMBER, all_owners=True) == listed_owners(MEMBER, all_owners=False)
    assert listed_owners(ADMIN, all_owners=False) == {"root"}
    assert listed_owners(ADMIN, all_owners=True) is None


def test_a_caller_acts_for_itself_and_its_groups() -> None:
    assert resolve_owner(MEMBER, None) == "mia"
    assert resolve_owner(MEMBER, "mia") == "mia"
    assert resolve_owner(MEMBER, "group:etl") == resolve_owner(MEMBER, ETL) == ETL
    for owner in ("ada", "etl", "group:bi", "group:partners:etl", "", "group:"):
        with pytest.raises(NotPermitted, match="mia may not act for"):
            resolve_owner(MEMBER, owner)


def test_a_name_means_the_own_object_or_else_that_of_a_group() -> None:
    """Not even an administrator means an object of others by a name."""
    bi = group_owner("corp", "bi")
    objects = [OwnedBy("mia"), OwnedBy(ETL), OwnedBy(bi), OwnedBy("bob")]

    def find_of(owners: Collection[str]) -> list[OwnedBy]:
        return [each for each in objects if each.owner in owners]

    assert find_named(MEMBER, OwnedBy("mia"), find_of) == OwnedBy("mia")
    assert find_named(MEMBER, None, find_of) == OwnedBy(ETL)
    assert find_named(USER, None, find_of) is None
    assert find_named(ADMIN, None, find_of) is None
    with pytest.raises(AmbiguousName, match=f"{bi}, {ETL}"):
        find_named(Caller("zoe", groups=frozenset({ETL, bi})), None, find_of)


def test_a_statement_acts_for_its_owner_within_the_scope_of_the_caller() -> None:
    acting = act_for(Caller("root", roles=frozenset(Role), scope=Scope.SUBMIT), ETL)
    assert may(acting, Action.CHANGE, OwnedBy(ETL))
    assert not may(acting, Action.READ, OwnedBy("root"))
    assert not may(act_for(Caller("mia", scope=Scope.READ), ETL), Action.CHANGE, OwnedBy(ETL))


@pytest.mark.parametrize(
    "call",
    [
        lambda node: node.nodes.drain(USER, "no_x"),
        lambda node: node.nodes.confirm_gone(USER, "no_x"),
        lambda node: node.history.purge(USER, timedelta(days=1)),
        lambda node: node.history.count(USER, timedelta(days=1)),
        lambda node: node.statements.submit(AUDITOR, StatementSpec(text="SELECT 1")),
        lambda node: node.sessions.open(AUDITOR, SessionSpec()),
        lambda node: node.sessions.open(USER, SessionSpec(), owner="bob"),
        lambda node: node.nodes.list_nodes(NOBODY),
        lambda node: node.metrics(NOBODY),
    ],
)
def test_a_service_asks_for_the_role(node: InProcessNode, call: Callable[[Any], object]) -> None:
    with node.expect_no_changes(), pytest.raises(NotPermitted):
        call(node.node)


def test_a_service_hides_the_objects_of_others(node: InProcessNode) -> None:
    statement_id = node.submit()["id"]
    service = node.node.statements
    statement = service.get(LOCAL_CALLER, statement_id)
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


def test_an_operator_sees_a_statement_without_its_sql_and_its_rows(node: InProcessNode) -> None:
    statement_id = node.submit("SELECT 'secret'")["id"]
    service = node.node.statements
    seen = service.get(OPERATOR, statement_id)
    assert seen.state == "waiting"
    assert "secret" not in seen.spec.text
    assert service.get(AUDITOR, statement_id).spec.text == "SELECT 'secret'"
    for call in (
        lambda: service.open_result(OPERATOR, seen),
        lambda: service.find_location(OPERATOR, seen),
        lambda: service.cancel(OPERATOR, statement_id),
        lambda: service.cancel(AUDITOR, statement_id),
    ):
        with pytest.raises(NotPermitted):
            call()


def test_not_even_an_administrator_runs_sql_in_the_session_of_another(
    node: InProcessNode,
) -> None:
    session = node.session()
    spec = StatementSpec(text="SELECT 1")
    admin = Caller("root-of-all", roles=frozenset(Role))
    with node.expect_no_changes(), pytest.raises(NotPermitted, match="of its owner only"):
        node.node.statements.submit(admin, spec, session=session)
    with node.expect_no_changes(), pytest.raises(SessionNotFound):
        node.node.statements.submit(OTHER, spec, session=session)


def test_the_members_of_a_group_share_its_sessions_and_statements(node: InProcessNode) -> None:
    service = node.node.statements
    session = node.node.sessions.open(MEMBER, SessionSpec(), owner="group:etl", name="shared-etl")
    colleague = Caller("noa", groups=frozenset({ETL}))
    statement = service.submit(colleague, StatementSpec(text="SELECT 1"), session="shared-etl")
    assert (session.owner, statement.owner) == (ETL, ETL)
    assert statement.session_id == session.id
    assert service.get(MEMBER, statement.id).id == statement.id
    assert service.cancel(MEMBER, statement.id).state == "cancelled"
    with pytest.raises(StatementNotFound):
        service.get(USER, statement.id)
    node.node.sessions.close(colleague, "shared-etl")


def test_events_name_the_member_who_acts_for_its_group(node: InProcessNode) -> None:
    first = node.node.events.last(MEMBER)
    sessions, statements = node.node.sessions, node.node.statements
    session = sessions.open(MEMBER, SessionSpec(), owner="group:etl")
    statement = statements.submit(MEMBER, StatementSpec(text="SELECT 1"), session=session.id)
    statements.cancel(MEMBER, statement.id)
    sessions.close(MEMBER, session.id)
    unnamed = statements.submit(MEMBER, StatementSpec(text="SELECT 1"), owner="group:etl")
    plan = PlanRequest(manifests=[], owner="group:etl")
    deployment = node.node.jobs.plan(MEMBER, plan).deployment
    events = node.node.events.read(MEMBER, after=first, entity=None, entity_id=None, limit=1000)
    own = [event for event in events if event.actor != node.node.id]
    assert {event.owner for event in own} == {ETL}
    assert {event.actor for event in own} == {"mia"}
    ids = {session.id, statement.id, unnamed.id, deployment.id}
    assert ids <= {event.entity_id for event in own}


def test_events_and_views_show_a_user_its_own_and_an_operator_all(start_node: StartNode) -> None:
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
    assert read(OPERATOR) >= {"ada", "bob"}
    assert list_waiting(USER) == {"ada"}
    assert list_waiting(OPERATOR) >= {"ada", "bob"}
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
        served.tokens,
        served.accounts,
        served.connections,
        served.cursors,
        served.context.audit,
    ]
    without_caller = {
        f"{type(service).__name__}.{name}"
        for service in services
        for name, function in inspect.getmembers(type(service), inspect.isfunction)
        if not name.startswith("_") and "caller" not in inspect.signature(function).parameters
    }
    assert without_caller == {
        # These choose threads and wait: what they read is checked.
        "AsyncStatements.select_reads",
        "AsyncStatements.wait_for",
        # The token has just identified its caller.
        "ApiTokens.renew",
        # A node writes what it has collected.
        "Audit.flush",
    }
