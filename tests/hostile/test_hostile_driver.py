"""A driver is a stranger with a valid token: nothing that it sends harms the node or others.

The node runs in a process of its own. Its file accesses and connections are recorded, and the rows
of the sessions B and C are compared before and after.
"""

from __future__ import annotations

import json
import select
import socket
import sqlite3
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile.forgeries import Forger
from tests.hostile.target import Target

from headrace.frontends.driver_link import CALLS
from headrace.model.ids import new_id
from headrace.model.messages import LINK_PREFIX

REFUSALS = {400, 401, 404, 409, 413}
EXAMPLES = 40


@pytest.fixture(scope="module")
def forger(target: Target) -> Forger:
    target.top_up()
    bait = target.bait
    texts = [
        *(str(bait / "result"), (bait / "inner").as_uri(), str(bait / "pipe"), "/etc/passwd"),
        *("http://127.0.0.1:9/x", "s3://bucket/x", f"{target.results}/../bait", "`d`.`t`", "here"),
    ]
    return Forger(target.list_ids(), texts)


@pytest.mark.parametrize("token", ["own", "dead session", "old epoch"])
@pytest.mark.parametrize("call", CALLS)
def test_forged_messages_change_nothing_of_others(
    target: Target, forger: Forger, call: str, token: str
) -> None:
    examples = EXAMPLES if token == "own" else EXAMPLES // 6

    @settings(max_examples=examples, database=None)
    @given(st.data())
    def attack(data: st.DataObject) -> None:
        if token == "own":
            target.top_up()
        driver = {"own": target.attacker, "dead session": target.dead}.get(token, target.old)
        message = data.draw(forger.message(CALLS[call].message))
        if "statement_id" in message and data.draw(st.booleans()):
            message["statement_id"] = data.draw(st.sampled_from(target.claimed or ["st_0"]))
        if call == "poll":
            message["wait_seconds"] = 0
        response = driver._client.post(f"/{call}", content=json.dumps(message).encode())
        assert response.status_code in REFUSALS | {200}, response.text
        if token != "own" and response.status_code == 200:
            assert response.json() == {"applied": False} or not response.json().get("applied", True)

    attack()


@pytest.mark.parametrize("call", CALLS)
def test_a_token_opens_no_other_session(target: Target, call: str) -> None:
    token = {"Authorization": f"Bearer {target.attacker.bootstrap.token}"}
    for session_id in (*target.others, target.dead.bootstrap.session_id, new_id("se")):
        for epoch in ("0", "1", "2", "-1", "9" * 5000, "1%00", "x"):
            path = f"{LINK_PREFIX}/{session_id}/{epoch}/{call}"
            assert target.http.post(path, content=b"{}", headers=token).status_code in REFUSALS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\0",
        b"[" * 1_000_000,
        b'{"a":' * 500_000,
        b'"' + b"x" * (17 << 20),
        b"[" + b"1," * 4_000_000 + b"1]",
        b'{"x": ' + b"9" * 1_000_000 + b"}",
    ],
    ids=lambda body: f"{body[:8]!r}-{len(body)}",
)
def test_bodies_that_are_no_messages_are_refused(target: Target, body: bytes) -> None:
    target.top_up()
    for call in CALLS:
        response = target.attacker._client.post(f"/{call}", content=body)
        assert response.status_code in REFUSALS


def test_truncated_and_endless_bodies_are_refused(target: Target) -> None:
    target.top_up()
    bootstrap = target.attacker.bootstrap
    url = urlsplit(target.address)
    head = (
        f"POST {LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}/ended HTTP/1.1\r\n"
        f"Host: {url.netloc}\r\nAuthorization: Bearer {bootstrap.token}\r\n"
    )
    with socket.create_connection((url.hostname, url.port), 30) as truncated:
        truncated.sendall(f'{head}Content-Length: 1000\r\n\r\n{{"statement_id":'.encode())
    with socket.create_connection((url.hostname, url.port), 30) as endless:
        block = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        sent, answer = 0, b""
        # The node answers before the end of the body. A TimeoutError is no ConnectionError.
        with suppress(ConnectionError):
            endless.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            while sent < 64 and not select.select([endless], [], [], 0)[0]:
                endless.sendall(block)
                sent += 1
        with suppress(ConnectionError):
            answer = endless.recv(64)
    assert sent < 32
    assert answer == b"" or b" 413 " in answer


@pytest.mark.finding("B21")
def test_a_driver_clears_no_write_of_a_driver_that_runs(target: Target) -> None:
    """C writes to a table. Its row has one of the first numbers."""
    target.top_up()
    for identities in ([], ["metastore"], ["here"]):
        message = {"identities": identities, "cleared": list(range(100))}
        response = target.attacker._client.post("/clear_staging", json=message)
        assert response.status_code == 200


def test_recover_gives_away_orphaned_transactions_only(target: Target) -> None:
    """B publishes a table of the catalog `here`, which no other driver may finish."""
    target.top_up()
    orphan = target.make_orphan("there")
    attacker = target.attacker
    assert [each.id for each in attacker.recover(["there", "here"]) if each.id == orphan] == [
        orphan
    ]
    assert all(each.id == orphan for each in attacker.recover(["there"]))
    with sqlite3.connect(f"file:{target.home}/headrace.db?mode=ro", uri=True) as store:
        query = "SELECT session_id, state, target FROM transactions WHERE id = ?"
        [row] = store.execute(query, (orphan,))
    assert row == (attacker.bootstrap.session_id, "begun", "`d`.`t`")
