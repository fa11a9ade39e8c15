"""The settings and commands of the guide "Share a server with a team", as a team uses them.

One node has TLS, a real issuer, and the settings of all sections but those that need other parts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.certificates import Authority
from tests.support.oidc_provider import Issuer, running_issuer
from tests.support.ports import free_port
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.oidc, pytest.mark.spark, pytest.mark.timeout(600)]

Json = dict[str, Any]
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "share-a-server.md"
COMMAND = [sys.executable, "-m", "headrace.cli"]
ADMINISTRATION = ("user", "audit")
"""Commands that an administrator enters, and not Ada."""
OTHER_PARTS = {"ldap", "header", "client_ca", "system_users", "profiles"}
"""Keys of settings that a node needs other parts for. Other tests run nodes with each of them."""


class Block(NamedTuple):
    """A block of the guide."""

    language: str
    text: str


def read_blocks() -> Iterator[Block]:
    pattern = re.compile(r"^```(sh|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for block in pattern.finditer(GUIDE.read_text()):
        yield Block(block[1], block[2])


def merge(into: Json, table: Mapping[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def list_keys(table: Mapping[str, Any]) -> Iterator[str]:
    for key, value in table.items():
        yield key
        if isinstance(value, dict):
            yield from list_keys(value)


class Team:
    """Ada, who is in the group etl, an administrator, and their server."""

    def __init__(self, folder: Path, issuer: Issuer) -> None:
        self.folder = folder
        self.issuer = issuer
        self.home = folder / "server"
        self.port = free_port()
        authority = Authority(folder / "certificates")
        pair = authority.issue("node", "localhost")
        self.ca = authority.ca
        self._placeholders = {
            "https://login.example.com/realms/corp": issuer.url,
            "headrace-cli": "headrace",
            "https://sql.example.com:8040": f"https://localhost:{self.port}",
            "https://sql.example.com": f"https://localhost:{self.port}",
            "/etc/headrace/node.crt": str(pair.cert),
            "/etc/headrace/node.key": str(pair.key),
            "/etc/headrace/ca.pem": str(self.ca),
            "/var/log/headrace": str(folder / "log"),
        }
        (folder / "jobs").mkdir()
        (folder / "jobs" / "copy.yaml").write_text(
            "name: copy\ndescription: Copy numbers\ntarget-table: files\n"
            "sql: SELECT value FROM numbers\n"
        )
        (folder / "jobs" / "definitions.sql").write_text(
            "CREATE STREAM numbers FROM rate;\nCREATE SINK files TO json;\n"
        )
        own = {"HOME": str(folder / "ada"), "XDG_STATE_HOME": str(folder / "ada" / "state")}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        self.environment = {**inherited, **own, "HEADRACE_HOME": str(folder / "ada" / "home")}
        # The guide sets these in one of its sections. A reader's shell has them in all.
        self.environment["HEADRACE_SERVER"] = f"https://localhost:{self.port}"
        self.environment["HEADRACE_TLS__CA"] = str(self.ca)

    def fill(self, text: str) -> str:
        """Replace the names of the guide's company by those of this test."""
        for placeholder, value in self._placeholders.items():
            text = text.replace(placeholder, value)
        return text

    def serve(self, settings: Json) -> subprocess.Popen[bytes]:
        """Start the server with the settings of the guide."""
        self.home.mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        environment |= {f"HEADRACE_{key.upper()}": _to_json(settings[key]) for key in settings}
        with (self.home / "log").open("wb") as log:
            process = subprocess.Popen(
                [*COMMAND, "serve", "--port", str(self.port), "--home", str(self.home)],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def is_up() -> bool:
            assert process.poll() is None, (self.home / "log").read_text()
            return (self.home / "node.json").exists()

        wait_until(is_up, seconds=60, what="the server is up")
        return process

    def enter(self, line: str) -> str:
        """Run a line of the guide in the shell of whoever enters it, and return its output."""
        words = shlex.split(self.fill(line), comments=True)
        if words[0] == "export":
            self.environment |= dict(word.split("=", 1) for word in words[1:])
            return ""
        assert words[0] == "headrace", line
        if words[1] == "login":
            return self._login(words[1:])
        variables = self.environment
        if words[1] in ADMINISTRATION:
            variables = {**variables, "HEADRACE_TOKEN": (self.home / "token").read_text()}
        process = subprocess.run(
            [*COMMAND, *words[1:]],
            env=variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert process.returncode == 0, f"{line}: {process.stderr}"
        return process.stdout

    def _login(self, words: list[str]) -> str:
        login = subprocess.Popen(
            [*COMMAND, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert login.stderr is not None
        address = re.search(r"http\S+", login.stderr.readline())
        assert address is not None
        self.issuer.approve(address[0], "ada")
        output, errors = login.communicate(timeout=240)
        assert login.returncode == 0, errors
        return output


def _to_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with running_issuer(tmp_path / "issuer") as issuer:
        team = Team(tmp_path, issuer)
        try:
            yield team
        finally:
            end(processes_of(team.home))


def test_a_team_shares_a_server_as_the_guide_says(team: Team) -> None:
    blocks = list(read_blocks())
    settings: Json = {}
    for block in blocks:
        if block.language == "toml":
            table = tomllib.loads(team.fill(block.text))
            if OTHER_PARTS.isdisjoint(list_keys(table)):
                merge(settings, table)
    assert settings.keys() >= {"auth", "tls", "http", "limits", "audit"}
    # The guide's company has a public CA, and the team a private one.
    settings["tls"]["ca"] = str(team.ca)
    node = team.serve(settings)
    scripts = [block.text for block in blocks if block.language == "sh"]
    # Whoever enters the commands of any section has signed in before.
    scripts.sort(key=lambda text: "headrace login" not in text)
    assert "headrace login" in scripts[0]
    outputs = {}
    for script in scripts:
        if "curl" in script:
            continue  # test_ldap.py signs in with a password
        for line in script.replace("\\\n", " ").splitlines():
            outputs[line] = team.enter(line)
        if "headrace logout" in script:
            team.enter("headrace login")
    assert len(outputs) >= 15
    assert outputs["headrace login"] == "You are ada (user).\n"
    assert "airflow" in outputs["headrace token list"]
    owned = team.enter("headrace session list --format jsonl")
    assert '"name": "nightly"' in owned
    assert '"owner": "group:corp:etl"' in owned
    assert "user_disabled" in (team.folder / "log" / "audit.jsonl").read_text()
    node.terminate()
    assert node.wait(120) == 0
