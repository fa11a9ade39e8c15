"""Every operation of the HTTP APIs answers each kind of caller as the table of access says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import insert, update
from tests.support.batch_jobs import insert_batch_job
from tests.support.executions import make_execution
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.store import new_session, new_statement, running_session
from tests.support.table_transactions import Creation
from tests.support.webhook_receiver import SECRET

from headrace.control.identity.authenticator import make_token
from headrace.files.private_files import write_private
from headrace.frontends.access import OPERATIONS, Access
from headrace.model.connection import ConnectionSpec
from headrace.model.delivery import Webhook
from headrace.model.deployment import (
    DeploymentPlan,
    JobAction,
    JobSession,
    PlannedJob,
    VersionSpec,
)
from headrace.model.identity import Scope, group_owner
from headrace.model.ids import new_id
from headrace.model.job import JobDecision
from headrace.model.lifecycle import JobState, StreamAction
from headrace.model.materialized_view import NameScope, RowStorage, ViewRows
from headrace.model.run import FiringRules, RunTimes, RunTrigger
from headrace.model.schedule import Schedule
from headrace.model.session import SessionKind, SessionSpec
from headrace.model.stream_query import (
    ADHOC_SCOPE,
    Definition,
    DefinitionKind,
    NewStreamQuery,
    QuerySpec,
)
from headrace.store import events, nodes, webhooks
from headrace.store.clock import clock, read_clock
from headrace.store.database import Database
from headrace.store.identity import tokens, users
from headrace.store.jobs import job_changes, jobs, runs
from headrace.store.jobs.jobs import Deployed
from headrace.store.sessions import connections
from headrace.store.streams import definitions, stream_queries, views
from headrace.store.tables import statement_executions
from headrace.store.tables import tokens as tokens_table

Json = dict[str, Any]
SOURCE = "corp"
GROUP = group_owner(SOURCE, "etl")
SQL = "sql_of_its_owner"
"""Part of the SQL of each object."""
ROLES = {
    "admin": ["corp:admins"],
    "operator": ["corp:operators"],
    "auditor": ["corp:auditors"],
    "user": ["corp:people"],
}


class Outcome(StrEnum):
    """What an operation does for a caller."""

    UNKNOWN = "unknown"  # 401
    REFUSED = "refused"  # 403
    HIDDEN = "hidden"  # 404, as for an object that does not exist
    SERVED = "served"  # anything else


OUTCOMES = {401: Outcome.UNKNOWN, 403: Outcome.REFUSED, 404: Outcome.HIDDEN}


def outcome_of(answer: httpx.Response) -> Outcome:
    """Return what an operation has done. OpenSearch answers 400 for what does not exist."""
    if answer.status_code == 400 and "AsyncQueryNotFoundException" in answer.text:
        return Outcome.HIDDEN
    assert answer.status_code < 500, answer.text
    return OUTCOMES.get(answer.status_code, Outcome.SERVED)


@dataclass(frozen=True)
class Who:
    """A kind of caller."""

    groups: tuple[str, ...] = ()
    scope: Scope = Scope.ADMIN
    owns: bool = False
    """Whether the object belongs to the caller or to a group of the caller."""


SIGNED_IN = {
    "without a role": Who(("guests",)),
    "stranger": Who(("people",)),
    "owner": Who(("people",), owns=True),
    "member": Who(("people", "etl"), owns=True),
    "owner who may only read": Who(("people",), Scope.READ, owns=True),
    "owner who may submit": Who(("people",), Scope.SUBMIT, owns=True),
    "operator": Who(("operators",)),
    "auditor": Who(("auditors",)),
    "admin": Who(("admins",)),
    "admin who may submit": Who(("admins",), Scope.SUBMIT),
}
NOT_SIGNED_IN = ["without a token", "with a wrong token", "with an expired token", "revoked"]

_OWNERS = {"owner", "member", "owner who may only read", "owner who may submit"}
_ADMINS = {"admin", "admin who may submit"}
SERVED: dict[Access, set[str]] = {
    Access.OPEN: {*SIGNED_IN, *NOT_SIGNED_IN},
    Access.SIGNED_IN: {*SIGNED_IN},
    Access.WITH_ROLE: {*SIGNED_IN} - {"without a role"},
    Access.VISIBLE: {*SIGNED_IN},
    Access.CREATE: {"stranger", "owner", "member", "owner who may submit", *_ADMINS},
    # All callers of this test have tokens.
    Access.CREATE_IN_PERSON: set(),
    Access.READ: {*_OWNERS, *_ADMINS, "operator", "auditor"},
    Access.READ_CONTENT: {*_OWNERS, *_ADMINS, "auditor"},
    Access.CHANGE: {"owner", "member", "owner who may submit", "admin"},
    Access.RUN: {"owner", "member", "owner who may submit"},
    Access.WATCH: {*_ADMINS, "operator", "auditor"},
    Access.AUDIT: {*_ADMINS, "auditor"},
    Access.OPERATE: {"operator", "admin"},
    Access.ADMINISTER: {"admin"},
}
"""The callers whom an operation serves. A stranger learns nothing about an object of others."""


def expected(access: Access, who: str) -> Outcome:
    """Return what an operation does for a caller."""
    if who in SERVED[access]:
        return Outcome.SERVED
    if who in NOT_SIGNED_IN:
        return Outcome.UNKNOWN
    is_object = access in {Access.READ, Access.READ_CONTENT, Access.CHANGE, Access.RUN}
    learns_nothing = who in {"stranger", "without a role"}
    return Outcome.HIDDEN if is_object and learns_nothing else Outcome.REFUSED


@dataclass
class Server:
    """A node whose callers sign in, and the tokens of all kinds of callers."""

    node: InProcessNode
    operations: dict[str, tuple[str, str]]
    """Method and path of each operation."""
    tokens: dict[str, str | None]
    owners: dict[str, str]
    """Id of the user of each kind of caller."""

    def owner_for(self, who: str) -> str:
        """Return the owner of the object on which a caller acts."""
        if who == "member":
            return GROUP
        return self.owners[who if SIGNED_IN.get(who, Who()).owns else "owner"]

    def headers(self, who: str) -> dict[str, str]:
        """Return the headers of a request of a kind of caller."""
        token = self.tokens[who]
        return {} if token is None else {"Authorization": f"Bearer {token}"}

    def submit(self, who: str, statement: str) -> Json:
        """Submit a statement that a node executes itself, and return it."""
        answer = self.node.http.post(
            "/api/v1/statements", json={"statement": statement}, headers=self.headers(who)
        )
        assert answer.is_success, answer.text
        return dict(answer.json())

    def call(self, operation: str, who: str, reference: str) -> httpx.Response:
        method, path = self.operations[operation]
        path = re.sub(r"{action}", "stop", path)
        path = re.sub(r"{ordinal}", "0", path)
        path = re.sub(r"{\w+}", reference, path)
        headers = self.headers(who)
        body = BODIES.get(operation)
        options: Json = {} if body is None else {"json": body(self)}
        return self.node.http.request(method, path, headers=headers, **options)


BODIES: dict[str, Callable[[Server], Json]] = {
    "open_session": lambda _: {},
    "open_connection": lambda _: {},
    "open_livy_session": lambda _: {},
    "run_livy_batch": lambda _: {"file": "/tmp/report.sql"},
    "run_livy_statement": lambda _: {"code": "SELECT 1"},
    "submit_statement": lambda _: {"statement": "SELECT 1"},
    "create_async_query": lambda _: {
        "datasource": "spark_catalog",
        "query": "SELECT 1",
        "lang": "sql",
    },
    "plan_jobs": lambda _: {"manifests": []},
    "start_job": lambda _: {},
    "roll_back_job": lambda _: {"version": 1},
    "run_job": lambda _: {},
    "backfill_job": lambda _: {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"},
    "repair_run": lambda _: {},
    "confirm_node_gone": lambda _: {"confirmed": True},
    "purge_history": lambda _: {"older_than": "3650d"},
    "create_webhook": lambda _: {
        "name": new_id("wh").replace("wh_", "w-"),
        "url": "http://127.0.0.1:9/",
        "secret": "${secret:hook}",
        "events": ["run.failed"],
    },
    "create_token": lambda _: {"name": new_id("tk").replace("tk_", "t-"), "expires": "1d"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("access") / "home"
    settings = make_settings(
        home,
        token="of-the-node",
        auth={"roles": ROLES},
        # The node must not start the drivers of the sessions that the test makes.
        lease={"sweep": "1h"},
        secrets={"provider": "files", "folder": str(home.parent), "allowed": {"*": ["*"]}},
    )
    write_private(home.parent / "hook", SECRET)
    with serve_node(settings) as node:
        document = node.http.get("/api/v1/openapi.json").json()
        operations = {
            operation["operationId"]: (method.upper(), path)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
        }
        owners, texts = _sign_in(node.database)
        yield Server(node, operations, texts, owners)


def _sign_in(store: Database) -> tuple[dict[str, str], dict[str, str | None]]:
    """Insert a user and a token for each kind of caller. Return their ids, and the tokens."""
    owners: dict[str, str] = {}
    texts: dict[str, str | None] = {"without a token": None, "with a wrong token": "wrong"}
    with store.write("test") as tx:
        for who, kind in SIGNED_IN.items():
            user = users.sign_in(tx, SOURCE, who, name=who, groups=kind.groups)
            owners[who] = user.id
            texts[who] = _insert_token(tx, user.id, kind.scope)[1]
        expired, texts["with an expired token"] = _insert_token(tx, owners["owner"], Scope.ADMIN)
        past = update(tokens_table).where(tokens_table.c.id == expired)
        tx.execute(past.values(created_at=clock(-20), expires_at=clock(-10)))
        revoked, texts["revoked"] = _insert_token(tx, owners["owner"], Scope.ADMIN)
        tokens.revoke(tx, revoked, actor="test")
    return owners, texts


def _insert_token(tx: Any, owner: str, scope: Scope) -> tuple[str, str]:
    new = make_token()
    token = tokens.insert_token(
        tx,
        new.secret_hash,
        owner=owner,
        name=new_id("tk").replace("tk_", "t-"),
        scope=scope,
        seconds=timedelta(days=1).total_seconds(),
        created_by=owner,
    )
    return token.id, new.text(token.id)


def _make_stream(store: Database, owner: str) -> str:
    lease = running_session(store, owner=owner)
    new = NewStreamQuery(
        id=new_id("sq"),
        owner=owner,
        scope=ADHOC_SCOPE,
        name=new_id("sq"),
        spec=QuerySpec(text=f"SAVE STREAM {SQL} TO noop IDENTIFIED BY `q`", sink="noop"),
        checkpoint_place=None,
        session_id=lease.session_id,
        statement_id=None,
    )
    with store.write("test") as tx:
        stream_queries.insert_query(tx, new, actor=owner)
    return new.id


def _make_deployment(store: Database, owner: str) -> str:
    job = PlannedJob(name="trips", decision=JobDecision.NONE, reason="", diff=f"+ {SQL}")
    plan = DeploymentPlan(state_location="file:/tmp/state", jobs=[job])
    with store.write("test") as tx:
        return job_changes.insert_deployment(tx, owner, JobAction.DEPLOY, plan, actor="test")


JOB = VersionSpec(
    text=f"sql: {SQL}",
    written={},
    manifest={},
    description="",
    query_fingerprint="",
    configuration_fingerprint="",
    session=JobSession(name="trips", spec=SessionSpec()),
    queries=[],
)


def _make_job(store: Database, owner: str) -> str:
    name = new_id("jb").replace("_", "-")
    place = f"file:/tmp/{name}"
    with store.write("test") as tx:
        job = jobs.insert_job(tx, owner, name, place, state_place=place, actor=owner)
        deployment = job_changes.insert_deployment(
            tx, owner, JobAction.DEPLOY, DeploymentPlan(state_location=place), actor=owner
        )
        for number in (1, 2):
            version = jobs.insert_version(
                tx,
                job,
                JOB,
                version=number,
                query_id=str(uuid4()),
                decision=JobDecision.START_CLEAN,
                reason="",
                deployment_id=deployment,
            )
            jobs.set_outcome(tx, version.id, outcome="deployed", last_run=None, from_state=None)
        deployed = Deployed(version_id=version.id, run=None)
        jobs.transition(tx, job, JobState.STOPPED, actor=owner, deployed=deployed)
    return job.id


def _make_transaction(store: Database, owner: str) -> str:
    creation = Creation(store, owner=owner)
    assert creation.prepare()
    return creation.id


def _make_token(store: Database, owner: str) -> str:
    with store.write("test") as tx:
        return _insert_token(tx, owner, Scope.READ)[0]


def _make_user(store: Database, _owner: str) -> str:
    with store.write("test") as tx:
        return users.sign_in(tx, SOURCE, new_id("us"), name="guest", groups=()).id


def _make_run(store: Database, owner: str) -> str:
    with store.read() as tx:
        now = read_clock(tx.connection)
    rules = FiringRules(schedule=Schedule(cron="@yearly"))
    job_id = insert_batch_job(store, rules, cursor=now, name=new_id("jb"), owner=owner)
    times = RunTimes(logical_time=now, interval_start=now, interval_end=now)
    with store.write("test") as tx:
        run = runs.insert_run(
            tx,
            job_id,
            owner=owner,
            name=new_id("jb"),
            version_id=new_id("jv"),
            trigger=RunTrigger.BACKFILL,
            times=times,
            due_at=now,
            actor=owner,
            backfill_id=new_id("bf"),
        )
    return run.id


def _make_webhook(store: Database, owner: str) -> str:
    webhook = Webhook(
        id=new_id("wh"),
        owner=owner,
        name=new_id("wh").replace("wh_", "w-"),
        url="http://127.0.0.1:9/",
        secret="${secret:hook}",
        events=["run.failed"],
    )
    with store.write("test") as tx:
        webhooks.insert_webhook(tx, webhook)
    return webhook.id


def _make_backfill(store: Database, owner: str) -> str:
    run_id = _make_run(store, owner)
    with store.read() as tx:
        run = runs.get(tx, run_id)
    assert run is not None
    assert run.backfill_id is not None
    return run.backfill_id


def _make_connection(store: Database, owner: str) -> str:
    with store.write("test") as tx:
        return connections.insert_connection(tx, owner, "rest", ConnectionSpec()).id


def _make_node(store: Database, _owner: str) -> str:
    node_id = new_id("no")
    with store.write("test") as tx:
        nodes.register(tx, node_id, address="http://a", version="1", seconds=-60)
    return node_id


def _make_statement(store: Database, owner: str) -> str:
    session = new_session(store, owner=owner)
    statement_id = new_statement(store, session, owner=owner, text=f"SELECT '{SQL}'")
    values = {"statement_id": statement_id, "execution": make_execution(f"Scan {SQL}")}
    with store.write("test") as tx:
        tx.execute(insert(statement_executions).values(values))
    return str(statement_id)


MAKERS: dict[str, Callable[[Database, str], str]] = {
    "session": lambda store, owner: new_session(store, owner=owner),
    "statement_id": _make_statement,
    "stream": _make_stream,
    "deployment": _make_deployment,
    "name": _make_job,
    "run": _make_run,
    "webhook": _make_webhook,
    "backfill": _make_backfill,
    "transaction": _make_transaction,
    "token": _make_token,
    "connection": _make_connection,
    "user": _make_user,
    "node_id": _make_node,
}


def _make_livy_session(store: Database, owner: str) -> str:
    session = new_session(store, owner=owner)
    new_statement(store, session, owner=owner, text=f"SELECT '{SQL}'")
    return session


def _make_livy_batch(store: Database, owner: str) -> str:
    session = new_session(store, owner=owner, kind=SessionKind.BATCH)
    new_statement(store, session, owner=owner, text=f"RUN FILE: /{SQL}.sql")
    return session


MAKERS["livy_session"] = _make_livy_session
MAKERS["livy_batch"] = _make_livy_batch
MAKERS["query_id"] = MAKERS["statement_id"]


def _make_definition(store: Database, owner: str) -> str:
    """Define a stream and a sink of one name."""
    name = new_id("de")
    with store.write("test") as tx:
        for kind, provider in (
            (DefinitionKind.STREAM, "FROM rate"),
            (DefinitionKind.SINK, "TO noop"),
        ):
            text = f"CREATE {kind} {name} {provider}"
            definition = Definition(owner=owner, scope=ADHOC_SCOPE, kind=kind, name=name, text=text)
            definitions.define(tx, definition, replace=False, actor=owner)
    return name


def _make_view(store: Database, owner: str) -> str:
    name = new_id("mv")
    scope = NameScope(catalog="spark_catalog", namespace=["default"])
    rows = ViewRows(
        path=["spark_catalog", "default", name], storage=RowStorage.GENERATIONS, scope=scope
    )
    new = views.NewMaterializedView(
        owner=owner,
        name=name,
        identity="metastore",
        target=f"`default`.`{name}`",
        text=f"CREATE MATERIALIZED VIEW {name} AS SELECT '{SQL}'",
        rows=rows,
        statement_id=MAKERS["statement_id"](store, owner),
        attempt=1,
    )
    with store.write("test") as tx:
        views.insert_view(tx, new, actor=owner)
    return name


MAKERS_FOR_SQL = {**MAKERS, "definition": _make_definition, "view": _make_view}


def test_the_table_has_every_operation(server: Server) -> None:
    assert set(OPERATIONS) == set(server.operations)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_answers_each_caller_as_the_table_says(server: Server, operation: str) -> None:
    access = OPERATIONS[operation]
    parameter = next(iter(re.findall(r"{(\w+)}", server.operations[operation][1])), None)
    wrong = []
    # Callers who are refused come first: what serves the others may change the object.
    for who in [*NOT_SIGNED_IN, *SIGNED_IN]:
        reference, missing = "", ""
        if parameter is not None:
            reference = MAKERS[parameter](server.node.database, server.owner_for(who))
            missing = _change_last(reference)
        answer = server.call(operation, who, reference)
        outcome = outcome_of(answer)
        if outcome is not expected(access, who):
            wrong.append(f"{who}: {outcome}, not {expected(access, who)}: {answer.text[:200]}")
        if outcome is Outcome.HIDDEN:
            other = server.call(operation, who, missing)
            same = answer.text.replace(reference, "") == other.text.replace(missing, "")
            if not same or answer.status_code != other.status_code:
                wrong.append(f"{who}: {answer.text} differs from {other.text}")
    assert wrong == []


def _change_last(reference: str) -> str:
    """Return a reference of the same form that names no object."""
    return reference[:-8] + ("0" * 8 if reference[-8:] != "0" * 8 else "1" * 8)


NEEDS_A_ROLE = {Access.OPERATE, Access.ADMINISTER, Access.CREATE_IN_PERSON}


@pytest.mark.parametrize(
    "operation", [name for name, access in OPERATIONS.items() if access in NEEDS_A_ROLE]
)
def test_a_refusal_because_of_a_role_is_in_the_audit(server: Server, operation: str) -> None:
    method, path = server.operations[operation]
    parameter = next(iter(re.findall(r"{(\w+)}", path)), None)
    reference = MAKERS[parameter](server.node.database, GROUP) if parameter else ""
    audit = server.node.node.context.audit
    # Otherwise the refusals of other tests could be so many that this one loses its detail.
    audit.flush()
    answer = server.call(operation, "stranger", reference)
    assert outcome_of(answer) is Outcome.REFUSED
    audit.flush()
    [record, *_older] = audit.page(LOCAL_CALLER, before=None, limit=10)
    assert (record.action, record.actor) == ("request_denied", server.owners["stranger"])
    assert record.detail["code"] == answer.json()["code"]
    called = (record.detail["method"], record.detail["path"])
    assert called == (method, re.sub(r"{\w+}", reference, path))


LISTS = {
    "list_runs": "run",
    "list_sessions": "session",
    "list_connections": "connection",
    "list_statements": "statement_id",
    "list_streams": "stream",
    "list_deployments": "deployment",
    "list_jobs": "name",
    "list_transactions": "transaction",
    "list_tokens": "token",
    "list_webhooks": "webhook",
}


@pytest.mark.parametrize("operation", LISTS)
def test_a_list_has_the_objects_that_its_caller_may_read(server: Server, operation: str) -> None:
    make, path = MAKERS[LISTS[operation]], server.operations[operation][1]
    owned = {
        owner: make(server.node.database, owner)
        for owner in (server.owners["owner"], server.owners["stranger"], GROUP)
    }
    own, others, of_group = owned.values()

    def listed(who: str, query: str = "") -> set[str]:
        headers = server.headers(who)
        items = server.node.http.get(f"{path}{query}", headers=headers).json()["items"]
        found = {item["id"] for item in items}
        return found & {own, others, of_group}

    assert listed("owner") == listed("owner", "?all_owners=true") == {own}
    assert listed("member") == {of_group}
    assert listed("stranger", "?all_owners=true") == {others}
    assert listed("admin") == set()
    for who in ("operator", "auditor", "admin"):
        assert listed(who, "?all_owners=true") == {own, others, of_group}


def test_an_operator_reads_no_sql_of_others(server: Server) -> None:
    references = {
        parameter: make(server.node.database, server.owners["owner"])
        for parameter, make in MAKERS.items()
    }
    references["ordinal"] = "0"

    def show_sql(who: str) -> set[str]:
        """Return the operations that answer a caller with the SQL of another one."""
        headers = server.headers(who)
        found = set()
        for operation, access in OPERATIONS.items():
            method, path = server.operations[operation]
            if method == "GET" and access in {Access.READ, Access.VISIBLE}:
                path = re.sub(r"{(\w+)}", lambda name: references[name[1]], path)
                query: Json = {"all_owners": True} if operation in LISTS else {}
                query |= {"table": "t"} if operation == "show_lineage" else {}
                answer = server.node.http.get(path, params=query, headers=headers)
                assert answer.is_success or answer.status_code == 404, answer.text
                found |= {operation} if SQL in answer.text else set()
        return found

    assert show_sql("operator") == set()
    assert show_sql("auditor") == {
        *("show_statement", "list_statements", "show_stream", "list_streams"),
        *("show_livy_statement", "list_livy_statements"),
        *("show_job", "list_jobs", "list_versions", "show_deployment", "list_deployments"),
    }


@pytest.mark.parametrize("view", ["waiting", "running", "slow"])
def test_a_cursor_says_nothing_about_statements_of_others(server: Server, view: str) -> None:
    statement = MAKERS["statement_id"](server.node.database, server.owners["owner"])
    headers = server.headers("stranger")
    answers = [
        server.node.http.get(
            "/api/v1/statements", params={"view": view, "before": cursor}, headers=headers
        )
        for cursor in (statement, _change_last(statement))
    ]
    assert {answer.status_code for answer in answers} == {404}
    texts = {re.sub("st_[0-9a-f]{32}", "", answer.text) for answer in answers}
    assert len(texts) == 1


def test_a_new_session_copies_no_session_of_others(server: Server) -> None:
    session = new_session(server.node.database, owner=server.owners["owner"])
    headers = server.headers("stranger")
    answers = [
        server.node.http.post("/api/v1/sessions", json={"like": like}, headers=headers)
        for like in (session, _change_last(session))
    ]
    assert {answer.status_code for answer in answers} == {404}


SQL_ON_OBJECTS = {
    "CANCEL STATEMENT '{}'": "statement_id",
    **{f"{action.upper()} STREAM `{{}}`": "stream" for action in [*StreamAction, "show"]},
    "DROP STREAM `{}`": "definition",
    "DROP MATERIALIZED VIEW `{}`": "view",
    "DESCRIBE MATERIALIZED VIEW `{}`": "view",
}
"""Statements that a node executes itself, with the kind of the object that they name."""


@pytest.mark.parametrize("statement", SQL_ON_OBJECTS)
def test_sql_reaches_no_object_of_others(server: Server, statement: str) -> None:
    store, make = server.node.database, MAKERS_FOR_SQL[SQL_ON_OBJECTS[statement]]
    reference = make(store, server.owners["owner"])
    missing = _change_last(reference)
    with store.read() as tx:
        first = events.last(tx)

    refused, unknown = (
        server.submit("stranger", statement.format(name)) for name in (reference, missing)
    )
    assert refused["state"] == unknown["state"] == "failed"
    assert refused["error"]["code"].endswith("_not_found")
    texts = [str(each["error"]) for each in (refused, unknown)]
    assert texts[0].replace(reference, "") == texts[1].replace(missing, "")
    with store.read() as tx:
        since = events.read(tx, after=first, limit=1000)
    changed = {event.entity_id for event in since if event.actor == server.owners["stranger"]}
    submitted = {ended[key] for ended in (refused, unknown) for key in ("id", "session_id")}
    assert changed <= submitted
    # The same statement reaches the object of its own owner.
    own = server.submit("owner", statement.format(reference))
    assert own["state"] == "success" or own["error"]["code"] != refused["error"]["code"]


@pytest.mark.parametrize("listed", ["STREAMS", "SINKS", "MATERIALIZED VIEWS"])
def test_a_list_in_sql_has_the_objects_of_its_caller(server: Server, listed: str) -> None:
    owner = server.owners["owner"]
    names = {make(server.node.database, owner) for make in MAKERS_FOR_SQL.values()}

    def show(who: str) -> str:
        path = f"/api/v1/statements/{server.submit(who, f'SHOW {listed}')['id']}/result"
        return server.node.http.get(path, headers=server.headers(who)).text

    assert [name for name in names if name in show("owner")] != []
    for who in ("stranger", "admin"):
        shown = show(who)
        assert [name for name in names if name in shown] == []


def test_the_events_are_those_of_readable_objects(server: Server) -> None:
    own = new_session(server.node.database, owner=server.owners["owner"])
    others = new_session(server.node.database, owner=server.owners["stranger"])

    def seen(who: str) -> set[str]:
        headers = server.headers(who)
        found = set()
        for session in (own, others):
            query = {"entity_id": session}
            page = server.node.http.get("/api/v1/events", params=query, headers=headers).json()
            found |= {event["entity_id"] for event in page["items"]}
        return found

    assert seen("owner") == {own}
    assert seen("stranger") == {others}
    assert seen("operator") == seen("auditor") == {own, others}
