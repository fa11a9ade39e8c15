"""Users: listed, disabled and enabled, on a served node."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import select
from tests.support.identities import LOCAL_CALLER, LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node

from headrace.control.identity.credentials import BearerToken
from headrace.control.policy import Caller
from headrace.errors import NotPermitted, Unauthorized, UserNotFound
from headrace.model.identity import Scope
from headrace.store.identity import users
from headrace.store.tables import events


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessNode]:
    """Serve a node whose callers need a token."""
    settings = make_settings(tmp_path_factory.mktemp("secured") / "home", token="of-the-node")
    with serve_node(settings) as node:
        yield node


def sign_in(node: InProcessNode, name: str) -> Caller:
    with node.database.write("test") as tx:
        return Caller(users.sign_in(tx, "corp", name, name=name, groups=()).id)


def test_a_disabled_user_is_refused_until_it_is_enabled(secured: InProcessNode) -> None:
    ada = sign_in(secured, "ada")
    text = secured.node.tokens.create(
        ada, name="laptop", expires=timedelta(days=1), scope=Scope.SUBMIT
    ).text
    headers = {"Authorization": f"Bearer {text}"}
    assert secured.http.get("/api/v1/sessions", headers=headers).status_code == 200
    for action, status in (("disable", 401), ("disable", 401), ("enable", 200), ("enable", 200)):
        path = f"/api/v1/users/{ada.owner}/{action}"
        changed = secured.http.post(path, headers={"Authorization": "Bearer of-the-node"})
        assert changed.status_code == 200
        assert (changed.json()["disabled_at"] is None) is (action == "enable")
        assert secured.http.get("/api/v1/sessions", headers=headers).status_code == status
    with secured.database.read() as tx:
        rows = tx.execute(select(events).where(events.c.entity_id == ada.owner)).mappings()
        steps = [(row["target"], row["actor"]) for row in rows]
    assert steps == [("enabled", "ada"), ("disabled", LOCAL_OWNER), ("enabled", LOCAL_OWNER)]


def test_the_user_who_runs_the_node_cannot_be_disabled(secured: InProcessNode) -> None:
    with secured.expect_no_changes(), pytest.raises(NotPermitted, match="runs the node"):
        secured.node.accounts.set_disabled(LOCAL_CALLER, LOCAL_OWNER, is_disabled=True)
    assert secured.node.authenticator.identify(BearerToken("of-the-node")).owner == LOCAL_OWNER
    with pytest.raises(Unauthorized):
        secured.node.authenticator.identify(BearerToken("another"))


@pytest.mark.parametrize("name", ["nobody-here", "\x00", "../ada", "Ada", "x" * 100, "\U0001f600"])
def test_a_user_that_does_not_exist_is_not_found(secured: InProcessNode, name: str) -> None:
    with secured.expect_no_changes(), pytest.raises(UserNotFound):
        secured.node.accounts.set_disabled(LOCAL_CALLER, name, is_disabled=True)


def test_users_are_listed_in_pages(secured: InProcessNode) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        sign_in(secured, name)
    headers, found, after = {"Authorization": "Bearer of-the-node"}, [], None
    while True:
        query = {"limit": 2} | ({} if after is None else {"after": after})
        page = secured.http.get("/api/v1/users", params=query, headers=headers).json()
        found += [user["id"] for user in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert [name for name in found if name in names] == names
    assert len(found) == len(set(found))
