"""`headrace login` and `logout`, with a node and a real issuer."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND, CompletedCommand
from tests.support.in_process_node import InProcessNode
from tests.support.oidc_provider import Issuer, running_issuer, serve_for

from headrace.cli.support.logins import Logins
from headrace.client.login import Login
from headrace.errors import Unauthorized

pytestmark = pytest.mark.oidc
Run = Callable[..., CompletedCommand]


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("issuer")) as running:
        yield running


@pytest.fixture(scope="module")
def server(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessNode]:
    with serve_for(issuer, tmp_path_factory.mktemp("server") / "home") as node:
        yield node


@pytest.fixture
def environment(server: InProcessNode, tmp_path: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "HEADRACE_TOKEN"}
    own = {"HEADRACE_SERVER": server.address, "XDG_STATE_HOME": str(tmp_path / "state")}
    return {**inherited, **own, "HEADRACE_HOME": str(tmp_path / "home")}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Run:
    def run(*arguments: str, **variables: str) -> CompletedCommand:
        return subprocess.run(
            [*COMMAND, *arguments],
            env={**environment, **variables},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_commands_use_the_login_of_their_user_until_the_logout(
    issuer: Issuer, environment: dict[str, str], run: Run, tmp_path: Path
) -> None:
    refused = run("session", "list")
    assert "headrace login" in refused.stderr
    login = subprocess.Popen(
        [*COMMAND, "login"],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert login.stderr is not None
    address = re.search(r"http\S+", login.stderr.readline())
    assert address is not None
    issuer.approve(address[0], "ada")
    output, errors = login.communicate(timeout=120)
    assert (login.returncode, output) == (0, "You are ada (user).\n"), errors
    created = run("token", "create", "--name", "of-ada", "--expires", "1d", "--scope", "read")
    assert created.stdout.startswith("hr_"), created.stderr
    listed = run("token", "list", "--format", "jsonl", HEADRACE_TOKEN=created.stdout.strip())
    assert '"of-ada"' in listed.stdout, listed.stderr
    assert "one of the roles" in run("user", "list").stderr
    admin = {"HEADRACE_TOKEN": "of-the-node"}
    assert '"name": "ada"' in run("user", "list", "--format", "jsonl", **admin).stdout
    assert "is disabled" in run("user", "disable", "ada", **admin).stderr
    assert run("session", "list").returncode == refused.returncode
    assert "is enabled" in run("user", "enable", "ada", **admin).stderr
    assert run("session", "list").returncode == 0
    assert "There is no user 'eve'" in run("user", "disable", "eve", **admin).stderr
    ended = run("logout")
    assert "has ended" in ended.stderr
    assert run("session", "list").returncode == refused.returncode
    assert "no sign-in" in run("logout").stderr


def test_a_login_needs_a_server(run: Run) -> None:
    command = run("login", HEADRACE_SERVER="embedded")
    assert command.returncode == 2
    assert "none is set" in command.stderr


def test_a_token_that_is_set_takes_precedence(run: Run) -> None:
    command = run("login", HEADRACE_TOKEN="of-the-node")
    assert "HEADRACE_TOKEN sets a token" in command.stderr


def test_an_issuer_that_the_server_does_not_have_is_named(run: Run) -> None:
    assert "Choose one of the issuers with --issuer: corp." in run("login", "--issuer", "x").stderr


def test_a_file_of_logins_that_others_can_read_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "state" / "headrace" / "logins.json"
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    file.chmod(0o644)
    assert f"chmod 600 {file}" in run("session", "list").stderr
    file.chmod(0o600)
    file.write_text('{"http://a": 1}')
    assert "cannot be read" in run("session", "list").stderr


def expire(login: Login) -> Login:
    """Return a login whose token ends within the margin before which it must be renewed."""
    expired = replace(login, expires_at=time.time() + 10)
    assert not expired.is_fresh
    return expired


def test_a_login_is_renewed_once_by_all_commands_and_ends_when_it_is_revoked(
    tmp_path: Path,
) -> None:
    """The issuer accepts each refresh token once: a second use would end the login."""
    with running_issuer(tmp_path / "issuer") as issuer:
        logins = Logins(tmp_path / "logins.json")
        login = issuer.sign_in("ada")
        assert login.is_fresh
        logins.add("http://server", expire(login))
        found: list[str | None] = []
        threads = [
            threading.Thread(target=lambda: found.append(logins.find_token("http://server")))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1
        assert found[0] not in {None, login.access_token}
        assert (tmp_path / "logins.json").stat().st_mode & 0o777 == 0o600
        issuer.stop()
        issuer.start()  # it forgets all sign-ins
        logins.add("http://server", expire(logins._read()["http://server"]))
        with pytest.raises(Unauthorized, match="has ended") as error:
            logins.find_token("http://server")
        assert error.value.hint == "sign in again: headrace login"
