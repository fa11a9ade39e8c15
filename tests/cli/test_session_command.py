from __future__ import annotations

import json

from tests.cli.conftest import Headrace
from tests.cli.scripted_node import ScriptedNode


def test_new_prints_the_id(node: ScriptedNode, headrace: Headrace) -> None:
    flags = ["--name", "mine", "--conf", "spark.a=1", "--database", "d", "--jar", "a", "--jar", "b"]
    made = headrace("session", "new", *flags)
    (session,) = node.sessions
    assert made.stdout == session + "\n"
    (call,) = node.calls("POST", "/api/v1/sessions")
    assert call.body == {
        "name": "mine",
        "conf": {"spark.a": "1"},
        "database": "d",
        "jars": ["a", "b"],
    }


def test_a_name_that_is_taken(headrace: Headrace) -> None:
    assert headrace("session", "new", "--name", "mine").returncode == 0
    assert headrace("session", "new", "--name", "mine").returncode == 6


def test_list_show_log_and_close(node: ScriptedNode, headrace: Headrace) -> None:
    headrace("session", "new", "--name", "mine")
    (session,) = node.sessions
    assert headrace("session", "list").stdout.splitlines()[1].startswith(f"{session},mine,running,")
    shown = headrace("session", "show", "mine", "--format", "json").stdout
    assert json.loads(shown)["id"] == session
    assert headrace("session", "log", "mine").stdout == "first line\nlast line\n"
    assert headrace("session", "log", "mine", "--tail", "10").stdout == "last line\n"
    assert headrace("session", "close", "mine").returncode == 0
    assert node.sessions[session]["state"] == "closing"


def test_what_is_no_pair_is_refused(headrace: Headrace) -> None:
    done = headrace("session", "new", "--conf", "spark.a")
    assert done.returncode == 2
    assert "--conf 'spark.a': write --conf KEY=VALUE." in done.stderr


def test_a_list_cannot_be_arrow(headrace: Headrace) -> None:
    done = headrace("session", "list", "--format", "arrow")
    assert done.returncode == 2
