"""Commands and statements that cannot act exit with 6, and name the state and what would act."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import RunningQuery
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StreamState


@pytest.fixture
def served(start_node: StartNode) -> InProcessNode:
    return start_node()


@pytest.fixture
def ended(served: InProcessNode) -> dict[str, str]:
    """Return the references of a stopped query, an ended statement and a dead session."""
    query = RunningQuery(served)
    served.act_on_stream(query.id, "stop")
    query.report(StreamState.STOPPED)
    served.http.delete(f"/api/v1/sessions/{query.session}")
    query.driver.goodbye()
    wait_until(lambda: served.session_state(query.session) == "dead", what="the session ends")
    return {"QUERY": query.name, "STATEMENT": query.statement, "SESSION": query.session}


@pytest.mark.parametrize(
    ("words", "state", "hint"),
    [
        ("stream resume <QUERY>", "it is stopped (stopped by a user)", "RESTART STREAM"),
        ("sql|STOP STREAM <QUERY>", "it is stopped (stopped by a user)", "RESTART STREAM"),
        ("sql|CANCEL STATEMENT '<STATEMENT>'", "it has ended (success)", ""),
        ("session close <SESSION>", "it is dead", "headrace session list"),
    ],
)
def test_a_command_that_cannot_act_exits_with_6(
    served: InProcessNode, ended: dict[str, str], tmp_path: Path, words: str, state: str, hint: str
) -> None:
    for name, reference in ended.items():
        words = words.replace(f"<{name}>", reference)
    command, _, text = words.partition("|")
    done = subprocess.run(
        [*COMMAND, *command.split(), *([text] if text else [])],
        env={
            **os.environ,
            "HEADRACE_SERVER": served.address,
            "HEADRACE_HOME": str(tmp_path / "home"),
            "COLUMNS": "400",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 6, done.stderr
    assert state in done.stderr
    assert hint in done.stderr
