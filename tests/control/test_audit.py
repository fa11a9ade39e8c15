"""The audit: what is recorded of tokens, users, nodes, reads and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text, update
from tests.support.identities import LOCAL_CALLER, LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.made_results import inline_result

from headrace.config.sections import AuditedReads, AuditSettings
from headrace.control import audit as audit_module
from headrace.control.audit import Audit
from headrace.control.context import NodeContext
from headrace.control.history import HistoryRetention
from headrace.control.policy import Caller
from headrace.errors import StoreUnavailable
from headrace.model.audit import AuditAction, AuditRecord
from headrace.model.identity import Scope
from headrace.model.ids import new_id
from headrace.store import nodes
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.identity import tokens, users
from headrace.store.tables import audit as table

NODE_TOKEN = {"Authorization": "Bearer of-the-node"}


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("collected") / "audit.jsonl"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, lines: Path) -> Iterator[InProcessNode]:
    """Serve a node whose callers need a token, with a file for a log collector."""
    home = tmp_path_factory.mktemp("secured") / "home"
    settings = make_settings(home, token="of-the-node", audit={"file": str(lines)})
    with serve_node(settings) as node:
        yield node


@contextmanager
def no_sweeps(node: InProcessNode) -> Iterator[None]:
    """Stop the sweeps of a node for the block: each of them writes what the node has collected."""
    node.node._tasks.stop()
    try:
        yield
    finally:
        node.node._tasks = node.node._make_tasks()
        node.node._tasks.start()


def read(node: InProcessNode, **query: Any) -> list[dict[str, Any]]:
    """Return the records that the node has, newest first, after it has written what it keeps."""
    node.node.context.audit.flush()
    page = node.http.get("/api/v1/audit", params=query, headers=NODE_TOKEN)
    assert page.status_code == 200, page.text
    items: list[dict[str, Any]] = page.json()["items"]
    return items


def create_token(node: InProcessNode, name: str, *, groups: tuple[str, ...] = ()) -> str:
    """Sign in a user with a token. Return the token."""
    with node.database.write("test") as tx:
        user = users.sign_in(tx, "corp", name, name=name, groups=groups)
    return node.node.tokens.create(
        Caller(user.id), name=name, expires=timedelta(days=1), scope=Scope.SUBMIT
    ).text


def succeed(node: InProcessNode, token: str, rows: int) -> str:
    """Run a statement of a user. Return its id."""
    headers = {"Authorization": f"Bearer {token}"}
    session = node.http.post("/api/v1/sessions", json={}, headers=headers).json()["id"]
    body = {"statement": "SELECT 'secret'", "session": session}
    statement = node.http.post("/api/v1/statements", json=body, headers=headers).json()["id"]
    driver = node.launcher.connect_driver(session)
    driver.hello()
    driver.claim()
    result = inline_result([("s", "string")], [["secret"]] * rows)
    assert driver.succeed(statement, result=result).applied
    return str(statement)


def test_life_of_tokens_and_users_is_recorded_with_what_it_changes(
    secured: InProcessNode, lines: Path
) -> None:
    text = create_token(secured, "zoe")
    secured.node.tokens.revoke(Caller("zoe"), "zoe")
    secured.node.accounts.set_disabled(LOCAL_CALLER, "zoe", is_disabled=True)
    secured.node.accounts.set_disabled(LOCAL_CALLER, "zoe", is_disabled=True)
    secured.node.accounts.set_disabled(LOCAL_CALLER, "zoe", is_disabled=False)
    token_id = f"tk_{text.split('_')[1]}"
    created, revoked = reversed(read(secured, target=token_id))
    assert (created["action"], revoked["action"]) == ("token_created", "token_revoked")
    assert created["detail"] == {"name": "zoe", "owner": "zoe", "scope": "submit"}
    of_user = [(item["action"], item["actor"]) for item in read(secured, target="zoe")]
    assert of_user == [("user_enabled", LOCAL_OWNER), ("user_disabled", LOCAL_OWNER)]
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert {item["id"] for item in read(secured)} == {line["id"] for line in written}
    assert lines.stat().st_mode & 0o777 == 0o600


def test_administration_of_nodes_and_history_is_recorded(secured: InProcessNode) -> None:
    node_id = new_id("no")
    with secured.database.write("test") as tx:
        nodes.register(tx, node_id, address="http://a", version="1", seconds=-60)
    secured.node.nodes.drain(LOCAL_CALLER, node_id)
    secured.node.nodes.confirm_gone(LOCAL_CALLER, node_id)
    secured.node.history.purge(LOCAL_CALLER, timedelta(days=30))
    of_node = [item["action"] for item in read(secured, target=node_id)]
    assert of_node == ["node_confirmed_gone", "node_drained"]
    [purge] = read(secured, action="history_purged")
    assert purge["detail"] == {"older_than_seconds": 30 * 86400.0}


def test_a_token_is_not_created_if_its_record_cannot_be_written(
    secured: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(audit_module.audit, "append", fail)
    with pytest.raises(StoreUnavailable):
        create_token(secured, "unrecorded")
    with secured.database.read() as tx:
        assert tokens.list_named(tx, ["unrecorded"], "unrecorded") == []


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_token_is_not_revoked_if_the_store_does_not_take_its_record(
    start_node: StartNode, request: pytest.FixtureRequest, backend: str
) -> None:
    url = None if backend == "sqlite" else request.getfixturevalue("postgres_url")
    node = start_node(token="of-the-node", store={"url": url})
    headers = {"Authorization": f"Bearer {create_token(node, 'ada')}"}
    [token] = node.http.get("/api/v1/tokens", headers=headers).json()["items"]

    def revoke() -> int:
        path = f"{node.address}/api/v1/tokens/{token['id']}"
        return httpx.delete(path, headers=headers, timeout=60).status_code

    rename(node.database, "audit", "audit_of_yesterday")
    assert revoke() >= 500
    shown = node.http.get("/api/v1/me", headers=headers)
    assert (shown.status_code, shown.json()["token_id"]) == (200, token["id"])
    with node.database.read() as tx:
        assert [each.id for each in tokens.list_named(tx, ["ada"], "ada")] == [token["id"]]
    rename(node.database, "audit_of_yesterday", "audit")
    assert revoke() == 200
    assert [item["action"] for item in read(node, target=token["id"])] == [
        "token_revoked",
        "token_created",
    ]


def rename(database: Database, table: str, name: str) -> None:
    with database.write("test") as tx:
        tx.execute(text(f"ALTER TABLE {table} RENAME TO {name}"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x85", "\u2028"])
def test_a_name_with_a_line_break_forges_no_line_of_the_file(
    store: Database, tmp_path: Path, end: str
) -> None:
    name = f'x"{end}{{"action": "forged"}}'
    audit = Audit(store, AuditSettings(file=tmp_path / "audit.jsonl"), "no_1")
    detail = {"path": f"{name}\0", "code": name}
    audit.record_refusal(AuditAction.REQUEST_DENIED, Caller(name), name, detail)
    audit.flush()
    [line] = (tmp_path / "audit.jsonl").read_text().splitlines()
    written = json.loads(line)
    assert (written["actor"], written["address"]) == (name, name)
    assert written["detail"] == {**detail, "times": 1}


def test_a_change_that_fails_leaves_no_record(secured: InProcessNode, lines: Path) -> None:
    # What earlier tests have left is written first.
    read(secured)
    before = lines.read_text() if lines.exists() else ""
    with pytest.raises(RuntimeError), secured.database.write("test") as tx:
        secured.node.context.audit.record_in(
            tx, AuditAction.NODE_DRAINED, LOCAL_CALLER, target="never-drained"
        )
        raise RuntimeError
    assert read(secured, target="never-drained") == []
    assert (lines.read_text() if lines.exists() else "") == before


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ({"format": "arrow"}, 3),
        ({"offset": 1, "limit": 1}, 1),
        ({"offset": 2, "limit": 5}, 1),
        ({"offset": 4, "limit": 5}, 0),
        ({"chunk": 0}, 3),
        ({"format": "csv"}, 3),
    ],
)
def test_each_read_of_rows_is_recorded(
    secured: InProcessNode, query: dict[str, Any], rows: int
) -> None:
    name = new_id("us").replace("_", "-")
    token = create_token(secured, name)
    statement = succeed(secured, token, rows=3)
    path = f"/api/v1/statements/{statement}"
    with no_sweeps(secured):
        for headers in ({"Authorization": f"Bearer {token}"}, NODE_TOKEN):
            for _number in range(2):
                assert secured.http.get(path, headers=headers).status_code == 200
                answer = secured.http.get(f"{path}/result", params=query, headers=headers)
                assert answer.status_code == 200, answer.text
        records = {item["actor"]: item for item in read(secured, target=statement)}
    assert set(records) == {name, LOCAL_OWNER}
    own = records[name]
    assert own["action"] == "result_read"
    assert own["detail"] == {"owner": name, "rows": 2 * rows, "times": 2}
    assert own["address"] == "127.0.0.1"
    assert own["token_id"] == f"tk_{token.split('_')[1]}"
    assert "secret" not in json.dumps(list(records.values()))


def test_a_refusal_is_recorded_with_what_the_response_does_not_say(secured: InProcessNode) -> None:
    eve, owner = create_token(secured, "eve"), create_token(secured, "owner")
    statement = succeed(secured, owner, rows=1)
    headers = {"Authorization": f"Bearer {eve}"}
    for path, status in (
        (f"/api/v1/statements/{statement}", 404),
        ("/api/v1/statements/st_" + "0" * 32, 404),
        ("/api/v1/audit", 403),
        ("/api/v1/statements", 200),
    ):
        assert secured.http.get(path, headers=headers).status_code == status
    denied = read(secured, action="request_denied", actor="eve")
    assert {(item["detail"]["path"], item["detail"]["code"]) for item in denied} == {
        (f"/api/v1/statements/{statement}", "statement_not_found"),
        ("/api/v1/audit", "not_permitted"),
    }


def test_a_sign_in_that_fails_is_recorded_without_the_credentials(secured: InProcessNode) -> None:
    for _number in range(3):
        headers = {"Authorization": "Bearer hr_of-nobody"}
        assert secured.http.get("/api/v1/sessions", headers=headers).status_code == 401
    [failed, *_older] = read(secured, action="sign_in_failed")
    assert (failed["actor"], failed["address"]) == (None, "127.0.0.1")
    assert failed["detail"]["reason"] == "The token is not valid."
    assert "of-nobody" not in json.dumps(failed)


@pytest.mark.parametrize(
    ("reads", "recorded"),
    [
        (AuditedReads.ALL, {"ada", "bob"}),
        (AuditedReads.OTHERS, {"bob"}),
        (AuditedReads.NONE, set()),
    ],
)
def test_the_setting_says_which_reads_are_recorded(
    secured: InProcessNode, store: Database, reads: AuditedReads, recorded: set[str]
) -> None:
    statement = secured.node.statements.get(
        LOCAL_CALLER, succeed(secured, create_token(secured, new_id("us")[3:]), rows=1)
    )
    audit = Audit(store, AuditSettings(reads=reads), "no_1")
    for caller in (Caller("ada"), Caller("bob")):
        object.__setattr__(statement, "owner", "ada")
        audit.record_read(caller, statement, 1)
    audit.flush()
    records = audit.page(LOCAL_CALLER, before=None, limit=10)
    assert {record.actor for record in records} == recorded


def test_records_wait_for_the_store_and_cannot_fill_it(
    store: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    audit = Audit(store, AuditSettings(), "no_1")
    monkeypatch.setattr(audit_module, "_BATCH", 300)
    written = store.write

    def fail(_name: str) -> None:
        raise StoreUnavailable

    for number in range(1200):
        audit.record_refusal(AuditAction.SIGN_IN_FAILED, None, f"a{number}", {})
    monkeypatch.setattr(store, "write", fail)
    with pytest.raises(StoreUnavailable):
        audit.flush()
    monkeypatch.setattr(store, "write", written)
    audit.flush()
    found = _all(audit)
    assert len({record.address for record in found}) == len(found) == 1000
    assert "200 records of the audit are lost" in caplog.text


def test_a_caller_cannot_take_the_place_of_the_records_of_others(store: Database) -> None:
    audit = Audit(store, AuditSettings(), "no_1")
    eve = Caller("eve", address="192.0.2.1")
    for number in range(5000):
        audit.record_refusal(
            AuditAction.REQUEST_DENIED, eve, "192.0.2.1", {"path": f"/{number}", "code": "x"}
        )
    audit.record_refusal(AuditAction.REQUEST_DENIED, Caller("bob"), "192.0.2.2", {"code": "x"})
    audit.flush()
    found = _all(audit)
    of_eve = [record for record in found if record.actor == "eve"]
    assert len(of_eve) == 21
    assert sum(record.detail["times"] for record in of_eve) == 5000
    assert [record.actor for record in found if record.actor != "eve"] == ["bob"]


def _all(audit: Audit) -> list[AuditRecord]:
    found: list[AuditRecord] = []
    while True:
        before = found[-1].id if found else None
        page = audit.page(LOCAL_CALLER, before=before, limit=400)
        if not page:
            return found
        found += page


def test_a_file_that_cannot_be_written_does_not_stop_the_audit(
    store: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    audit = Audit(store, AuditSettings(file=tmp_path / "file" / "audit.jsonl"), "no_1")
    audit.record_refusal(AuditAction.REQUEST_DENIED, None, "a", {})
    audit.flush()
    assert len(_all(audit)) == 1
    assert "audit.file" in caplog.text


def test_a_renamed_file_is_created_again(store: Database, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    audit = Audit(store, AuditSettings(file=file), "no_1")
    for name in ("first", "second"):
        audit.record_refusal(AuditAction.REQUEST_DENIED, None, name, {})
        audit.flush()
        file.rename(tmp_path / name)
    for name in ("first", "second"):
        [line] = (tmp_path / name).read_text().splitlines()
        assert json.loads(line)["address"] == name


def test_records_have_a_retention_of_their_own(store: Database, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, audit={"retention": "90d"}, history={"retention": "1d"})
    audit = Audit(store, settings.audit, "no_1")
    for name in ("old", "new"):
        audit.record_refusal(AuditAction.REQUEST_DENIED, None, name, {})
    audit.flush()
    with store.write("test") as tx:
        for name, days in (("old", 91), ("new", 89)):
            aged = update(table).where(table.c.address == name)
            tx.execute(aged.values(at=clock(-days * 86400.0)))
    HistoryRetention(NodeContext(store, settings, "no_1", "http://node")).run()
    assert [record.address for record in _all(audit)] == ["new"]
