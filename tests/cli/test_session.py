from __future__ import annotations

import json

from tests.cli.conftest import RunHeadrace
from tests.cli.scripted_node import ScriptedNode


def test_new_sends_its_options_and_prints_the_id(node: ScriptedNode, headrace: RunHeadrace) -> None:
    flags = ["--name", "mine", "--conf", "spark.a=1", "--database", "d", "--jar", "a", "--jar", "b"]
    completed = headrace("session", "new", *flags)
    (session,) = node.sessions
    assert completed.stdout == session + "\n"
    (call,) = node.calls("POST", "/api/v1/sessions")
    assert call.body == {
        "name": "mine",
        "conf": {"spark.a": "1"},
        "database": "d",
        "jars": ["a", "b"],
    }


def test_new_refuses_a_name_that_exists(headrace: RunHeadrace) -> None:
    assert headrace("session", "new", "--name", "mine").returncode == 0
    refused = headrace("session", "new", "--name", "mine")
    assert (refused.returncode, refused.stderr) == (6, "error: A live session has this name.\n")


def test_list_show_log_and_close(node: ScriptedNode, headrace: RunHeadrace) -> None:
    headrace("session", "new", "--name", "mine")
    (session,) = node.sessions
    assert headrace("session", "list").stdout.splitlines()[1].startswith(f"{session},mine,running,")
    description = headrace("session", "show", "mine", "--format", "json").stdout
    assert json.loads(description)["id"] == session
    assert headrace("session", "log", "mine").stdout == "first line\nlast line\n"
    assert headrace("session", "log", "mine", "--tail", "10").stdout == "last line\n"
    assert headrace("session", "close", "mine").returncode == 0
    assert node.sessions[session]["state"] == "closing"


def test_conf_without_a_value_is_refused(headrace: RunHeadrace) -> None:
    completed = headrace("session", "new", "--conf", "spark.a")
    assert completed.returncode == 2
    assert "--conf 'spark.a' is not valid. Write --conf KEY=VALUE." in completed.stderr


def test_list_refuses_binary_formats(headrace: RunHeadrace) -> None:
    completed = headrace("session", "list", "--format", "arrow")
    assert completed.returncode == 2


def test_new_sends_kind_and_timeouts(node: ScriptedNode, headrace: RunHeadrace) -> None:
    flags = ["--kind", "streaming", "--idle-timeout", "5m", "--ttl", "1d"]
    assert headrace("session", "new", *flags).returncode == 0
    (call,) = node.calls("POST", "/api/v1/sessions")
    assert call.body == {"kind": "streaming", "idle_timeout": "5m", "ttl": "1d"}


def test_show_prints_timeouts_as_durations(node: ScriptedNode, headrace: RunHeadrace) -> None:
    headrace("session", "new", "--name", "mine", "--idle-timeout", "5m")
    lines = headrace("session", "show", "mine").stdout.splitlines()
    assert ["idle_timeout", "5m"] in [line.split() for line in lines]
    assert not any(line.startswith("ttl ") for line in lines)
