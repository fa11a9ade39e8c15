"""Which node a command uses, and which token it sends there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode
from tests.support.other_user import give_to_other_user

from headrace.cli.support import discovery
from headrace.cli.support.config import ClientConfig
from headrace.config.home import HomeLayout
from headrace.config.node_file import NodeFile
from headrace.files.file_locks import lock_file

LIST = ["session", "list", "--format", "json"]


def describe_node(node: ScriptedNode, **fields: object) -> NodeFile:
    record = {"token": "secret", "token_in_home": False, "pid": os.getpid(), "version": "0"}
    record |= {"address": node.address, "node_id": node.node_id, "embedded": True}
    return NodeFile(**{**record, **fields})  # type: ignore[arg-type]


@contextmanager
def node_of_home(layout: HomeLayout, description: NodeFile) -> Iterator[None]:
    """Hold the lock of the home, as the node that the file describes does."""
    description.write(layout)
    descriptor = lock_file(layout.node_lock)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


def tokens(node: ScriptedNode) -> set[str | None]:
    """Return the tokens that a node has received; None stands for a request without a token."""
    return {request.headers.get("authorization") for request in node.requests}


@pytest.fixture
def layout(home: Path) -> HomeLayout:
    home.mkdir()
    return HomeLayout.at(home)


@pytest.fixture
def run(headrace: RunHeadrace, layout: HomeLayout, monkeypatch: pytest.MonkeyPatch) -> RunHeadrace:
    """Run commands that may start no node of their own, and find none on the default port."""

    def refuse_start(*_: object, **__: object) -> None:
        raise AssertionError("the command starts a node")

    monkeypatch.setattr(discovery, "start_embedded_node", refuse_start)
    monkeypatch.setattr(discovery, "DEFAULT_ADDRESS", "http://127.0.0.1:1")

    def run(*arguments: str, **variables: str) -> object:
        server = {"HEADRACE_SERVER": "", "HEADRACE_HOME": str(layout.path)}
        return headrace(*arguments, **(server | variables))

    return run


@pytest.mark.finding("S12")
def test_the_token_of_a_home_is_sent_to_its_node_and_not_in_probes(
    run: RunHeadrace, node: ScriptedNode, layout: HomeLayout
) -> None:
    node.token = "secret"
    with node_of_home(layout, describe_node(node)):
        assert run(*LIST).stdout == "[]\n"
    sent = {(call.path, call.headers.get("authorization")) for call in node.requests}
    assert sent == {("/health", None), ("/api/v1/sessions", "Bearer secret")}


@pytest.mark.finding("S12")
def test_a_process_on_the_port_of_an_ended_node_receives_no_token(
    run: RunHeadrace, node: ScriptedNode, layout: HomeLayout
) -> None:
    """The process id in the file may belong to a live process, and ids of nodes are public."""
    describe_node(node).write(layout)
    completed = run(*LIST)
    assert tokens(node) <= {None}
    assert "the command starts a node" in completed.stderr


@pytest.mark.finding("S12")
def test_a_process_on_the_default_port_receives_no_token(
    run: RunHeadrace, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.token = "secret"
    monkeypatch.setattr(discovery, "DEFAULT_ADDRESS", node.address)
    completed = run(*LIST, HEADRACE_TOKEN="secret")
    assert completed.returncode == 5
    assert f"hint: set HEADRACE_SERVER={node.address}" in completed.stderr
    assert tokens(node) == {None}
    assert run(*LIST, HEADRACE_TOKEN="secret", HEADRACE_SERVER=node.address).stdout == "[]\n"


def test_a_node_on_the_default_port_that_needs_a_token_is_not_used(
    run: RunHeadrace, node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.token = "secret"
    monkeypatch.setattr(discovery, "DEFAULT_ADDRESS", node.address)
    completed = run(*LIST)
    assert "belongs to another home and needs a token, so it is not used" in completed.stderr
    assert "the command starts a node" in completed.stderr


@pytest.mark.finding("S12")
def test_a_node_file_of_another_user_is_refused(
    run: RunHeadrace, node: ScriptedNode, layout: HomeLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe_node(node).write(layout)
    give_to_other_user(layout.node_file, monkeypatch)
    completed = run(*LIST)
    assert completed.returncode == 2
    assert "node.json belongs to another user" in completed.stderr
    assert node.requests == []


def test_commands_of_a_home_find_the_token_that_its_node_created(
    run: RunHeadrace, node: ScriptedNode, layout: HomeLayout
) -> None:
    node.token = "created"
    layout.token_file.write_text("created\n")
    description = describe_node(node, token=None, token_in_home=True, embedded=False)
    with node_of_home(layout, description):
        assert run(*LIST).stdout == "[]\n"
        assert run(*LIST, HEADRACE_TOKEN="of another server").stdout == "[]\n"


def test_a_node_with_a_configured_token_gets_the_configured_token(
    run: RunHeadrace, node: ScriptedNode, layout: HomeLayout
) -> None:
    node.token = "configured"
    layout.token_file.write_text("of an earlier node\n")
    with node_of_home(layout, describe_node(node, token=None, embedded=False)):
        assert run(*LIST, HEADRACE_TOKEN="configured").stdout == "[]\n"


def test_a_node_of_the_home_that_does_not_respond_is_named(
    run: RunHeadrace, node: ScriptedNode, layout: HomeLayout
) -> None:
    with node_of_home(layout, describe_node(node, node_id="no_other", pid=4711)):
        completed = run(*LIST)
    assert completed.returncode == 3
    assert 'Process 4711, started by "headrace sql", serves the home' in completed.stderr
    assert "hint: end it with headrace stop" in completed.stderr


@pytest.mark.finding("U1")
def test_a_command_follows_the_home_to_the_node_that_replaces_its_node(
    node: ScriptedNode, layout: HomeLayout
) -> None:
    node.on("SELECT 1", columns=[("x", "int")], chunks=[[[1]]])
    with ScriptedNode() as replaced, node_of_home(layout, describe_node(replaced)):
        client = discovery.connect_home_node(ClientConfig(home=layout.path))
    assert client is not None
    client.close()  # the end of a node also ends its connections
    node.token = "other"
    with client, node_of_home(layout, describe_node(node, token="other")):
        assert client.submit({"statement": "SELECT 1"})["rows"] == [[1]]
