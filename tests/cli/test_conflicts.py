"""Commands that cannot act name the state and what would act."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
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


def run_command(served: InProcessNode, home: Path, words: list[str]) -> tuple[int, str]:
    """Run a command at a node. Return its exit code and what it prints on standard error."""
    done = subprocess.run(
        [*COMMAND, *words],
        env={
            **os.environ,
            "HEADRACE_SERVER": served.address,
            "HEADRACE_HOME": str(home),
            "COLUMNS": "400",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


def count_reads(node: InProcessNode) -> int:
    """Return how often the node has been asked for a session."""
    count = 'duration_seconds_count{method="GET",route="/api/v1/sessions/{session}"'
    lines = node.http.get("/metrics").text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if count in line)


def test_create_waits_for_the_end_of_a_session_of_the_same_name(
    served: InProcessNode, tmp_path: Path
) -> None:
    first, driver = served.start_session(name="etl")
    served.http.delete("/api/v1/sessions/etl")
    assert served.session_state(first) == "closing"
    words = ["sql", "SELECT 1", "--session", "etl", "--create", "--detach"]
    before = count_reads(served)
    with ThreadPoolExecutor(1) as executor:
        submitted = executor.submit(run_command, served, tmp_path / "home", words)
        wait_until(lambda: count_reads(served) > before + 1, what="the command waits")
        driver.goodbye()
        assert submitted.result() == (0, "")
    second = served.http.get("/api/v1/sessions/etl").json()["id"]
    assert second != first


@pytest.mark.parametrize("words", [["sql", "SELECT 1"], ["load", "t.csv", "--into", "t"]])
def test_a_session_that_does_not_exist_is_named_with_how_to_create_it(
    served: InProcessNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a\n1\n")

    code, messages = run_command(served, tmp_path / "home", [*words, "--session", "gone"])

    assert (code, messages) == (
        2,
        (
            "error: Session 'gone' does not exist.\n"
            "hint: add --create, or choose a session of headrace session list\n"
        ),
    )


@pytest.mark.parametrize("words", ["session log", "job show", "stream show", "node drain"])
def test_the_error_for_an_unknown_object_names_the_list(
    served: InProcessNode, tmp_path: Path, words: str
) -> None:
    code, messages = run_command(served, tmp_path / "home", [*words.split(), "gone"])

    assert code == 2
    assert f"hint: headrace {words.split(maxsplit=1)[0]} list" in messages


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
    code, messages = run_command(
        served, tmp_path / "home", [*command.split(), *([text] if text else [])]
    )

    assert code == 6, messages
    assert state in messages
    assert hint in messages
