"""Limits on what owners use, and quotas of users and groups, over HTTP."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event, text, update
from tests.support.identities import LOCAL_CALLER, LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedDriver, ScriptedLauncher
from tests.support.store import INLINE, new_statement
from tests.support.waiting import wait_until

from headrace.config.limits import LimitSettings
from headrace.control.identity.authenticator import make_token
from headrace.control.node import Node
from headrace.control.sessions import launch
from headrace.errors import QueueFull
from headrace.model.identity import Scope
from headrace.model.ids import new_id
from headrace.model.lifecycle import StreamState
from headrace.model.result import Disposition
from headrace.model.session import NewSession, SessionSpec
from headrace.model.statement import StatementSpec
from headrace.model.stream_query import Wanted
from headrace.store.clock import clock
from headrace.store.identity import tokens, users
from headrace.store.sessions import sessions
from headrace.store.tables import stream_queries


def _refuse(node: InProcessNode, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post a request that a limit refuses. Return the problem."""
    response = node.http.post(f"/api/v1/{path}", json=body)
    assert response.status_code == 429
    assert int(response.headers["Retry-After"]) > 0
    problem: dict[str, Any] = response.json()
    assert problem["hint"]
    return problem


@pytest.mark.parametrize("setting", ["sessions", "sessions_per_user"])
def test_a_session_above_the_limit_is_refused(start_node: StartNode, setting: str) -> None:
    node = start_node(limits={setting: 2})
    first, driver = node.start_session()
    node.submit(kind="batch")

    problem = _refuse(node, "sessions", {})
    assert problem["code"] == "too_many_sessions"
    assert f"limits.{setting})" in problem["detail"]
    for kind in ("interactive", "batch"):
        refused = _refuse(node, "statements", {"statement": "SELECT 2", "kind": kind})
        assert refused["code"] == "too_many_sessions"
    # A statement that a node executes itself needs no driver, and one for a live session no other.
    node.submit("SHOW STREAMS")
    node.submit("SELECT 3", session=first)

    node.http.delete(f"/api/v1/sessions/{first}")
    driver.goodbye()
    wait_until(lambda: node.session_state(first) == "dead", what="the session ends")
    node.session()


def test_the_number_of_sessions_is_limited_by_default(start_node: StartNode) -> None:
    """Each session starts a JVM: a loop that opens sessions must not end the host."""
    defaults = LimitSettings()
    node = start_node(limits=defaults.model_dump())
    assert (defaults.sessions, defaults.sessions_per_user) == (1000, 100)
    for _number in range(100):
        node.session()
    assert _refuse(node, "sessions", {})["code"] == "too_many_sessions"


@pytest.mark.parametrize("setting", ["waiting_statements", "waiting_statements_per_user"])
def test_a_waiting_statement_above_the_limit_is_refused(
    start_node: StartNode, setting: str
) -> None:
    node = start_node(limits={setting: 2})
    session_id, driver = node.start_session()
    node.submit("SELECT 1", session=session_id)
    driver.claim()
    waiting = [node.submit("SELECT 2", session=session_id) for _number in range(2)]

    problem = _refuse(node, "statements", {"statement": "SELECT 3", "session": session_id})
    assert problem["code"] == "queue_full"
    assert f"limits.{setting})" in problem["detail"]
    node.submit("SHOW STREAMS", session=session_id)

    node.http.post(f"/api/v1/statements/{waiting[0]['id']}/cancel")
    node.submit("SELECT 4", session=session_id)


def test_a_waiting_statement_has_a_position_in_its_queue(start_node: StartNode) -> None:
    node = start_node()
    session_id, driver = node.start_session()
    first, second, third = (node.submit("SELECT 1", session=session_id) for _number in range(3))
    assert [node.statement(each["id"])["queue_position"] for each in (first, second, third)] == [
        1,
        2,
        3,
    ]

    driver.claim()
    node.http.post(f"/api/v1/statements/{second['id']}/cancel")

    assert node.statement(first["id"])["queue_position"] is None
    assert node.statement(second["id"])["queue_position"] is None
    assert node.statement(third["id"])["queue_position"] == 1


def test_a_statement_waits_until_a_place_is_free(start_node: StartNode) -> None:
    node = start_node(limits={"running_statements": 1})
    session_id, driver = node.start_session()
    other_id, other = node.start_session()
    node.submit("SELECT 1", session=session_id)
    first = driver.claim()
    waiting = node.submit("SELECT 2", session=other_id)
    assert other.poll(wait=0).assignment is None

    with ThreadPoolExecutor(1) as thread:
        poll = thread.submit(other.poll, wait=30)
        driver.succeed(first.statement_id)
        assignment = poll.result().assignment

    assert assignment is not None
    assert assignment.statement_id == waiting["id"]


def test_a_place_becomes_free_when_a_driver_is_lost(start_node: StartNode) -> None:
    node = start_node(limits={"running_statements": 1})
    session_id, driver = node.start_session()
    other_id, other = node.start_session()
    node.submit("INSERT INTO t VALUES (1)", session=session_id)
    driver.claim()
    waiting = node.submit("SELECT 2", session=other_id)
    # The first poll at a process is short.
    assert other.poll().assignment is None

    with ThreadPoolExecutor(1) as thread:
        poll = thread.submit(other.poll, wait=30)
        driver.goodbye()
        assignment = poll.result().assignment

    assert assignment is not None
    assert assignment.statement_id == waiting["id"]


# Quotas.

ISSUER = "https://login.example.com"
ETL = "group:corp:etl"
SAVE = "SAVE STREAM t TO noop IDENTIFIED BY "
QUOTAS = {
    "users": {
        "corp:ada": {"sessions": 1, "submits_per_minute": 3, "default_timeout": "5m"},
        "bob": {"waiting_statements": 1, "running_statements": 1, "streams": 1},
    },
    "groups": {
        "corp:etl": {
            "sessions": 2,
            "waiting_statements": 2,
            "streams": 2,
            "stored_bytes": 1000,
            "max_timeout": "1h",
            "weight": 3,
        },
        "corp:web": {"sessions": 3, "max_timeout": "2h"},
    },
}
PEOPLE: dict[str, list[str]] = {
    "ada": ["etl"],
    "bob": [],
    "cyd": ["etl", "web"],
    "dan": [],
    "oda": ["operators"],
}


@dataclass
class Team:
    """A node with quotas, and the people who use it."""

    node: InProcessNode
    headers: dict[str, dict[str, str]]

    def post(self, who: str, path: str, **body: Any) -> httpx.Response:
        return self.node.http.post(f"/api/v1/{path}", json=body, headers=self.headers[who])

    def submit(self, who: str, statement: str = "SELECT 1", **body: Any) -> dict[str, Any]:
        response = self.post(who, "statements", statement=statement, **body)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def refuse(self, who: str, path: str, **body: Any) -> dict[str, Any]:
        """Post a request that a limit refuses. Return the problem, with `retry_after`."""
        response = self.post(who, path, **body)
        assert response.status_code == 429, response.text
        problem: dict[str, Any] = response.json()
        assert problem["limit"]["changed_by"] == "administrator"
        assert problem["limit"]["setting"] in problem["detail"]
        assert problem["limit"]["setting"] in problem["hint"]
        assert "administrator" in problem["hint"]
        return problem | {"retry_after": int(response.headers["Retry-After"])}

    def open_session(self, who: str, **fields: Any) -> tuple[str, ScriptedDriver]:
        """Open a session and connect its driver."""
        response = self.post(who, "sessions", **fields)
        assert response.status_code == 201, response.text
        driver = self.node.launcher.connect_driver(response.json()["id"])
        assert driver.hello().applied
        return response.json()["id"], driver

    def quota(self, who: str, owner: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the limits that the API shows, by name."""
        query = {} if owner is None else {"owner": owner}
        answer = self.node.http.get("/api/v1/quota", params=query, headers=self.headers[who])
        assert answer.status_code == 200, answer.text
        return {line["name"]: line for line in answer.json()["limits"]}


@pytest.fixture(params=["sqlite", "postgresql"])
def team(request: pytest.FixtureRequest, start_node: StartNode) -> Team:
    store = {}
    if request.param == "postgresql":
        store = {"store": {"url": request.getfixturevalue("postgres_url")}}
    node = start_node(
        token="of-the-node",
        auth={
            "methods": ["token", "oidc"],
            "oidc": {"corp": {"issuer": ISSUER, "audience": ["headrace"]}},
            "roles": {"operator": ["corp:operators"]},
        },
        limits=QUOTAS,
        **store,
    )
    headers = {}
    with node.database.write("test") as tx:
        for name, groups in PEOPLE.items():
            user = users.sign_in(tx, ISSUER, f"subject of {name}", name=name, groups=groups)
            assert user.id == name
            new = make_token()
            token = tokens.insert_token(
                tx,
                new.secret_hash,
                owner=name,
                name="test",
                scope=Scope.ADMIN,
                seconds=timedelta(days=1).total_seconds(),
                created_by=name,
            )
            headers[name] = {"Authorization": f"Bearer {new.text(token.id)}"}
    return Team(node, headers)


def test_sessions_are_limited_by_the_quota_of_their_owner(team: Team) -> None:
    assert team.post("ada", "sessions").status_code == 201
    problem = team.refuse("ada", "sessions")
    assert problem["code"] == "too_many_sessions"
    assert problem["limit"] == {
        "name": "sessions",
        "owner": "ada",
        "value": 1,
        "used": 1,
        "setting": 'limits.users."corp:ada".sessions',
        "changed_by": "administrator",
    }
    # The sessions of her group are those of the group.
    for _number in range(2):
        assert team.post("ada", "sessions", owner="group:etl").status_code == 201
    of_group = team.refuse("cyd", "sessions", owner="group:etl")["limit"]
    assert (of_group["owner"], of_group["value"], of_group["used"]) == (ETL, 2, 2)
    # The largest limit of the groups of a user.
    for _number in range(3):
        assert team.post("cyd", "sessions").status_code == 201
    of_cyd = team.refuse("cyd", "sessions")["limit"]
    assert of_cyd["setting"] == 'limits.groups."corp:web".sessions'
    # A statement that needs a session is refused too, and one without a quota is not.
    assert team.refuse("ada", "statements", statement="SELECT 1")["code"] == "too_many_sessions"
    team.submit("dan")


def test_waiting_statements_are_limited_by_the_quota_of_their_owner(team: Team) -> None:
    team.submit("bob")
    problem = team.refuse("bob", "statements", statement="SELECT 2")
    assert problem["code"] == "queue_full"
    assert problem["limit"]["setting"] == "limits.users.bob.waiting_statements"
    for who in ("ada", "cyd"):
        team.submit(who, owner=ETL)
    problem = team.refuse("ada", "statements", statement="SELECT 2", owner="group:etl")
    assert (problem["limit"]["owner"], problem["limit"]["used"]) == (ETL, 2)
    team.submit("dan")
    # What a node executes itself does not wait.
    team.submit("bob", "SHOW STREAMS")


def test_statements_in_flight_are_limited_by_the_quota_of_their_owner(team: Team) -> None:
    session_id, driver = team.open_session("bob")
    first = team.submit("bob", session=session_id)
    assert driver.claim().statement_id == first["id"]
    second = team.submit("bob", session=session_id)
    assert driver.poll(in_flight=[first["id"]]).assignment is None
    path = f"/api/v1/statements/{second['id']}"
    shown = team.node.http.get(path, headers=team.headers["bob"]).json()
    assert shown["queue_position"] == 1
    assert shown["waiting_for"]["code"] == "limit"
    assert "(setting limits.users.bob.running_statements)" in shown["waiting_for"]["text"]
    others, other_driver = team.open_session("dan")
    team.submit("dan", session=others)
    other_driver.claim()

    driver.succeed(first["id"])
    assert driver.claim().statement_id == second["id"]


def test_streams_are_limited_by_the_quota_of_their_owner(team: Team) -> None:
    session_id, driver = team.open_session("bob", kind="streaming")
    team.submit("bob", f"{SAVE}first", session=session_id)
    body = {"statement": f"{SAVE}second", "session": session_id}
    assert team.refuse("bob", "statements", **body)["code"] == "queue_full"
    driver.succeed(driver.claim().statement_id)

    problem = team.refuse("bob", "statements", **body)
    assert problem["code"] == "too_many_streams"
    assert (problem["limit"]["name"], problem["limit"]["value"]) == ("streams", 1)
    view = "CREATE MATERIALIZED VIEW v WITH (auto_refresh = true) AS SELECT 1"
    assert team.refuse("bob", "statements", statement=view)["code"] == "too_many_streams"
    # A query that has ended does not count, and its restart does.
    with team.node.database.write("test") as tx:
        tx.execute(
            update(stream_queries).values(
                state=StreamState.STOPPED, wanted=Wanted.STOPPED, ended_at=clock()
            )
        )
    team.submit("bob", f"{SAVE}second", session=session_id)
    driver.succeed(driver.claim().statement_id)
    restart = team.refuse("bob", "streams/first/restart")
    assert (restart["code"], restart["limit"]["used"]) == ("too_many_streams", 1)
    local = team.submit("bob", "RESTART STREAM first")
    assert (local["state"], local["error"]["code"]) == ("failed", "too_many_streams")


def test_submits_are_limited_in_a_minute(team: Team) -> None:
    for _number in range(3):
        # Statements that a node executes itself count too, and so do those that end.
        team.submit("ada", "SHOW STREAMS")
    problem = team.refuse("ada", "statements", statement="SHOW STREAMS")
    assert problem["code"] == "too_many_submits"
    assert problem["limit"]["setting"] == 'limits.users."corp:ada".submits_per_minute'
    # One of three submits a minute is possible after 20 s; the rest is jitter.
    assert 10 <= problem["retry_after"] <= 40
    assert team.quota("ada")["submits_per_minute"]["used"] == 3
    # The group has no such limit.
    for _number in range(4):
        team.submit("ada", "SHOW STREAMS", owner="group:etl")


JOB = {
    "manifests": [
        {
            "path": "job.yaml",
            "text": "name: job\ndescription: A job\ntarget-table: files\nsql: SELECT 1 AS a\n",
        }
    ],
    "definitions": [{"path": "definitions.sql", "text": "CREATE SINK files TO json;"}],
}


def test_a_plan_counts_as_a_submit_and_its_check_as_a_session(team: Team) -> None:
    assert team.post("ada", "sessions").status_code == 201
    assert team.refuse("ada", "deployments", **JOB)["code"] == "too_many_sessions"
    for _number in range(3):
        assert team.post("ada", "deployments", manifests=[]).status_code == 201
    assert team.quota("ada")["submits_per_minute"]["used"] == 3
    assert team.refuse("ada", "deployments", manifests=[])["code"] == "too_many_submits"
    assert team.refuse("ada", "statements", statement="SHOW STREAMS")["code"] == "too_many_submits"


def test_a_refused_submit_and_a_repeated_one_do_not_count(team: Team) -> None:
    key = {"Idempotency-Key": "k"} | team.headers["ada"]
    for _number in range(5):
        body = {"statement": "SHOW STREAMS"}
        answer = team.node.http.post("/api/v1/statements", json=body, headers=key)
        assert answer.status_code == 201
    for _number in range(5):
        assert team.post("ada", "statements", statement="SELECT 1", session="none").is_error
    assert team.quota("ada")["submits_per_minute"]["used"] == 1


def test_stored_results_are_limited_by_their_bytes(team: Team) -> None:
    session_id, driver = team.open_session("ada", owner="group:etl")
    for size in (999, 1):
        team.submit("cyd", session=session_id)
        report = INLINE.model_copy(
            update={"disposition": Disposition.STORED, "byte_count": size, "data": None}
        )
        driver.succeed(driver.claim().statement_id, report)
    assert team.quota("ada", ETL)["stored_bytes"]["used"] == 1000
    problem = team.refuse("ada", "statements", statement="SELECT 1", session=session_id)
    assert problem["code"] == "results_full"
    assert (problem["limit"]["value"], problem["limit"]["used"]) == (1000, 1000)
    assert "Enough of them expire in" in problem["detail"]
    # Results are kept for a day.
    assert 86_000 <= problem["retry_after"] <= 86_400 + 60
    team.submit("ada", "SHOW STREAMS", session=session_id)

    with team.node.database.write("test") as tx:
        tx.execute(text("UPDATE results SET gone_at = expires_at WHERE byte_count = 1"))
    team.submit("ada", session=session_id)


def _timeout_of(team: Team, statement: dict[str, Any]) -> float | None:
    with team.node.database.read() as tx:
        query = text("SELECT timeout_seconds FROM statements WHERE id = :id")
        seconds: float | None = tx.execute(query, {"id": statement["id"]}).scalar_one()
    return seconds


def test_a_timeout_has_a_default_and_a_largest_value(team: Team) -> None:
    assert _timeout_of(team, team.submit("ada")) == 300
    assert _timeout_of(team, team.submit("ada", timeout="1h")) == 3600
    assert _timeout_of(team, team.submit("ada", owner=ETL)) == 3600
    assert _timeout_of(team, team.submit("cyd", timeout="2h")) == 7200
    assert _timeout_of(team, team.submit("dan")) is None
    assert _timeout_of(team, team.submit("dan", timeout="9h")) == 9 * 3600
    with team.node.expect_no_changes():
        answer = team.post("ada", "statements", statement="SELECT 1", timeout="3601s")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "timeout_too_long")
    assert "At most 1h is allowed" in problem["detail"]
    assert problem["limit"] == {
        "name": "max_timeout",
        "owner": "ada",
        "value": "1h",
        "used": None,
        "setting": 'limits.groups."corp:etl".max_timeout',
        "changed_by": "administrator",
    }


def test_a_quota_shows_each_limit_with_its_setting_and_the_use(team: Team) -> None:
    session_id, driver = team.open_session("bob")
    team.submit("bob", session=session_id)
    driver.claim()
    shown = team.quota("bob")
    assert {name: (line["value"], line["used"]) for name, line in shown.items()} == {
        "sessions": (None, 1),
        "waiting_statements": (1, 0),
        "running_statements": (1, 1),
        "streams": (1, 0),
        "connections": (2000, 0),
        "stored_bytes": (None, 0),
        "submits_per_minute": (None, 0),
        "default_timeout": (None, None),
        "max_timeout": (None, None),
        "weight": (1, None),
    }
    assert shown["streams"]["setting"] == "limits.users.bob.streams"
    assert shown["sessions"]["setting"] is None
    of_group = team.quota("ada", "group:etl")
    assert of_group == team.quota("cyd", ETL)
    assert (of_group["weight"]["value"], of_group["default_timeout"]["value"]) == (3, "1h")
    assert of_group["weight"]["setting"] == 'limits.groups."corp:etl".weight'


def test_only_those_who_may_read_the_objects_of_others_see_their_quota(team: Team) -> None:
    team.submit("bob")
    assert team.quota("oda", "bob")["waiting_statements"]["used"] == 1
    assert team.quota("oda", ETL)["sessions"]["value"] == 2

    def ask(who: str, owner: str) -> tuple[int, str]:
        query = {"owner": owner}
        answer = team.node.http.get("/api/v1/quota", params=query, headers=team.headers[who])
        return answer.status_code, answer.text.replace(owner, "")

    assert ask("ada", "bob") == ask("ada", "eve")
    assert ask("ada", "bob")[0] == ask("bob", ETL)[0] == ask("oda", "eve")[0] == 404
    assert ask("ada", "../x")[0] == ask("ada", "group:\x00")[0] == 400


def test_a_statement_for_a_group_belongs_to_it_with_and_without_a_wait(team: Team) -> None:
    for wait in ({}, {"wait_timeout": "1ms"}):
        assert team.submit("ada", owner="group:etl", **wait)["owner"] == ETL


def test_owners_share_places_and_driver_starts_by_the_weights_of_their_quotas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_THREADS", 1)
    settings = make_settings(
        tmp_path / "home",
        limits={"running_statements": 1, "users": {"ada": {"weight": 3}}},
    )
    owners: dict[str, str] = {}
    with serve_node(settings) as node:
        with node.database.write("test") as tx:
            for owner in ("bob", "bob", "ada", "ada", "ada"):
                new = NewSession(id=new_id("se"), owner=owner, parallelism=1)
                sessions.insert(tx, new, actor=owner)
                owners[new.id] = owner
        drivers = {session: node.launcher.connect_driver(session) for session in owners}
        # A driver was started only when the one before was.
        started = [handle["name"].split("-")[1] for handle in node.launcher.started]
        assert [owners[session] for session in started] == ["ada", "ada", "bob", "ada", "bob"]

        for session, driver in drivers.items():
            driver.hello()
            new_statement(node.database, session, owner=owners[session], is_query=True)
        claimed: list[str] = []
        while len(claimed) < 40:
            for session, driver in drivers.items():
                assignment = driver.poll().assignment
                if assignment is not None:
                    claimed.append(owners[session])
                    new_statement(node.database, session, owner=owners[session], is_query=True)
                    driver.succeed(assignment.statement_id)
        assert 28 <= claimed[:40].count("ada") <= 32


def _record_submit(node: InProcessNode, session: str) -> list[str]:
    """Submit a statement. Return the SQL of its transaction."""
    executed: dict[int, list[str]] = defaultdict(list)

    def collect(_c: Any, _cursor: Any, sql: str, *_others: Any) -> None:
        # Background work has threads of its own.
        executed[threading.get_ident()].append(sql)

    event.listen(node.database._writers, "before_cursor_execute", collect)
    try:
        node.submit(session=session)
    finally:
        event.remove(node.database._writers, "before_cursor_execute", collect)
    [submit] = [each for each in executed.values() if "INSERT INTO statements" in str(each)]
    return [sql for sql in submit if not sql.startswith(("BEGIN", "PRAGMA"))]


SET_LIMITS: dict[str, tuple[dict[str, Any], int]] = {
    "none": ({}, 0),
    # The lock of the limit, and one count for both limits.
    "waiting": ({"waiting_statements_per_user": 9, "waiting_statements": 99}, 2),
    "submits": ({"submits_per_minute_per_user": 99}, 1),
    "stored bytes": ({"stored_bytes_per_user": 99}, 1),
    "streams": ({"streams_per_user": 9}, 0),
    "timeouts": ({"default_timeout": "1h", "max_timeout": "2h"}, 0),
    # What a quota must know of the caller comes with the caller.
    "quotas": ({"users": {LOCAL_OWNER: {"submits_per_minute": 99}}}, 1),
    "weights": ({"users": {LOCAL_OWNER: {"weight": 2}}}, 0),
}


@pytest.mark.parametrize("chosen", SET_LIMITS)
def test_a_limit_that_is_not_set_costs_a_submit_no_query(
    start_node: StartNode, chosen: str
) -> None:
    values, more = SET_LIMITS[chosen]
    node = start_node(limits=values, lease={"sweep": "1h", "renew": "1h"})
    session = node.session()
    executed = _record_submit(node, session)
    # The owner of the session, the ordinal, the statement, its event.
    assert len(executed) == 4 + more, executed


def test_fifty_submits_at_once_to_three_nodes_stop_exactly_at_the_limit(
    tmp_path: Path, postgres_url: str
) -> None:
    with ExitStack() as stack:
        nodes = []
        for number in range(3):
            settings = make_settings(
                tmp_path / f"node{number}",
                store={"url": postgres_url},
                limits={"waiting_statements_per_user": 10},
            )
            node = Node(
                settings,
                address=f"http://node{number}.invalid",
                embedded=False,
                launchers=[ScriptedLauncher()],
            )
            node.start(request_stop=lambda: None)
            stack.callback(node.stop)
            nodes.append(node)
        session = nodes[0].sessions.open(LOCAL_CALLER, SessionSpec()).id

        def submit(number: int) -> bool:
            spec = StatementSpec(text="SELECT 1")
            try:
                nodes[number % 3].statements.submit(LOCAL_CALLER, spec, session=session)
            except QueueFull:
                return False
            return True

        with ThreadPoolExecutor(50) as threads:
            accepted = list(threads.map(submit, range(50)))

    assert accepted.count(True) == 10


def test_a_position_is_true_while_places_are_left_to_a_heavier_owner(team: Team) -> None:
    """The position is that in the queue of the session; the weights decide between owners."""
    session_id, driver = team.open_session("dan")
    waiting = [team.submit("dan", session=session_id) for _number in range(3)]

    def positions() -> list[int | None]:
        paths = [f"/api/v1/statements/{each['id']}" for each in waiting]
        answers = [team.node.http.get(path, headers=team.headers["dan"]) for path in paths]
        return [answer.json()["queue_position"] for answer in answers]

    assert positions() == [1, 2, 3]
    claimed = driver.claim().statement_id
    assert claimed == waiting[0]["id"]
    assert positions() == [None, 1, 2]
    driver.succeed(claimed)
    assert driver.claim().statement_id == waiting[1]["id"]
    assert positions() == [None, None, 1]
