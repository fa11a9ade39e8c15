"""Tokens: created, listed, used and revoked, on a served node."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import get_ident

import pytest
from sqlalchemy import select, update
from tests.support.identities import LOCAL_CALLER, LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.waiting import wait_until

from headrace.config.auth import Role
from headrace.control.identity.credentials import BearerToken
from headrace.control.policy import Caller
from headrace.errors import (
    InvalidRequest,
    NotPermitted,
    TokenNameExists,
    TokenNotFound,
    Unauthorized,
)
from headrace.model.identity import Scope, group_owner
from headrace.model.ids import new_id
from headrace.store.clock import clock
from headrace.store.identity import users
from headrace.store.tables import tokens
from headrace.store.tables import users as users_table

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> InProcessNode:
    """Serve a node whose callers need a token."""
    settings = make_settings(tmp_path_factory.mktemp("secured") / "home", token="of-the-node")
    with serve_node(settings) as node:
        yield node


def create(node: InProcessNode, name: str, **fields: object) -> str:
    """Create a token of the user who runs the node, and return its text."""
    given = {"expires": DAY, "scope": Scope.SUBMIT, **fields}
    return node.node.tokens.create(LOCAL_CALLER, name=name, **given).text


def test_a_token_acts_for_its_owner_within_its_scope(secured: InProcessNode) -> None:
    caller = secured.node.authenticator.identify(
        BearerToken(create(secured, "reader", scope=Scope.READ))
    )
    assert (caller.owner, caller.scope) == (LOCAL_OWNER, Scope.READ)
    assert caller.roles == LOCAL_CALLER.roles


def test_the_store_has_no_token_that_someone_could_use(secured: InProcessNode) -> None:
    text = create(secured, "hidden")
    secret = text.split("_", 2)[2]
    with secured.database.read() as tx:
        rows = [str(row) for row in tx.execute(select(tokens))]
    assert rows
    assert all(secret not in row for row in rows)
    assert secret not in repr(secured.node.tokens.page(LOCAL_CALLER, before=None, limit=10))


def test_a_revoked_token_is_refused_at_once(secured: InProcessNode) -> None:
    text = create(secured, "revoked")
    identify = secured.node.authenticator.identify
    assert identify(BearerToken(text)).owner == LOCAL_OWNER
    secured.node.tokens.revoke(LOCAL_CALLER, "revoked")
    with pytest.raises(Unauthorized):
        identify(BearerToken(text))


def test_an_expired_token_is_refused(secured: InProcessNode) -> None:
    text = create(secured, "expired")
    with secured.database.write("test") as tx:
        tx.execute(update(tokens).where(tokens.c.name == "expired").values(expires_at=clock(-1.0)))
    with pytest.raises(Unauthorized):
        secured.node.authenticator.identify(BearerToken(text))


def test_a_wrong_or_malformed_token_is_refused_with_one_answer(secured: InProcessNode) -> None:
    good = create(secured, "good")
    prefix, number, secret = good.split("_", 2)
    texts = [
        f"{prefix}_{number}_{secret}x",
        f"{prefix}_{number}_",
        f"{prefix}_{'0' * 32}_{secret}",
        f"xx_{number}_{secret}",
        f"{number}_{secret}",
        "hr_",
        "",
        "\x00",
        "é" * 1000,
    ]
    messages = set()
    for text in texts:
        with pytest.raises(Unauthorized) as refusal:
            secured.node.authenticator.identify(BearerToken(text))
        messages.add(refusal.value.message)
    assert messages == {"The token is not valid."}


def test_a_token_costs_at_most_one_read_of_the_store_and_an_arbitrary_text_none(
    secured: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = create(secured, "counted")
    authenticator, read, readers = secured.node.authenticator, secured.database.read, []
    # Tasks of the node read the store in other threads.
    monkeypatch.setattr(secured.database, "read", lambda: readers.append(get_ident()) or read())

    def count_reads(text: str) -> int:
        readers.clear()
        with suppress(Unauthorized):
            authenticator.identify(BearerToken(text))
        return readers.count(get_ident())

    prefix, number, secret = good.split("_", 2)
    assert count_reads(good) == 1
    wait_until(lambda: count_reads(good) == 0, what="a known caller costs no read")
    for unknown in (f"{prefix}_{number}_{secret}x", f"{prefix}_{'0' * 32}_{secret}"):
        assert count_reads(unknown) == 1
    for text in ("", "x" * 50, f"{prefix}_abc_{secret}", f"xx_{number}_{secret}", "a.b.c"):
        assert count_reads(text) == 0


def test_the_token_of_a_disabled_user_is_refused(secured: InProcessNode) -> None:
    with secured.database.write("test") as tx:
        user = users.sign_in(tx, "corp", "0042", name="ada", groups=["etl"])
    created = secured.node.tokens.create(
        Caller(user.id), name="laptop", expires=DAY, scope=Scope.SUBMIT
    )
    caller = secured.node.authenticator.identify(BearerToken(created.text))
    assert (caller.owner, caller.groups) == ("ada", {group_owner("corp", "etl")})
    assert caller.roles == {Role.USER}
    with secured.database.write("test") as tx:
        assert users.set_disabled(tx, user.id, is_disabled=True, actor="test")
    secured.node.authenticator.forget_callers()
    with pytest.raises(Unauthorized):
        secured.node.authenticator.identify(BearerToken(created.text))


def test_a_token_of_a_group_acts_for_the_group_alone(secured: InProcessNode) -> None:
    etl = group_owner("corp", "etl")
    with secured.database.write("test") as tx:
        mia = users.sign_in(tx, "corp", "mia", name="mia", groups=["etl", "bi"]).id
    member = Caller(mia, groups=frozenset({etl, group_owner("corp", "bi")}))
    created = secured.node.tokens.create(
        member, name="nightly", expires=DAY, scope=Scope.SUBMIT, owner="group:etl"
    )
    caller = secured.node.authenticator.identify(BearerToken(created.text))
    assert (caller.owners, caller.roles) == ({etl}, {Role.USER})
    assert created.token.created_by == mia


@pytest.mark.parametrize("change", ["the creator has left the group", "the creator is disabled"])
def test_a_token_of_a_group_ends_with_the_membership_of_its_creator(
    secured: InProcessNode, change: str
) -> None:
    name = new_id("us").replace("_", "-")
    with secured.database.write("test") as tx:
        creator = users.sign_in(tx, "corp", name, name=name, groups=["etl"]).id
    member = Caller(creator, groups=frozenset({group_owner("corp", "etl")}))
    token = BearerToken(
        secured.node.tokens.create(
            member, name=name, expires=DAY, scope=Scope.SUBMIT, owner="group:etl"
        ).text
    )
    assert secured.node.authenticator.identify(token).actor == creator
    with secured.database.write("test") as tx:
        if change == "the creator is disabled":
            users.set_disabled(tx, creator, is_disabled=True, actor="root")
        else:
            users.sign_in(tx, "corp", name, name=name, groups=["bi"])
    secured.node.authenticator.forget_callers()
    with pytest.raises(Unauthorized):
        secured.node.authenticator.identify(token)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "a b"}, InvalidRequest),
        ({"name": ""}, InvalidRequest),
        ({"name": "x" * 101}, InvalidRequest),
        ({"name": "tk_" + "0" * 32}, InvalidRequest),
        ({"expires": timedelta(seconds=59)}, InvalidRequest),
        ({"expires": timedelta(days=367)}, InvalidRequest),
        ({"owner": "group:etl"}, NotPermitted),
        ({"owner": "someone"}, NotPermitted),
    ],
)
def test_a_token_that_is_not_allowed_is_not_created(
    secured: InProcessNode, fields: dict[str, object], error: type[Exception]
) -> None:
    with secured.expect_no_changes(), pytest.raises(error):
        create(secured, **{"name": "refused", **fields})


def test_a_token_cannot_mint_another_one(secured: InProcessNode) -> None:
    caller = secured.node.authenticator.identify(
        BearerToken(create(secured, "minter", scope=Scope.ADMIN))
    )
    with pytest.raises(NotPermitted, match="cannot create"):
        secured.node.tokens.create(caller, name="child", expires=DAY, scope=Scope.READ)
    narrow = Caller("ada", scope=Scope.READ)
    with pytest.raises(NotPermitted):
        secured.node.tokens.create(narrow, name="child", expires=DAY, scope=Scope.READ)


def test_the_name_of_a_token_is_free_again_after_its_revocation(secured: InProcessNode) -> None:
    create(secured, "again")
    with pytest.raises(TokenNameExists):
        create(secured, "again")
    secured.node.tokens.revoke(LOCAL_CALLER, "again")
    create(secured, "again")


def test_a_token_of_another_owner_does_not_exist(secured: InProcessNode) -> None:
    create(secured, "mine")
    bob = Caller("bob")
    for name in ("mine", "nothing", "tk_" + "0" * 32):
        with pytest.raises(TokenNotFound, match=name):
            secured.node.tokens.revoke(bob, name)
    assert secured.node.tokens.page(bob, before=None, limit=10) == []
    secured.node.tokens.create(bob, name="mine", expires=DAY, scope=Scope.READ)


def test_the_last_use_of_a_token_is_recorded(secured: InProcessNode) -> None:
    text = create(secured, "used")
    [before] = [each for each in _list(secured) if each.name == "used"]
    assert before.last_used_at is None
    secured.node.authenticator.identify(BearerToken(text))
    [after] = [each for each in _list(secured) if each.name == "used"]
    assert after.last_used_at is not None


def _list(node: InProcessNode) -> list:
    return node.node.tokens.page(LOCAL_CALLER, before=None, limit=1000)


def test_a_token_is_created_used_and_revoked_over_http(secured: InProcessNode) -> None:
    http, admin = secured.http, {"Authorization": "Bearer of-the-node"}
    body = {"name": "dashboard", "expires": "90d", "scope": "read"}
    created = http.post("/api/v1/tokens", json=body, headers=admin)
    assert created.status_code == 201
    own = {"Authorization": f"Bearer {created.json()['token']}"}
    assert http.get("/api/v1/statements", headers=own).status_code == 200
    submit = http.post("/api/v1/statements", json={"statement": "SELECT 1"}, headers=own)
    assert (submit.status_code, submit.json()["code"]) == (403, "not_permitted")
    listed = http.get("/api/v1/tokens", headers=admin).json()["items"]
    assert "token" not in listed[0]
    assert http.delete("/api/v1/tokens/dashboard", headers=admin).json()["state"] == "revoked"
    assert http.get("/api/v1/statements", headers=own).status_code == 401


def test_an_old_token_of_an_issuer_does_not_bring_groups_back(secured: InProcessNode) -> None:
    def sign_in(groups: list[str], issued_at: float) -> set[str]:
        with secured.database.write("test") as tx:
            user = users.sign_in(
                tx, "corp", "rita", name="rita", groups=groups, issued_at=issued_at
            )
        return set(user.groups)

    assert sign_in(["etl", "bi"], 100.0) == {"etl", "bi"}
    assert sign_in(["bi"], 200.0) == {"bi"}
    assert sign_in(["etl", "bi"], 100.0) == {"bi"}
    assert sign_in(["ml"], 300.0) == {"ml"}


def test_two_users_with_one_name_are_two_users(secured: InProcessNode, tmp_path: Path) -> None:
    del tmp_path
    with secured.database.write("test") as tx:
        first = users.sign_in(tx, "corp", "1", name="Zoë Ångström", groups=())
        second = users.sign_in(tx, "partners", "1", name="Zoë Ångström", groups=())
        third = users.sign_in(tx, "corp", "2", name="😀", groups=())
        fourth = users.sign_in(tx, "corp", "3", name="../../etc", groups=())
        again = users.sign_in(tx, "corp", "1", name="Zoë Berg", groups=["a"])
    assert (first.id, second.id) == ("zoe_angstrom", "zoe_angstrom-2")
    assert (third.id, fourth.id) == ("user", "etc")
    assert (again.id, again.name, again.groups) == (first.id, "Zoë Berg", {"a"})
    with secured.database.read() as tx:
        assert tx.execute(select(users_table.c.id)).scalars().all()


def expiry_of(node: InProcessNode, token_id: str) -> object:
    with node.database.read() as tx:
        return tx.execute(select(tokens.c.expires_at).where(tokens.c.id == token_id)).scalar_one()


def test_clients_of_a_caller_share_the_token_of_a_sign_in(secured: InProcessNode) -> None:
    service, identify = secured.node.tokens, secured.node.authenticator.identify
    text = service.sign_in(LOCAL_CALLER, "test", DAY)
    assert service.sign_in(LOCAL_CALLER, "test", DAY) == text
    caller = identify(BearerToken(text))
    assert (caller.owner, caller.scope) == (LOCAL_OWNER, LOCAL_CALLER.scope)
    assert caller.token_id is not None
    service.revoke(LOCAL_CALLER, caller.token_id)
    again = service.sign_in(LOCAL_CALLER, "test", DAY)
    assert again != text
    assert identify(BearerToken(again)).owner == LOCAL_OWNER


def test_only_the_token_of_a_sign_in_is_renewed(secured: InProcessNode) -> None:
    service, identify = secured.node.tokens, secured.node.authenticator.identify
    created = identify(BearerToken(create(secured, "not-renewed"))).token_id
    signed_in = identify(BearerToken(service.sign_in(LOCAL_CALLER, "test", DAY))).token_id
    assert created is not None
    assert signed_in is not None
    before = [expiry_of(secured, each) for each in (created, signed_in)]
    for each in (created, signed_in):
        service.renew(each, 2 * DAY)
    assert expiry_of(secured, created) == before[0]
    assert expiry_of(secured, signed_in) > before[1]
    # Otherwise a token of a user could renew itself.
    with pytest.raises(InvalidRequest, match="cannot be the name"):
        create(secured, "sign-in:x")
