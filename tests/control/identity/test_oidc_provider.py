"""A node and a real issuer: services and people sign in, keys change, tokens expire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jws import extract_compact
from tests.support.in_process_node import InProcessNode
from tests.support.oidc_provider import Issuer, running_issuer, serve_for
from tests.support.waiting import wait_until

from headrace.control.identity import oidc
from headrace.control.identity.credentials import BearerToken
from headrace.store.identity import users

pytestmark = pytest.mark.oidc


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(scope="module")
def secured(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessNode]:
    with serve_for(issuer, tmp_path_factory.mktemp("secured") / "home") as node:
        yield node


def whoami(node: InProcessNode, token: str) -> Any:
    return node.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})


def test_a_service_signs_in_with_an_access_token(issuer: Issuer, secured: InProcessNode) -> None:
    answer = whoami(secured, issuer.service_token()).json()
    assert answer == {
        "owner": "service",
        "groups": ["group:corp:people"],
        "roles": ["user"],
        "scope": "admin",
        "token_id": None,
    }


def test_a_token_for_another_service_is_refused(issuer: Issuer, secured: InProcessNode) -> None:
    answer = whoami(secured, issuer.service_token("urn:another"))
    assert answer.status_code == 401
    assert "aud" in answer.json()["detail"]


def test_people_sign_in_by_the_device_flow_and_have_the_roles_of_their_groups(
    issuer: Issuer, secured: InProcessNode
) -> None:
    ada = whoami(secured, issuer.sign_in("ada").access_token).json()
    root = whoami(secured, issuer.sign_in("root").access_token).json()
    stranger = whoami(secured, issuer.sign_in("eve").access_token).json()
    assert (ada["owner"], ada["groups"], ada["roles"]) == (
        "ada",
        ["group:corp:etl", "group:corp:people"],
        ["user"],
    )
    assert root["roles"] == ["admin"]
    assert stranger["roles"] == []


@pytest.fixture
def nodes(
    issuer: Issuer, tmp_path: Path, postgres_url: str
) -> Iterator[tuple[InProcessNode, InProcessNode]]:
    """Return two nodes of one store that know the service, which is in the group etl, already."""
    issuer.set_groups(service=["etl", "people"])
    with (
        serve_for(issuer, tmp_path / "one", store=postgres_url) as one,
        serve_for(issuer, tmp_path / "two", store=postgres_url) as two,
    ):
        yield one, two
    issuer.set_groups()


def test_a_membership_that_the_issuer_has_removed_ends_at_all_nodes_with_the_next_token(
    issuer: Issuer, nodes: tuple[InProcessNode, InProcessNode]
) -> None:
    one, two = nodes
    old = issuer.service_token()
    for node in nodes:
        assert whoami(node, old).json()["groups"] == ["group:corp:etl", "group:corp:people"]
    issuer.set_groups(service=["people"])
    # The times of tokens are in seconds.
    new = wait_until(lambda: _issue_later(issuer, old))

    assert whoami(one, new).json()["groups"] == ["group:corp:people"]

    wait_until(
        lambda: whoami(two, old).json()["groups"] == ["group:corp:people"],
        what="the other node removes the membership of the old token",
    )
    assert whoami(two, new).json()["groups"] == ["group:corp:people"]


def _issue_later(issuer: Issuer, token: str) -> str | None:
    """Return a token of the service that is younger than another one by a second."""
    later = issuer.service_token()
    times = [json.loads(extract_compact(each.encode()).payload)["iat"] for each in (token, later)]
    return later if times[0] < times[1] else None


def test_a_disabled_user_is_refused_by_a_node_that_has_just_accepted_its_token(
    issuer: Issuer, nodes: tuple[InProcessNode, InProcessNode]
) -> None:
    one, two = nodes
    token = issuer.service_token()
    assert whoami(two, token).status_code == 200
    with one.database.write("test") as tx:
        assert users.set_disabled(tx, "service", is_disabled=True, actor="test")
    wait_until(lambda: whoami(two, token).status_code == 401, what="it is refused")
    assert whoami(one, token).status_code == 401


def test_new_keys_are_accepted_and_old_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "_MIN_PAUSE_SECONDS", 0.0)
    with (
        running_issuer(tmp_path / "issuer") as issuer,
        serve_for(issuer, tmp_path / "home") as node,
    ):
        old = issuer.service_token()
        assert whoami(node, old).status_code == 200
        issuer.stop()
        issuer.rotate_keys()
        # While the issuer is away, its last keys count.
        wait_until(
            lambda: node.node.authenticator.find(BearerToken(old)) is None,
            what="the node forgets the caller",
        )
        assert whoami(node, old).status_code == 200
        issuer.start()
        assert whoami(node, issuer.service_token()).status_code == 200
        wait_until(lambda: whoami(node, old).status_code == 401, what="the old key is refused")


def test_a_token_expires(tmp_path: Path) -> None:
    with (
        running_issuer(tmp_path / "issuer", seconds=5) as issuer,
        serve_for(issuer, tmp_path / "home", leeway="0s") as node,
    ):
        # The node fetches the keys of the issuer.
        whoami(node, issuer.service_token())
        token = issuer.service_token()
        assert whoami(node, token).status_code == 200
        wait_until(lambda: whoami(node, token).status_code == 401, what="the token has expired")
        assert "exp" in whoami(node, token).json()["detail"]
