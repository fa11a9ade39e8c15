"""Upgrades: a node of this version takes over the store that a released version has left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.postgres import Postgres
from tests.support.recorded_store import LISTS, RECORDS, load_postgres, load_sqlite, read_lists

from headrace.config.auth import LOCAL_SOURCE
from headrace.config.settings import Settings
from headrace.control.identity import authenticator
from headrace.control.policy import Caller
from headrace.model.identity import Scope
from headrace.store.database import Database
from headrace.store.identity import users
from headrace.store.tables import metadata

_VERSIONS = sorted(folder.name for folder in RECORDS.iterdir())


@pytest.fixture(params=_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Return each released version."""
    return str(request.param)


@pytest.fixture(params=["sqlite", "postgresql"])
def old_store(
    request: pytest.FixtureRequest, version: str, tmp_path: Path, postgres: Postgres
) -> Iterator[str]:
    """Return the URL of a store that the version has left."""
    if request.param == "sqlite":
        yield load_sqlite(version, tmp_path / "headrace.db")
        return
    name = postgres.new_database()
    yield load_postgres(version, postgres.url(name))
    postgres.drop(name)


def test_an_upgraded_store_has_the_schema_of_this_version(old_store: str) -> None:
    database = Database.open(old_store)
    database.migrate()
    with database.read() as tx:
        assert compare_metadata(MigrationContext.configure(tx.connection), metadata) == []
    database.close()


def test_a_node_shows_what_an_older_one_has_left_and_continues_the_work(
    old_store: str, version: str, tmp_path: Path
) -> None:
    recorded = json.loads((RECORDS / version / "shown.json").read_text())
    expected = recorded["sqlite" if old_store.startswith("sqlite") else "postgresql"]
    settings = make_settings(tmp_path / "home", store={"url": old_store}, lease={"sweep": "1h"})
    with serve_node(settings) as node:
        shown = read_lists(node)
        for name in LISTS:
            missing = [item for item in expected[name] if item not in shown[name]]
            assert missing == [], name
            assert expected[name], name
        session, driver = node.start_session()
        statement = node.submit("SELECT 1", session=session)["id"]
        driver.claim()
        assert driver.succeed(statement).applied
        assert node.statement(statement)["state"] == "success"


@pytest.fixture
def settings(old_store: str, tmp_path: Path) -> Settings:
    """Return the settings of a node on the old store whose callers need a token."""
    store, lease = {"url": old_store}, {"sweep": "1h"}
    return make_settings(tmp_path / "home", store=store, lease=lease, token="of-the-node")


def test_what_an_older_version_has_left_belongs_to_the_user_who_runs_the_node(
    settings: Settings,
) -> None:
    with serve_node(settings) as node:
        _sign_in_as(node, node.node.authenticator.local_caller)
        owned = read_lists(node)
        assert all(owned.values())
        assert [row[1] for row in node.rows("SHOW MATERIALIZED VIEWS")] == ["active"]

        calls = [("POST", "jobs/job/stop"), ("GET", f"jobs/{owned['jobs'][0]['id']}")]
        calls += [("GET", f"deployments/{each['id']}") for each in owned["deployments"]]
        calls += [("GET", f"transactions/{each['id']}") for each in owned["transactions"]]
        for stream in owned["streams"]:
            calls.append(("POST", f"streams/{stream['id']}/stop"))
        for statement in owned["statements"]:
            state = node.statement(statement["id"])["state"]
            action = ("POST", "/cancel") if state == "waiting" else ("GET", "")
            calls.append((action[0], f"statements/{statement['id']}{action[1]}"))
        calls += [("DELETE", f"sessions/{each['id']}") for each in owned["sessions"]]
        answers = {call: node.http.request(call[0], f"/api/v1/{call[1]}") for call in calls}

    codes = {call: answer.status_code for call, answer in answers.items()}
    # The query of an earlier run of the job has ended, and that of the present one may have, too:
    # the stop of the job ends it.
    refused = {answer.json()["code"] for answer in answers.values() if answer.is_error}
    assert refused == {"stream_state_conflict"}, codes


def test_what_an_older_version_has_left_does_not_exist_for_a_stranger(settings: Settings) -> None:
    with serve_node(settings) as node:
        _sign_in_as(node, node.node.authenticator.local_caller)
        owned = read_lists(node)
        with node.database.write("test") as tx:
            stranger = users.sign_in(tx, "corp", "1", name="anonymous", groups=["anonymous"])
        _sign_in_as(node, Caller(stranger.id))

        own = read_lists(node)
        events = own.pop("events")
        assert {each["entity_id"] for each in events} <= {stranger.id, *_tokens_of(node)}
        assert not any(own.values())
        assert node.rows("SHOW MATERIALIZED VIEWS") == []
        for name in owned.keys() - {"events"}:
            for each in owned[name]:
                answer = node.http.get(f"/api/v1/{name}/{each['id']}")
                assert answer.status_code == 404, answer.text


def test_the_nodes_of_another_user_act_for_the_same_owner(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_node(settings) as node:
        _sign_in_as(node, node.node.authenticator.local_caller)
        owned = read_lists(node)
    monkeypatch.setattr(authenticator, "name_of_user", lambda _uid: "headrace-service")
    elsewhere = settings.model_copy(update={"home": tmp_path / "elsewhere"})

    with serve_node(elsewhere) as other:
        assert other.node.authenticator.local_caller.owner == "anonymous"
        other.http.headers["Authorization"] = node.http.headers["Authorization"]
        listed = read_lists(other)
        with other.database.read() as tx:
            [user] = users.page(tx, after=None, limit=10)

    assert (user.id, user.source, user.name) == ("anonymous", LOCAL_SOURCE, "headrace-service")
    for name in owned.keys() - {"events"}:
        assert listed[name] == owned[name]


def _sign_in_as(node: InProcessNode, caller: Caller) -> None:
    """Send a token with the requests to a node that allows changes of a caller's own objects."""
    created = node.node.tokens.create(
        caller, name="test", expires=timedelta(days=1), scope=Scope.SUBMIT
    )
    node.http.headers["Authorization"] = f"Bearer {created.text}"


def _tokens_of(node: InProcessNode) -> list[str]:
    return [each["id"] for each in node.http.get("/api/v1/tokens").json()["items"]]
