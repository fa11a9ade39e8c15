"""A node with TLS as a process of its own, with commands and with a driver of Spark."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.certificates import Authority
from tests.support.node import NodeProcess

from headrace.errors import EXIT_CONNECTION, EXIT_DENIED

RunCommand = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def settings(authority: Authority) -> dict[str, str]:
    """Return the settings of a node that requires certificates of its clients."""
    pair, client = authority.issue("node", "127.0.0.1"), authority.issue("command")
    return {
        "TLS__CERT": str(pair.cert),
        "TLS__KEY": str(pair.key),
        "TLS__CA": str(authority.ca),
        "TLS__CLIENT_CA": str(authority.ca),
        "TLS__CLIENT_CERT": str(client.cert),
        "TLS__CLIENT_KEY": str(client.key),
    }


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]
) -> Iterator[NodeProcess]:
    node = NodeProcess(tmp_path_factory.mktemp("tls") / "home", **settings)
    yield node
    node.close()


def run(node: NodeProcess, *arguments: str, **variables: str | None) -> RunCommand:
    """Run a command with the address and the token of a node, and without its certificates."""
    environment = {**node.client_environment, "HEADRACE_HOME": str(node.home / "other")}
    environment |= {f"HEADRACE_{name}": value for name, value in variables.items() if value}
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=240,
    )


CLIENT = ("TLS__CA", "TLS__CLIENT_CERT", "TLS__CLIENT_KEY")


def test_commands_and_drivers_use_a_node_with_tls(
    secured: NodeProcess, settings: dict[str, str]
) -> None:
    client = {name: settings[name] for name in CLIENT}
    assert secured.address.startswith("https://127.0.0.1:")

    result = run(secured, "sql", "--format", "csv", "SELECT 1 + 1 AS two", **client)
    assert (result.returncode, result.stdout) == (0, "two\n2\n"), result.stderr
    assert '"status": "ok"' in run(secured, "doctor", "--format", "json", **client).stdout
    [session] = secured.http.get("/api/v1/sessions").json()["items"]
    log = run(secured, "session", "log", session["id"], **client)
    assert log.returncode == 0
    assert "cannot be reached" not in log.stdout


def test_commands_of_the_home_know_the_authority_of_its_node(
    secured: NodeProcess, settings: dict[str, str]
) -> None:
    client = {name: settings[name] for name in CLIENT if name != "TLS__CA"}
    result = run(secured, "session", "list", SERVER="embedded", HOME=str(secured.home), **client)
    assert result.returncode == 0, result.stderr


def test_a_command_says_why_it_cannot_use_a_node(
    secured: NodeProcess, settings: dict[str, str]
) -> None:
    untrusted = run(secured, "session", "list")
    assert untrusted.returncode == EXIT_CONNECTION
    assert "is not accepted" in untrusted.stderr
    assert "HEADRACE_TLS__CA" in untrusted.stderr

    strange = run(secured, "session", "list", TLS__CA=settings["TLS__CA"])
    assert strange.returncode == EXIT_DENIED
    assert "tls.client_cert" in strange.stderr

    plain = run(secured, "session", "list", SERVER=secured.address.replace("https", "http"))
    assert plain.returncode == EXIT_CONNECTION


def test_the_example_of_a_node_for_curl_works(secured: NodeProcess) -> None:
    lines = (secured.home / "node.log").read_text().splitlines()
    [example] = [line for line in lines if line.startswith("  curl ")]
    assert "--cacert" in example
    token = secured.home / "token"
    assert f'"$(cat {shlex.quote(str(token))})"' in example
    # This node also requires a certificate.
    run = subprocess.run(
        example.replace("/api/v1/sessions", "/ready"),
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert '"status":"ready"' in run.stdout, run.stderr


@pytest.mark.parametrize("missing", ["TLS__CERT", "TLS__KEY"])
def test_a_node_does_not_start_without_its_files(
    tmp_path: Path, settings: dict[str, str], missing: str
) -> None:
    changed = settings | {missing: str(tmp_path / "missing")}
    started = subprocess.run(
        [sys.executable, "-m", "headrace.frontends", "--port", "0", "--home", str(tmp_path / "h")],
        env={**os.environ, **{f"HEADRACE_{name}": value for name, value in changed.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert started.returncode == 2
    assert started.stderr.startswith(f"headrace: {missing.lower().replace('__', '.')}: ")
