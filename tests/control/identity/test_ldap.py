"""A node and a real directory: people sign in with their passwords, and guesses are refused."""

from __future__ import annotations

import datetime as dt
import json
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import delete, func, select, update
from tests.support.directory import (
    GROUPS,
    PASSWORD,
    PEOPLE,
    READER_PASSWORD,
    Directory,
    ldap_settings,
    running_directory,
    serve_for,
)
from tests.support.identities import LOCAL_CALLER
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.ports import reserved_port
from tests.support.postgres import Postgres
from tests.support.store import migrate
from tests.support.waiting import wait_until

from headrace.config.extras import EXTRAS
from headrace.control.identity import ldap as ldap_method
from headrace.control.identity.credentials import WRONG_PASSWORD
from headrace.errors import InvalidSetting, PackagesMissing
from headrace.frontends.http import refusals
from headrace.model.audit import AuditAction
from headrace.model.identity import Scope
from headrace.store.clock import clock
from headrace.store.identity import users
from headrace.store.tables import metadata, sign_in_failures
from headrace.store.tables import users as users_table

pytestmark = pytest.mark.ldap


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with running_directory(tmp_path_factory.mktemp("directory") / "slapd") as running:
        yield running


@pytest.fixture(scope="module")
def served(
    directory: Directory, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InProcessNode]:
    with serve_for(directory, tmp_path_factory.mktemp("served") / "home") as node:
        yield node


@pytest.fixture
def secured(served: InProcessNode) -> InProcessNode:
    """Return the node of the module, which has forgotten all failures."""
    with served.database.write("test.forget") as tx:
        tx.execute(sign_in_failures.delete())
    return served


def sign_in(node: InProcessNode, name: str, password: str = PASSWORD) -> httpx.Response:
    """Ask who calls, with HTTP Basic in UTF-8."""
    return node.http.get("/api/v1/me", auth=(name.encode(), password.encode()))


def user_rows(node: InProcessNode) -> list[Any]:
    with node.database.read() as tx:
        return list(tx.execute(select(users_table).order_by(users_table.c.id)))


def groups_of(answer: httpx.Response) -> set[str]:
    return {group.removeprefix("group:ldap:") for group in answer.json()["groups"]}


def test_people_sign_in_and_have_the_roles_of_their_groups(secured: InProcessNode) -> None:
    ada, root = sign_in(secured, "ada").json(), sign_in(secured, "root").json()
    assert ada == {
        "owner": "ada",
        # `data` contains `etl` and `circle`, which contains `data`.
        "groups": [f"group:ldap:{name}" for name in ("circle", "data", "etl", "people")],
        "roles": ["user"],
        "scope": "admin",
        "token_id": None,
    }
    assert root["roles"] == ["admin", "user"]


def test_a_user_creates_a_token_with_the_password(secured: InProcessNode) -> None:
    fields = {"name": "dashboard", "expires": "1d", "scope": "read"}
    created = secured.http.post("/api/v1/tokens", json=fields, auth=("ada", PASSWORD))
    token = created.raise_for_status().json()["token"]
    with_password = secured.http.get("/api/v1/me", auth=("token", token))
    bearer = secured.http.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
    assert with_password.json() == bearer.json()
    assert (bearer.json()["owner"], bearer.json()["scope"]) == ("ada", "read")


def test_one_person_is_one_user_whatever_the_case_of_the_name(secured: InProcessNode) -> None:
    """The directory decides which names are the same, and how the name is written."""
    # The last one is full-width.
    names = ("bob", "Bob", " bob", "BOB  ", "\uff42\uff4f\uff42")
    answers = [sign_in(secured, name) for name in names]
    assert {answer.json()["owner"] for answer in answers} == {"bob"}
    with secured.database.read() as tx:
        rows = tx.execute(select(users_table).where(users_table.c.source == "ldap")).all()
    assert [row.name for row in rows].count("bob") == 1


def test_a_user_keeps_its_id_when_its_name_changes(directory: Directory, tmp_path: Path) -> None:
    dn = directory.add_person("mia", "people")
    with serve_for(directory, tmp_path / "home", cache="1s") as node:
        assert sign_in(node, "mia").json()["owner"] == "mia"
        connection = directory.connect()
        connection.rename_s(dn, "uid=maria")
        connection.unbind_s()
        assert sign_in(node, "maria").json()["owner"] == "mia"
        # The name is free: the next person with it is another user.
        directory.add_person("mia")
        wait_until(lambda: sign_in(node, "mia").json()["owner"] == "mia-2", what="the cache ends")


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ada", ""),
        ("ada", "\0"),
        ("ada", "wrong"),
        ("ada", PASSWORD.upper()),
        ("ada", "x" * 5000),
        ("", PASSWORD),
        ("*", PASSWORD),
        ("a*", PASSWORD),
        (")(uid=*", PASSWORD),
        ("ada)(objectClass=*", PASSWORD),
        ("ada\0", PASSWORD),
        ("ada\u200b", PASSWORD),
        ("ada\n", PASSWORD),
        (f"uid=ada,{PEOPLE}", PASSWORD),
        ("..", PASSWORD),
        ("/etc/passwd", PASSWORD),
        ("😀", PASSWORD),
        ("a" * 300, PASSWORD),
        ("\\61\\64\\61", PASSWORD),
        ("nobody-here", PASSWORD),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_names_and_passwords_that_are_wrong_get_one_answer(
    secured: InProcessNode, name: str, password: str
) -> None:
    before = user_rows(secured)
    answer = sign_in(secured, name, password)
    assert user_rows(secured) == before
    assert answer.status_code == 401
    assert answer.json()["detail"] == "The name or the password is wrong."
    assert answer.headers.get_list("www-authenticate") == [
        "Bearer",
        'Basic realm="Headrace", charset="UTF-8"',
    ]


@pytest.mark.parametrize("name", ["o'neil (dba)*", "Zoë Å", "a/b", "..\\x", "émile,ou=x", "名前"])
def test_unusual_names_of_the_directory_sign_in(
    directory: Directory, secured: InProcessNode, name: str
) -> None:
    directory.add_person(name, "people")
    answer = sign_in(secured, name).json()
    assert answer["groups"] == ["group:ldap:people"]
    assert "/" not in answer["owner"]


@pytest.mark.parametrize(
    "password",
    ["", "\0", f"{PASSWORD}\0", "x" * 1025],
    ids=lambda value: ascii(value)[:30],
)
def test_a_password_that_is_empty_or_has_odd_characters_does_not_reach_the_directory(
    directory: Directory, secured: InProcessNode, password: str
) -> None:
    before = directory.count("ACCEPT")
    assert sign_in(secured, "ada", password).status_code == 401
    assert directory.count("ACCEPT") == before


def test_basic_that_is_no_basic_is_refused(secured: InProcessNode) -> None:
    for text_sent in ("", "Basic", "Basic !!", "Basic YWRh", "Basic /////w==", "Digest x"):
        answer = secured.http.get("/api/v1/me", headers={"Authorization": text_sent})
        assert answer.status_code == 401, text_sent


def test_two_entries_with_one_name_sign_in_none(
    directory: Directory, secured: InProcessNode
) -> None:
    for unit in ("a", "b"):
        directory.add(f"ou={unit},{PEOPLE}", objectClass="organizationalUnit", ou=unit)
        directory.add(
            f"uid=twin,ou={unit},{PEOPLE}",
            objectClass="inetOrgPerson",
            uid="twin",
            cn="twin",
            sn="twin",
            userPassword=PASSWORD,
        )
    assert sign_in(secured, "twin").status_code == 401


def test_an_unknown_name_takes_as_long_as_a_wrong_password(secured: InProcessNode) -> None:
    def seconds(name: str) -> float:
        started = time.monotonic()
        assert sign_in(secured, name, "wrong").status_code == 401
        return time.monotonic() - started

    times = {name: [seconds(name) for _number in range(4)] for name in ("ada", "nobody-here")}
    assert min(min(each) for each in times.values()) >= ldap_method._REFUSAL_SECONDS


def test_a_member_of_a_group_of_5000_signs_in(directory: Directory, secured: InProcessNode) -> None:
    directory.add_person("one-of-many", "people")
    others = [f"uid=other-{number},{PEOPLE}" for number in range(4999)]
    member = f"uid=one-of-many,{PEOPLE}"
    directory.add(
        f"cn=everyone,{GROUPS}", objectClass="groupOfNames", cn="everyone", member=[*others, member]
    )
    before = directory.count("SRCH")
    assert groups_of(sign_in(secured, "one-of-many")) == {"everyone", "people"}
    # The members of a group are not read one by one.
    assert directory.count("SRCH") - before < 20


def test_a_user_with_too_many_groups_is_refused(
    directory: Directory, secured: InProcessNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_for(directory, tmp_path / "home", max_groups=3) as node:
        assert sign_in(node, "bob").status_code == 200
        with caplog.at_level(logging.INFO, logger="headrace.auth"):
            assert sign_in(node, "ada").status_code == 401
    assert "more than 3 groups" in caplog.text or "does not list all groups" in caplog.text


def test_groups_in_groups_are_followed_to_the_depth_of_the_settings(
    directory: Directory, tmp_path: Path
) -> None:
    with serve_for(directory, tmp_path / "home", max_group_depth=1) as node:
        assert groups_of(sign_in(node, "ada")) == {"etl", "people"}


def test_groups_that_list_names_are_found_by_name(directory: Directory, tmp_path: Path) -> None:
    directory.add(
        f"cn=by-name,{GROUPS}", objectClass="organizationalRole", cn="by-name", description="bob"
    )
    with serve_for(directory, tmp_path / "home", group_filter="(description={name})") as node:
        assert groups_of(sign_in(node, "bob")) == {"by-name"}


def test_a_reference_to_another_server_is_not_followed(
    directory: Directory, secured: InProcessNode
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.settimeout(0.5)
        port = trap.getsockname()[1]
        for base in (PEOPLE, GROUPS):
            directory.add(
                f"cn=elsewhere,{base}",
                objectClass=["referral", "extensibleObject"],
                cn="elsewhere",
                ref=f"ldap://127.0.0.1:{port}/dc=example,dc=com??sub",
            )
        directory.add_person("ruth", "people")
        assert groups_of(sign_in(secured, "ruth")) == {"people"}
        with pytest.raises(TimeoutError):
            trap.accept()


def test_a_success_counts_for_a_short_time(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.add_person("carl", "people", "admins")
    passed = [0.0]
    shifted = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0], sleep=time.sleep)
    monkeypatch.setattr(ldap_method, "time", shifted)
    with serve_for(directory, tmp_path / "home", cache="1m") as node:

        def let_pass(seconds: float) -> None:
            passed[0] += seconds
            # The node also knows a caller for some seconds, whatever the method.
            node.node.authenticator.forget_callers()

        assert groups_of(sign_in(node, "carl")) == {"people", "admins"}
        binds = directory.count("BIND")
        dn = f"uid=carl,{PEOPLE}"
        directory.modify(f"cn=admins,{GROUPS}", "member", None, deleted=dn)
        mine = directory.count("BIND") - binds
        assert groups_of(sign_in(node, "carl")) == {"people", "admins"}
        assert directory.count("BIND") == binds + mine
        let_pass(60)
        assert groups_of(sign_in(node, "carl")) == {"people"}
        directory.modify(dn, "userPassword", "another")
        let_pass(10)
        assert sign_in(node, "carl").status_code == 200
        let_pass(50)
        assert sign_in(node, "carl").status_code == 401


def test_a_disabled_user_is_refused_like_a_wrong_password(
    directory: Directory, secured: InProcessNode
) -> None:
    directory.add_person("dora", "people")
    owner = sign_in(secured, "dora").json()["owner"]
    with secured.database.write("test.disable") as tx:
        assert users.set_disabled(tx, owner, is_disabled=True, actor="root")
    wait_until(lambda: sign_in(secured, "dora").status_code == 401)
    assert sign_in(secured, "dora").json()["detail"] == "The name or the password is wrong."


def test_requests_with_one_password_share_one_check(
    directory: Directory, secured: InProcessNode
) -> None:
    directory.add_person("erik", "people")
    before = directory.count("ACCEPT")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _number: sign_in(secured, "erik"), range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert directory.count("ACCEPT") == before + 1


# The directory does not answer.


def test_a_directory_that_hangs_holds_neither_other_requests_nor_processes(
    directory: Directory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_for(directory, tmp_path / "home", timeout="4s") as node:
        created = node.node.tokens.create(
            LOCAL_CALLER, name="t", expires=timedelta(days=1), scope=Scope.READ
        )
        token = {"Authorization": f"Bearer {created.text}"}
        pipes = count_pipes()
        with directory.frozen(), ThreadPoolExecutor(30) as pool:
            started = time.monotonic()
            asked = [pool.submit(sign_in, node, f"user-{number}") for number in range(30)]
            wait_until(lambda: len(_lookups()) == 4, what="four processes ask the directory")
            assert node.http.get("/api/v1/me", headers=token).status_code == 200
            assert not any(each.done() for each in asked)
            # Input, output and errors of each process, and what another one has while it starts.
            assert pipes < count_pipes() <= pipes + 4 * 8
            results = [each.result() for each in asked]
            # Four at once wait for the directory. The others do not wait one after the other.
            assert time.monotonic() - started < 20
        assert 1 <= caplog.text.count("no answer in 4s") <= 8
        assert {answer.status_code for answer in results} == {503}
        assert {answer.json()["code"] for answer in results} == {"sign_in_unavailable"}
        assert _lookups() == []
        assert count_pipes() == pipes
        with node.database.read() as tx:
            assert tx.execute(select(sign_in_failures)).all() == []
        wait_until(lambda: sign_in(node, "ada").status_code == 200, what="the directory is back")


def count_pipes() -> int:
    """Return how many file descriptors of this process, which is the node, are ends of pipes."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is closed
            count += str(descriptor.readlink()).startswith("pipe:")
    return count


def _lookups(part: str = "cmdline") -> list[str]:
    """Return the command lines, or another part, of the processes that ask a directory.

    They are children of this process: tests of other processes have nodes with lookups too.
    """
    parts = []
    for child in psutil.Process().children():
        process = Path("/proc") / str(child.pid)
        try:
            if "ldap_lookup" in (process / "cmdline").read_text():
                parts.append((process / part).read_text())
        except OSError:  # it has ended
            continue
    return parts


def test_a_process_that_asks_a_directory_ends_without_its_node(directory: Directory) -> None:
    question = {
        "settings": {"url": directory.secure_url, "ca": str(directory.ca), "start_tls": False},
        "name": "ada",
        "password": PASSWORD,
    }
    question["settings"] |= {"bind_dn": None, "bind_password": None, "seconds": 0.5}
    with directory.frozen():
        process = subprocess.Popen(ldap_method._COMMAND, stdin=subprocess.PIPE)
        process.communicate(json.dumps(question).encode(), timeout=20)
    assert process.returncode < 0


def test_an_unreachable_directory_is_an_outage_and_no_failure_of_the_user(tmp_path: Path) -> None:
    with (
        running_directory(tmp_path / "slapd") as directory,
        reserved_port() as port,
        serve_for(directory, tmp_path / "home", url=f"ldaps://127.0.0.1:{port}") as node,
    ):
        for _number in range(8):
            assert sign_in(node, "ada").status_code == 503
        with node.database.read() as tx:
            assert tx.execute(select(sign_in_failures)).all() == []


def test_a_wrong_password_of_the_reader_is_not_the_fault_of_the_user(
    directory: Directory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "wrong"
    file.touch(0o600)
    file.write_text("of-nobody")
    with (
        serve_for(directory, tmp_path / "home", bind_password_file=file) as node,
        caplog.at_level(logging.WARNING, logger="headrace.auth"),
    ):
        assert sign_in(node, "ada").json()["code"] == "sign_in_unavailable"
    assert "Invalid credentials" in caplog.text
    assert "of-nobody" not in caplog.text


# TLS.


def test_people_sign_in_by_start_tls(directory: Directory, tmp_path: Path) -> None:
    with serve_for(directory, tmp_path / "home", url=directory.url, start_tls=True) as node:
        before = directory.count("STARTTLS")
        assert sign_in(node, "ada").status_code == 200
        assert directory.count("STARTTLS") == before + 1


@pytest.mark.parametrize("start_tls", [True, False])
@pytest.mark.parametrize("wrong", ["host", "authority", "time"])
def test_no_password_is_sent_to_a_server_with_a_wrong_certificate(
    directory: Directory, tmp_path: Path, wrong: str, start_tls: bool
) -> None:
    host = "127.0.0.2" if wrong == "host" else "127.0.0.1"
    ends = dt.timedelta(days=-1 if wrong == "time" else 1)
    with running_directory(tmp_path / "slapd", host=host, ends=ends) as other:
        changes: dict[str, Any] = {"start_tls": start_tls}
        changes["url"] = other.url if start_tls else other.secure_url
        changes["ca"] = directory.ca if wrong == "authority" else other.ca
        with serve_for(other, tmp_path / "home", **changes) as node:
            assert sign_in(node, "ada").status_code == 503
        assert other.count("ACCEPT") > 0
        assert other.count("BIND") == 0


# Guesses.


def guess(node: InProcessNode, name: str, times: int) -> list[int]:
    return [sign_in(node, name, f"wrong-{number}").status_code for number in range(times)]


def pause(node: InProcessNode, name: str) -> None:
    """Let the next failure of a name begin a pause of minutes, and fail."""
    with node.database.write("test.pause") as tx:
        tx.execute(update(sign_in_failures).values(failures=40, free_at=clock()))
        tx.execute(delete(sign_in_failures).where(sign_in_failures.c.address == ""))
        tx.execute(delete(sign_in_failures).where(sign_in_failures.c.name == ""))
    assert guess(node, name, 1) == [401]


def test_a_name_is_paused_after_failures_and_others_sign_in(
    directory: Directory, secured: InProcessNode
) -> None:
    directory.add_person("ida", "people")
    assert guess(secured, "ida", 5) == [401] * 5
    pause(secured, "ida")
    refused = sign_in(secured, "ida")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_failures")
    assert 800 < int(refused.headers["retry-after"]) <= 960
    assert {guess(secured, name, 1)[0] for name in ("IDA", " ida", "i da")} == {429}
    assert sign_in(secured, "ada").status_code == 200
    with secured.database.write("test.end") as tx:
        tx.execute(update(sign_in_failures).values(free_at=clock()))
    assert sign_in(secured, "ida").status_code == 200
    with secured.database.read() as tx:
        assert tx.execute(select(func.count()).select_from(sign_in_failures)).scalar_one() <= 2


def test_a_pause_is_in_the_audit(secured: InProcessNode, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise only the first failure of an address in a minute is recorded.
    monkeypatch.setattr(refusals, "_INTERVAL_SECONDS", 0.0)
    assert guess(secured, "locked", 1) == [401]
    pause(secured, "locked")
    refused = sign_in(secured, "locked")
    assert refused.status_code == 429
    audit = secured.node.context.audit
    audit.flush()
    page = audit.page(LOCAL_CALLER, action=AuditAction.SIGN_IN_FAILED, before=None, limit=10)
    reasons = [record.detail["reason"] for record in page]
    assert reasons[:2] == [refused.json()["detail"], WRONG_PASSWORD]
    assert page[0].address == "127.0.0.1"
    assert PASSWORD not in repr(page)


def test_an_unknown_name_is_paused_as_well(secured: InProcessNode) -> None:
    assert guess(secured, "nobody-here", 1) == [401]
    pause(secured, "nobody-here")
    assert guess(secured, "nobody-here", 1) == [429]


def test_of_many_guesses_at_once_only_the_free_ones_are_checked(
    directory: Directory, secured: InProcessNode
) -> None:
    directory.add_person("gina", "people")
    before = directory.count("ACCEPT")
    started = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        guesses = [f"at-once-{number}" for number in range(40)]
        answers = list(pool.map(lambda each: sign_in(secured, "gina", each), guesses))
    # The pauses after the sixth guess last 1, 4, 9, … seconds: each that is over permits one more.
    seconds = time.monotonic() - started
    ends = accumulate(number**2 for number in range(1, 20))
    free = 6 + sum(seconds > end for end in ends)
    assert sum(answer.status_code == 401 for answer in answers) <= free
    assert directory.count("ACCEPT") - before <= free


def test_a_restart_does_not_forget_failures(directory: Directory, tmp_path: Path) -> None:
    with serve_for(directory, tmp_path / "home") as node:
        assert guess(node, "bob", 1) == [401]
        pause(node, "bob")
    with serve_for(directory, tmp_path / "home") as node:
        assert sign_in(node, "bob").status_code == 429


@pytest.mark.postgres
def test_nodes_of_one_store_count_failures_together(
    directory: Directory, tmp_path: Path, postgres: Postgres
) -> None:
    url = postgres.url(postgres.new_database())
    migrate(url)
    with (
        serve_for(directory, tmp_path / "a", store=url) as first,
        serve_for(directory, tmp_path / "b", store=url) as second,
    ):
        for node in (first, second, first):
            assert guess(node, "bob", 1) == [401]
        with first.database.read() as tx:
            assert set(tx.execute(select(sign_in_failures.c.failures)).scalars()) == {3}
        pause(first, "bob")
        assert sign_in(second, "bob").status_code == 429
        assert sign_in(second, "ada").status_code == 200


# Secrets.


def test_passwords_are_in_no_log_event_or_row(
    directory: Directory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    canary = "canary-6fb1"
    directory.add_person("hugo", "people")
    directory.modify(f"uid=hugo,{PEOPLE}", "userPassword", canary)
    with caplog.at_level(logging.DEBUG), serve_for(directory, tmp_path / "home") as node:
        assert sign_in(node, "hugo", canary).status_code == 200
        assert sign_in(node, "hugo", f"{canary}-wrong").status_code == 401
        assert sign_in(node, f"name-{canary}", canary).status_code == 401
        with directory.frozen():
            ask = threading.Thread(target=sign_in, args=(node, "ada", f"{canary}-hangs"))
            ask.start()
            wait_until(lambda: _lookups() != [], what="a process asks the directory")
            assert canary not in "".join(_lookups())
            assert canary not in "".join(_lookups("environ"))
        ask.join()
        with node.database.read() as tx:
            rows = [
                str(row) for table in metadata.tables.values() for row in tx.execute(select(table))
            ]
        assert all(canary not in row for row in rows)
        secrets = (canary, READER_PASSWORD)
        files = [f for f in (tmp_path / "home").rglob("*") if f.is_file() and ".db" not in f.name]
        assert not [f for f in files for each in secrets if each.encode() in f.read_bytes()]
        assert repr(node.node.authenticator._ldap.__dict__).count(canary) == 0
    assert f"{canary}-" not in caplog.text
    assert READER_PASSWORD not in caplog.text


# Settings.


def test_a_node_does_not_start_with_a_password_that_others_can_read(
    directory: Directory, tmp_path: Path
) -> None:
    settings = ldap_settings(directory, tmp_path / "home")
    file = Path(str(settings["bind_password_file"]))
    file.chmod(0o644)
    auth = {"methods": ["ldap"], "ldap": settings}
    with (
        pytest.raises(InvalidSetting, match=r"Other users can read"),
        serve_node(make_settings(tmp_path / "home", token="t", auth=auth)),
    ):
        pass


def test_a_node_without_the_packages_of_ldap_does_not_start(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "ldap", ("no_such_package",))
    with (
        pytest.raises(PackagesMissing, match=r"no_such_package") as caught,
        serve_for(directory, tmp_path / "home"),
    ):
        pass
    assert "[ldap]" in str(caught.value.hint)
