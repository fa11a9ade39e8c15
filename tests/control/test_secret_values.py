"""Providers of secrets, who may use which, and values that cannot be used."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.waiting import wait_until

from headrace.config.sections import SecretSettings
from headrace.config.settings import Settings
from headrace.control.secret_values import LARGEST, Secrets
from headrace.errors import (
    HeadraceError,
    InvalidSecret,
    SecretDenied,
    SecretNotFound,
    SecretUnavailable,
)
from headrace.model.ids import new_id
from headrace.store.database import Database
from headrace.store.identity import users

VALUE = "correct horse battery"


def make_secrets(**settings: Any) -> Secrets:
    return Secrets(Settings(secrets=SecretSettings(**settings)))


def from_folder(folder: Path, content: bytes, mode: int = 0o600) -> Secrets:
    """Return secrets of which `pg` has this content."""
    file = folder / "pg"
    file.write_bytes(content)
    file.chmod(mode)
    return make_secrets(provider="files", folder=folder)


def from_program(code: str, **settings: Any) -> Secrets:
    """Return secrets that a Python program prints."""
    command = [sys.executable, "-c", f"import os, sys, time\n{code}"]
    return make_secrets(provider="command", command=command, **settings)


@pytest.mark.parametrize("content", [b"%s", b"%s\n", b"%s\r\n"])
def test_a_secret_is_the_content_of_a_file(tmp_path: Path, content: bytes) -> None:
    secrets = from_folder(tmp_path, content % VALUE.encode())

    assert secrets.find(["pg"], None) == {"pg": VALUE}


def test_a_link_to_a_file_is_followed_as_kubernetes_needs_it(tmp_path: Path) -> None:
    secrets = from_folder(tmp_path, VALUE.encode())
    (tmp_path / "linked").symlink_to(tmp_path / "pg")

    assert secrets.find(["linked"], None) == {"linked": VALUE}


def test_a_secret_is_a_variable_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = make_secrets(provider="environment", environment_prefix="SECRET_")
    monkeypatch.setenv("SECRET_pg", VALUE)

    assert secrets.find(["pg"], None) == {"pg": VALUE}
    with pytest.raises(SecretNotFound, match=r"\$\{secret:PG\}"):
        secrets.find(["PG"], None)


def test_a_secret_is_what_a_command_prints_for_its_name() -> None:
    secrets = from_program("print('value of', sys.argv[1])")

    assert secrets.find(["pg", "other"], None) == {"pg": "value of pg", "other": "value of other"}


def test_a_changed_secret_is_read_anew(tmp_path: Path) -> None:
    secrets = from_folder(tmp_path, VALUE.encode())
    assert secrets.find(["pg"], None) == {"pg": VALUE}
    (tmp_path / "pg").write_text("another value")

    assert secrets.find(["pg"], None) == {"pg": "another value"}


def test_without_a_provider_there_are_no_secrets() -> None:
    with pytest.raises(SecretUnavailable, match="no provider of secrets"):
        make_secrets().find(["pg"], None)


def test_a_file_that_does_not_exist_is_no_secret(tmp_path: Path) -> None:
    with pytest.raises(SecretNotFound, match=r"no secret for \$\{secret:pg\}"):
        make_secrets(provider="files", folder=tmp_path).find(["pg"], None)


def test_a_folder_and_a_pipe_are_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe", 0o600)
    secrets = make_secrets(provider="files", folder=tmp_path)
    for name in ("folder", "pipe"):
        with pytest.raises((InvalidSecret, SecretUnavailable), match=name):
            secrets.find([name], None)


def test_a_file_that_all_users_of_the_host_can_access_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSecret, match="Every user of the host") as refused:
        from_folder(tmp_path, VALUE.encode(), 0o644).find(["pg"], None)
    assert refused.value.hint is not None
    assert from_folder(tmp_path, VALUE.encode(), 0o640).find(["pg"], None) == {"pg": VALUE}


@pytest.mark.parametrize(
    ("content", "reason"),
    {
        b"": "fewer than 8 characters",
        b"1234567\n": "fewer than 8 characters",
        b"two\nlines of text": r"contains U\+000A",
        b"with two breaks\n\n": r"contains U\+000A",
        b"with a \0 in it": r"contains U\+0000",
        b"with a \x1b in it": r"contains U\+001B",
        b"\xff\xfe not text": "not UTF-8",
        b"refers to ${secret:other}": "cannot refer to another one",
        b"x" * (LARGEST + 1): "larger than 65536 bytes",
    }.items(),
)
def test_a_value_that_cannot_be_used_is_refused_and_not_shown(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(InvalidSecret, match=reason) as refused:
        from_folder(tmp_path, content).find(["pg"], None)
    assert "${secret:pg}" in refused.value.message
    assert content[:7].decode(errors="replace") not in refused.value.message or not content


def test_the_largest_value_is_accepted(tmp_path: Path) -> None:
    value = "x" * LARGEST
    assert from_folder(tmp_path, f"{value}\n".encode()).find(["pg"], None) == {"pg": value}


def test_a_command_that_fails_is_reported_without_its_output() -> None:
    secrets = from_program("print('half a secret'); print('reason', file=sys.stderr); sys.exit(3)")

    with pytest.raises(SecretUnavailable, match="exit status 3") as refused:
        secrets.find(["pg"], None)
    assert "half" not in str(refused.value)
    assert "reason" not in str(refused.value)


def test_a_command_that_does_not_exist_is_a_provider_that_fails() -> None:
    secrets = make_secrets(provider="command", command=["/nowhere/vault"])

    with pytest.raises(SecretUnavailable, match="No such file"):
        secrets.find(["pg"], None)


def test_an_endless_output_is_cut_off() -> None:
    started = time.monotonic()
    with pytest.raises(InvalidSecret, match="larger than"):
        program = "while True: sys.stdout.write('x' * 4096)"
        from_program(program, timeout="200s").find(["pg"], None)
    assert time.monotonic() - started < 100


@pytest.mark.parametrize("code", ["time.sleep(600)", "os.close(1); time.sleep(600)"])
def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path, code: str) -> None:
    pids = tmp_path / "pids"
    program = f"""
child = os.fork()
with open({str(pids)!r}, "a") as file:
    file.write(f"{{os.getpid()}} ")
{code}
"""
    with pytest.raises(SecretUnavailable, match=r"did not answer within 3s"):
        from_program(program, timeout="3s").find(["pg"], None)

    def is_running(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    numbers = [int(number) for number in pids.read_text().split()]
    assert len(numbers) == 2
    wait_until(lambda: not any(map(is_running, numbers)), what="the processes end")


def test_only_listed_owners_may_use_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "pg"
    file.write_text(VALUE)
    file.chmod(0o600)
    secrets = make_secrets(
        provider="files", folder=tmp_path, allowed={"pg": ["ada", "group:corp:etl"]}
    )

    for owners in ({"ada"}, {"bob", "group:corp:etl"}, {"group:corp:etl"}):
        assert secrets.find(["pg"], frozenset(owners)) == {"pg": VALUE}
    for owners in (set(), {"bob"}, {"group:other:etl"}, {"Ada"}):
        with pytest.raises(SecretDenied, match=r"may not use \$\{secret:pg\}"):
            secrets.find(["pg"], frozenset(owners))


def test_a_secret_without_listed_owners_is_denied_before_the_provider_is_asked() -> None:
    """The answer does not say whether the secret exists."""
    secrets = from_program("time.sleep(600)", allowed={"pg": ["ada"]})

    for name in ("other", "nothing"):
        with pytest.raises(SecretDenied):
            secrets.find([name], frozenset({"ada"}))


@pytest.mark.parametrize("owners", [frozenset({"ada"}), None])
@pytest.mark.parametrize("name", ["../token", "/etc/token", "a/b", "--help", "", "*", "a\n"])
def test_a_name_that_a_driver_chooses_leads_to_no_other_file(
    tmp_path: Path, name: str, owners: frozenset[str] | None
) -> None:
    (tmp_path / "token").write_text(VALUE)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "secrets").mkdir()
    secrets = make_secrets(provider="files", folder=tmp_path / "secrets", allowed={"*": ["ada"]})
    with pytest.raises(SecretDenied):
        secrets.find([name], owners)


def test_a_user_who_is_disabled_may_use_no_secret(tmp_path: Path) -> None:
    (tmp_path / "pg").write_text(VALUE)
    (tmp_path / "pg").chmod(0o600)
    secrets = make_secrets(provider="files", folder=tmp_path, allowed={"*": ["*"]})
    assert secrets.find(["pg"], frozenset({"ada"})) == {"pg": VALUE}
    with pytest.raises(SecretDenied):
        secrets.find(["pg"], frozenset())


def test_a_star_stands_for_every_secret_and_every_owner() -> None:
    settings = SecretSettings(allowed={"*": ["ada"], "pg": ["*"]})

    assert settings.may_use("x", frozenset({"ada"}))
    assert not settings.may_use("x", frozenset({"bob"}))
    assert settings.may_use("pg", frozenset({"bob"}))


def test_the_groups_of_a_user_are_those_of_its_last_sign_in(store: Database) -> None:
    secrets = make_secrets()
    name = new_id("u").replace("_", "")
    with store.write("test") as tx:
        user = users.sign_in(tx, "corp", name, name=name, groups=["etl"])
        assert secrets.list_owners(tx, user.id) == {user.id, "group:corp:etl"}
        assert secrets.list_owners(tx, "group:corp:etl") == {"group:corp:etl"}
        users.set_disabled(tx, user.id, is_disabled=True, actor="test")
        assert secrets.list_owners(tx, user.id) == frozenset()
        assert secrets.list_owners(tx, "unknown") == frozenset()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"provider": "files"}, "needs an absolute secrets.folder"),
        ({"provider": "files", "folder": "relative"}, "needs an absolute secrets.folder"),
        ({"provider": "command"}, "needs secrets.command"),
        ({"environment_prefix": ""}, "cannot begin the name of a variable"),
        ({"environment_prefix": "SPARK_SECRET_"}, "of other use"),
        ({"environment_prefix": "HEAD"}, "of other use"),
        ({"allowed": {"../x": ["ada"]}}, "cannot be the name of a secret"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SecretSettings(**settings)


def test_no_driver_inherits_a_variable_that_holds_a_secret() -> None:
    with pytest.raises(ValueError, match="inherit_env names SECRET_pg"):
        Settings(
            secrets={"provider": "environment"},  # type: ignore[arg-type]
            profiles={"default": {"inherit_env": ["SECRET_pg"]}},  # type: ignore[dict-item]
        )


@pytest.mark.parametrize("pattern", ["(", ".*", ""])
def test_a_pattern_of_redaction_that_cannot_work_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"regular expression|every name"):
        Settings(redaction={"pattern": pattern})  # type: ignore[arg-type]


def test_errors_of_secrets_have_stable_codes() -> None:
    codes: dict[type[HeadraceError], str] = {
        SecretDenied: "secret_denied",
        SecretNotFound: "secret_not_found",
        InvalidSecret: "invalid_secret",
        SecretUnavailable: "secret_unavailable",
    }
    assert {each: each.code for each in codes} == codes
