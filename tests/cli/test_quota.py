"""`headrace quota`, with a node."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import RunHeadrace
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode


@pytest.fixture
def server(start_node: StartNode) -> InProcessNode:
    limits = {"users": {LOCAL_OWNER: {"sessions": 1200, "max_timeout": "90m"}}}
    return start_node(limits=limits)


@pytest.fixture
def environment(environment: dict[str, str], server: InProcessNode) -> dict[str, str]:
    return {**environment, "HEADRACE_SERVER": server.address}


def test_a_quota_is_a_list_on_a_terminal(
    server: InProcessNode, environment: dict[str, str]
) -> None:
    server.session()
    terminal = PseudoTerminal({**environment, "NO_COLOR": "1"}, columns=100)
    lines = [line.split() for line in terminal.run("quota").splitlines()]
    assert lines[0] == ["LIMIT", "USED", "VALUE", "SETTING"]
    shown = {line[0]: line[1:] for line in lines[1:]}
    assert shown["sessions"] == ["1", "1,200", f"limits.users.{LOCAL_OWNER}.sessions"]
    assert shown["streams"] == ["0", "no", "limit"]
    assert shown["max_timeout"] == ["90m", f"limits.users.{LOCAL_OWNER}.max_timeout"]
    assert shown["weight"] == ["1"]


def test_a_quota_is_data_elsewhere(headrace: RunHeadrace, server: InProcessNode) -> None:
    items = json.loads(headrace("quota", "-o", "json").stdout)
    assert {"name": "weight", "value": 1, "used": None, "setting": None} in items
    csv = headrace("quota").stdout.splitlines()
    assert csv[:2] == [
        "name,used,value,setting",
        f"sessions,0,1200,limits.users.{LOCAL_OWNER}.sessions",
    ]


def test_the_quota_of_an_unknown_owner_is_an_error(
    headrace: RunHeadrace, server: InProcessNode
) -> None:
    refused = headrace("quota", "--owner", "eve")
    assert refused.returncode == 2
    assert "There is no user or group 'eve'" in refused.stderr
    assert headrace("quota", "--owner", LOCAL_OWNER).returncode == 0
