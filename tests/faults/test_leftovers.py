"""The search for leftovers finds unneeded files, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.faults.invariants import Rows
from tests.faults.leftovers import find_files_of_ended_drivers, find_killed_attempts

from headrace.config.home import HomeLayout

_RUNNING, _DEAD = f"se_{'1' * 32}", f"se_{'2' * 32}"


def make_rows(**tables: list[dict[str, str | None]]) -> Rows:
    empty: dict[str, list[dict[str, str | None]]]
    empty = {name: [] for name in ("events", "statements", "sessions", "results")}
    return Rows(**(empty | tables))


def test_only_attempts_to_which_no_result_refers_count_as_killed(tmp_path: Path) -> None:
    stored, killed = tmp_path / "st_1-1-1", tmp_path / "st_1-2-2"
    stored.mkdir()
    killed.mkdir()
    rows = make_rows(results=[{"location": str(stored)}, {"location": None}])
    assert find_killed_attempts(tmp_path, rows) == [killed]
    assert find_killed_attempts(tmp_path / "missing", rows) == []


def test_the_log_of_a_session_is_a_leftover_only_without_the_session(tmp_path: Path) -> None:
    for session in (_RUNNING, _DEAD):
        (tmp_path / f"{session}.log").touch()
    rows = make_rows(sessions=[{"id": _RUNNING, "state": "closed"}])
    assert find_killed_attempts(tmp_path, rows) == [tmp_path / f"{_DEAD}.log"]


def test_only_files_of_ended_sessions_are_leftovers(tmp_path: Path) -> None:
    home = HomeLayout.at(tmp_path)
    home.drivers.mkdir()
    for session in (_RUNNING, _DEAD):
        (home.temporary / f"headrace-{session}-1").mkdir(parents=True)
        (home.drivers / f"headrace-{session}-1.json").touch()
    rows = make_rows(
        sessions=[{"id": _RUNNING, "state": "running"}, {"id": _DEAD, "state": "dead"}]
    )
    assert find_files_of_ended_drivers(home, rows) == [
        home.temporary / f"headrace-{_DEAD}-1",
        home.drivers / f"headrace-{_DEAD}-1.json",
    ]
