"""The callers that a node has just authenticated, while another node changes their rights."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.waiting import wait_until

from headrace.config.auth import Role
from headrace.control.identity import authenticator
from headrace.control.identity.credentials import BearerToken
from headrace.control.policy import Caller
from headrace.model.identity import Scope
from headrace.store.identity import users

_ADMIN = {"Authorization": "Bearer of-the-nodes"}


def test_a_node_keeps_a_caller_for_less_than_two_seconds() -> None:
    """The tests below wait for longer, because the host may be busy."""
    assert authenticator._CACHE_SECONDS < 2


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str) -> Iterator[tuple[InProcessNode, InProcessNode]]:
    """Return two nodes of one store whose callers need a token."""
    one, two = (
        make_settings(tmp_path / name, store={"url": postgres_url}, token="of-the-nodes")
        for name in ("one", "two")
    )
    with serve_node(one) as first, serve_node(two) as second:
        yield first, second


@pytest.fixture
def token(nodes: tuple[InProcessNode, InProcessNode]) -> str:
    """Return a token of Ada, which both nodes have just accepted."""
    with nodes[0].database.write("test") as tx:
        ada = users.sign_in(tx, "corp", "0042", name="ada", groups=["etl"])
    created = nodes[0].node.tokens.create(
        Caller(ada.id, roles=frozenset({Role.USER})),
        name="laptop",
        expires=timedelta(days=1),
        scope=Scope.SUBMIT,
    )
    for node in nodes:
        wait_until_cached(node, created.text)
        assert whoami(node, created.text).json()["groups"] == ["group:corp:etl"]
    return created.text


def whoami(node: InProcessNode, token: str) -> httpx.Response:
    return node.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})


def wait_until_cached(node: InProcessNode, token: str) -> None:
    """Call the node until it has the caller in its cache."""
    wait_until(
        lambda: whoami(node, token).is_success and node.node.authenticator.find(BearerToken(token)),
        what="the node keeps the caller",
    )


def wait_until_refused(node: InProcessNode, token: str) -> None:
    wait_until(
        lambda: whoami(node, token).status_code == 401,
        what="the node refuses the token that it has accepted",
    )


def test_a_token_that_one_node_revokes_is_soon_refused_by_the_others(
    nodes: tuple[InProcessNode, InProcessNode], token: str
) -> None:
    one, two = nodes
    number = token.split("_")[1]
    revoked = one.http.delete(f"/api/v1/tokens/tk_{number}", headers=_ADMIN)
    assert revoked.json()["state"] == "revoked"

    assert whoami(one, token).status_code == 401
    wait_until_refused(two, token)


def test_a_user_whom_one_node_disables_is_soon_refused_by_the_others(
    nodes: tuple[InProcessNode, InProcessNode], token: str
) -> None:
    one, two = nodes
    with one.database.write("test") as tx:
        assert users.set_disabled(tx, "ada", is_disabled=True, actor="test")

    wait_until_refused(two, token)
    wait_until_refused(one, token)
    with one.database.write("test") as tx:
        assert users.set_disabled(tx, "ada", is_disabled=False, actor="test")
    assert whoami(two, token).status_code == 200


def test_a_membership_that_one_node_removes_soon_ends_at_the_others(
    nodes: tuple[InProcessNode, InProcessNode], token: str
) -> None:
    one, two = nodes
    with one.database.write("test") as tx:
        users.sign_in(tx, "corp", "0042", name="ada", groups=["bi"])

    wait_until(
        lambda: whoami(two, token).json()["groups"] == ["group:corp:bi"],
        what="the other node removes the membership",
    )


def test_requests_of_several_callers_at_once_have_their_own_identities(tmp_path: Path) -> None:
    issuer = "https://id.example.com"
    auth = {
        "methods": ["token", "oidc"],
        "oidc": {"corp": {"issuer": issuer, "audience": ["headrace"]}},
        "roles": {"admin": ["corp:admins"], "auditor": ["corp:audit"]},
    }
    settings = make_settings(tmp_path, token="of-the-node", auth=auth)
    expected = {}
    with serve_node(settings) as node:
        for name, group, role in (("ada", "admins", Role.ADMIN), ("bob", "audit", Role.AUDITOR)):
            with node.database.write("test") as tx:
                user = users.sign_in(tx, issuer, name, name=name, groups=[group])
            caller = Caller(user.id, roles=frozenset({role, Role.USER}))
            created = node.node.tokens.create(
                caller, name="t", expires=timedelta(days=1), scope=Scope.ADMIN
            )
            expected[created.text] = (name, [role, "user"], created.token.id)

        def call(number: int) -> set[bool]:
            """Use the two tokens in turn, and return whether the answers are those expected."""
            until, seen = time.monotonic() + 2, set()
            with httpx.Client(base_url=node.address) as client:
                for token in itertools.islice(itertools.cycle(expected), number, None):
                    headers = {"Authorization": f"Bearer {token}"}
                    me = client.get("/api/v1/me", headers=headers).json()
                    seen.add((me["owner"], me["roles"], me["token_id"]) == expected[token])
                    if time.monotonic() > until:
                        return seen
            raise AssertionError("the calls do not end by themselves")

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(call, range(8))) == [{True}] * 8
