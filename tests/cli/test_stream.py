"""`headrace stream list` and `show`: the live view on a terminal, and one output without it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import COMMAND
from tests.cli.pseudo_terminal import PseudoTerminal
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.running_query import ERROR, RunningQuery
from tests.support.stream_minutes import add_minutes
from tests.support.waiting import wait_until

from headrace.model.lifecycle import StreamState

REDRAW = "\x1b[H\x1b[J"
COUNTDOWN = re.compile(r"in (?:(\d+) min ?)?(?:(\d+) s)?(?=[\s:.])")
WATCHES = [["list"], ["show", "QUERY"]]


@pytest.fixture
def served(start_node: StartNode) -> InProcessNode:
    return start_node()


@pytest.fixture
def query(served: InProcessNode) -> RunningQuery:
    """Return a query that has failed once and begins again in ten minutes."""
    query = RunningQuery(served)
    query.report(
        StreamState.BACKING_OFF, failures=1, delay_seconds=600, retry_seconds=600, error=ERROR
    )
    return query


@pytest.fixture
def stream_environment(served: InProcessNode, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HEADRACE_SERVER": served.address,
        "HEADRACE_HOME": str(tmp_path / "home"),
        "NO_COLOR": "1",
    }


@pytest.fixture
def terminal(stream_environment: dict[str, str]) -> Iterator[PseudoTerminal]:
    terminal = PseudoTerminal(stream_environment, columns=300)
    yield terminal
    terminal.close()


def command_of(query: RunningQuery, words: list[str]) -> list[str]:
    return ["stream", *(query.name if word == "QUERY" else word for word in words), "--watch"]


@pytest.mark.parametrize("words", WATCHES, ids=" ".join)
def test_a_watched_query_is_redrawn_until_ctrl_c(
    query: RunningQuery, terminal: PseudoTerminal, words: list[str]
) -> None:
    process = terminal.start(*command_of(query, words))
    try:
        wait_until(
            lambda: len(set(COUNTDOWN.findall(terminal.text))) > 1, what="the countdown goes on"
        )
        first = terminal.text.split(REDRAW)[1]
        query.report(StreamState.RUNNING)
        wait_until(
            lambda: "backing_off" not in terminal.text.split(REDRAW)[-2], what="the query runs"
        )
    finally:
        process.send_signal(signal.SIGINT)
        exit_code = process.wait(timeout=120)
    terminal.close()
    screens = terminal.text.split(REDRAW)

    assert exit_code == 0
    assert screens[0] == ""
    assert all(text in first for text in (query.name, "backing_off", "division by zero"))
    parts = COUNTDOWN.findall(terminal.text)
    seconds = [60 * int(minutes or 0) + int(rest or 0) for minutes, rest in parts]
    assert seconds == sorted(seconds, reverse=True)
    assert 500 < seconds[0] <= 600
    assert not COUNTDOWN.search(screens[-1])
    assert "\x1b" not in "".join(screens)
    assert screens[-1].endswith("\n")
    assert "Traceback" not in terminal.text
    assert "Aborted" not in terminal.text


@pytest.mark.parametrize("words", WATCHES, ids=" ".join)
def test_a_watch_without_a_terminal_writes_once(
    served: InProcessNode,
    query: RunningQuery,
    stream_environment: dict[str, str],
    words: list[str],
) -> None:
    done = subprocess.run(
        [*COMMAND, *command_of(query, words)],
        env=stream_environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert done.stdout.count(query.name) >= 1
    # A program reads when the query starts again, and not how long that takes.
    assert not COUNTDOWN.search(done.stdout)
    assert served.http.get(f"/api/v1/streams/{query.name}").json()["retry_at"] in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_list_without_live_queries_says_where_the_others_are(
    served: InProcessNode, query: RunningQuery, stream_environment: dict[str, str]
) -> None:
    def list_streams(*options: str) -> tuple[str, str]:
        done = subprocess.run(
            [*COMMAND, "stream", "list", *options],
            env=stream_environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout, done.stderr

    assert "ended" not in list_streams()[1]
    served.act_on_stream(query.name, "stop")
    query.report(StreamState.STOPPED)
    assert list_streams()[1] == "No query is live. 1 ended: headrace stream list --all\n"
    assert query.name in list_streams("--all")[0]
    assert list_streams("--all")[1] == ""


def test_a_history_is_a_table_of_minutes_or_all_that_the_api_says(
    served: InProcessNode, query: RunningQuery, stream_environment: dict[str, str]
) -> None:
    def show(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "stream", "history", query.name, *options],
            env=stream_environment,
            capture_output=True,
            text=True,
            check=False,
        )

    add_minutes(served.database, query.id, 9, 2, input_rows=600, watermark_gap=1500)
    lines = show().stdout.splitlines()
    assert lines[0].startswith("at,batches,input_rows,input_rate,")
    assert [line.split(",")[1:4] for line in lines[1:]] == [["1", "600", "10.0"]] * 2
    assert len(show("--minutes", "5").stdout.splitlines()) == 2
    shown = json.loads(show("--format", "json").stdout)
    assert [each["kind"] for each in shown["interruptions"]] == ["starting", "backing_off"]
    assert show("--minutes", "0").returncode == 2
    assert show("--minutes", "361").returncode == 2


def test_a_history_on_a_terminal_says_when_the_query_did_not_run(
    served: InProcessNode, query: RunningQuery, terminal: PseudoTerminal
) -> None:
    add_minutes(served.database, query.id, 9, watermark_gap=1500)
    process = terminal.start("stream", "history", query.name)
    code = process.wait(timeout=120)
    terminal.close()
    assert code == 0, terminal.text
    assert "WATERMARK GAP" in terminal.text
    assert "1.5 s" in terminal.text
    assert "backing_off" in terminal.text


def test_a_list_of_no_query_says_how_to_start_one(
    served: InProcessNode, stream_environment: dict[str, str]
) -> None:
    assert served.http.get("/api/v1/streams").json()["items"] == []
    done = subprocess.run(
        [*COMMAND, "stream", "list"],
        env=stream_environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == "There is no query. SAVE STREAM starts one.\n"
