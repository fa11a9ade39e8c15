"""Deletion of what killed drivers leave, and of nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import update
from tests.support.in_process_node import InProcessNode, StartNode, make_settings, serve_node
from tests.support.scripted_driver import ScriptedDriver
from tests.support.waiting import wait_until

from headrace.config.home import HomeLayout
from headrace.control import periodic_tasks, retention
from headrace.control.launchers.bootstrap_files import TemporaryFolders
from headrace.control.leftovers import AbandonedFolders, AbandonedResults
from headrace.control.worker_pool import WorkerPool
from headrace.store.clock import clock
from headrace.store.tables import results, statements

SWEEP = {"sweep": "50ms"}
UNKNOWN = f"st_{'0' * 32}-1-1"


def delete_abandoned(node: InProcessNode) -> int:
    # The node itself looks for the same files.
    node.node._retention.stop()
    pool = WorkerPool("leftovers-test", threads=1, seconds=30)
    return AbandonedResults(node.node.context, pool).run()


def kill_first_attempt(node: InProcessNode) -> tuple[str, ScriptedDriver, str]:
    """Run a query whose first driver dies; return the session, the next driver, and the query."""
    session_id, driver = node.start_session()
    query = node.submit(session=session_id)["id"]
    driver.claim()
    node.launcher.report_exit(session_id, "killed by SIGKILL")
    second = node.launcher.connect_driver(session_id, launch=2)
    second.hello()
    second.claim()
    second.succeed(query)
    return session_id, second, query


def age_statements(node: InProcessNode) -> None:
    """Date the end of all statements back beyond the grace period."""
    with node.database.write("test.age") as tx:
        tx.execute(update(statements).values(ended_at=clock(-3600)))


@pytest.mark.finding("B10")
def test_result_files_of_a_killed_attempt_are_deleted_after_a_while(start_node: StartNode) -> None:
    node = start_node(lease=SWEEP)
    location = Path(node.node.settings.results_location)
    _, _, query = kill_first_attempt(node)
    killed, current = location / f"{query}-1-1", location / f"{query}-3-2"
    others = [location / UNKNOWN, location / "notes", location / f"{query}-1"]
    for folder in (killed, current, *others):
        folder.mkdir(parents=True)
        (folder / "part-1.arrow").touch()
    assert delete_abandoned(node) == 0
    age_statements(node)
    assert delete_abandoned(node) == 1
    assert not killed.exists()
    # The driver of the second attempt lives. The others are no attempts of this store.
    assert all(folder.exists() for folder in (current, *others))


def test_files_of_killed_attempts_in_an_allowed_location_are_deleted(
    start_node: StartNode, tmp_path: Path
) -> None:
    missing, file, shared = tmp_path / "missing", tmp_path / "file", tmp_path / "shared"
    file.touch()
    # The file cannot be listed, which must not stop the search of the location after it.
    allowed = [str(missing), str(file), f"{shared}/"]
    node = start_node(lease=SWEEP, results={"allowed": allowed})
    _, _, query = kill_first_attempt(node)
    killed, current, foreign = (shared / name for name in (f"{query}-1-1", f"{query}-3-2", UNKNOWN))
    for folder in (killed, current, foreign):
        folder.mkdir(parents=True)
        (folder / "part-1.arrow").touch()
    age_statements(node)
    assert delete_abandoned(node) == 1
    assert not killed.exists()
    assert current.exists()
    assert foreign.exists()
    assert file.exists()


@pytest.mark.finding("B10")
def test_the_files_of_a_result_are_never_taken_for_those_of_a_killed_attempt(
    start_node: StartNode,
) -> None:
    node = start_node(lease=SWEEP)
    location = Path(node.node.settings.results_location)
    session_id, second, query = kill_first_attempt(node)
    stored = location / f"{query}-3-2"
    stored.mkdir(parents=True)
    with node.database.write("test.store") as tx:
        tx.execute(update(results).values(location=str(stored)))
    node.http.delete(f"/api/v1/sessions/{session_id}")
    second.goodbye()
    wait_until(lambda: node.session_state(session_id) == "dead", what="its process is gone")
    age_statements(node)
    assert delete_abandoned(node) == 0
    with node.database.write("test.forget") as tx:
        tx.execute(update(results).values(location=None))
    assert delete_abandoned(node) == 1
    assert not stored.exists()


@pytest.mark.finding("S10")
def test_temporary_folders_of_drivers_that_ended_by_themselves_are_deleted(
    start_node: StartNode,
) -> None:
    node = start_node(lease=SWEEP)
    layout = node.node.settings.layout
    session_id, _, _ = kill_first_attempt(node)
    ended, live = (layout.temporary / f"headrace-{session_id}-{epoch}" for epoch in (1, 3))
    foreign = layout.temporary / f"headrace-se_{'0' * 32}-1"
    for folder in (ended, live, foreign):
        (folder / "blockmgr").mkdir(parents=True)
    task = AbandonedFolders(node.node.context)
    bootstrap = str(layout.drivers / f"{ended.name}.json")
    with subprocess.Popen(
        [sys.executable, "-c", "input()", bootstrap],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        # The driver has said goodbye, but its process still stops.
        task.run()
        assert ended.exists()
        process.communicate(b"\n")
    task.run()
    assert not ended.exists()
    assert live.exists()
    assert foreign.exists()


def write_driver_files(layout: HomeLayout, session_id: str, epoch: int = 1) -> list[Path]:
    """Write what the drivers of a session leave on their host if no node there has ended them."""
    name = f"headrace-{session_id}-{epoch}"
    files = [
        layout.temporary / name / "blockmgr",
        layout.drivers / f"{name}.json",
        layout.drivers / f".{name}.json.0a1b2c3d",
        layout.submitted / f"{name}.properties",
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return files


def end_session(node: InProcessNode) -> str:
    """Return a session that has ended just now."""
    session_id, driver = node.start_session()
    node.http.delete(f"/api/v1/sessions/{session_id}")
    driver.goodbye()
    wait_until(lambda: node.session_state(session_id) == "dead", what="the session ends")
    return session_id


@pytest.mark.parametrize("kept", [None, "tmp", "drivers", "submitted"])
def test_all_files_of_drivers_of_dead_sessions_are_deleted(
    start_node: StartNode, kept: str | None
) -> None:
    """A node of another host has taken over the sessions, and cannot reach these files."""
    node = start_node(lease=SWEEP)
    layout = node.node.settings.layout
    dead = write_driver_files(layout, end_session(node))
    for file in dead:
        if kept not in {None, file.relative_to(layout.path).parts[0]}:
            file.unlink()
    live_id, _driver = node.start_session()
    live = write_driver_files(layout, live_id)
    AbandonedFolders(node.node.context).run()
    assert [file for file in dead if file.exists()] == []
    assert [file for file in live if not file.exists()] == []


def test_a_node_deletes_files_of_dead_sessions_at_its_start_and_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path, lease=SWEEP)
    with serve_node(settings) as node:
        session_id = end_session(node)
    first = write_driver_files(settings.layout, session_id)
    monkeypatch.setattr(retention, "_EVERY_SECONDS", 3600)
    with serve_node(settings):
        wait_until(lambda: not any(file.exists() for file in first), what="the start")
    monkeypatch.setattr(retention, "_EVERY_SECONDS", 0.05)
    with serve_node(settings) as node:
        second = write_driver_files(settings.layout, end_session(node))
        wait_until(lambda: not any(file.exists() for file in second), what="the next round")


def test_the_temporary_folder_of_an_early_driver_without_a_session_is_deleted_later(
    start_node: StartNode,
) -> None:
    node = start_node(lease={**SWEEP, "orphan": "10m"})
    folder = node.node.settings.layout.temporary / f"headrace-se_{'0' * 32}-1"
    folder.mkdir(parents=True)
    task = AbandonedFolders(node.node.context)
    os.utime(folder, (time.time() - 500,) * 2)
    task.run()
    assert folder.exists()
    os.utime(folder, (time.time() - 700,) * 2)
    task.run()
    assert not folder.exists()


def test_a_slow_deletion_of_a_temporary_folder_delays_no_other_work(
    start_node: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    resume, begun = threading.Event(), threading.Event()

    def delete_slowly(*_arguments: object) -> None:
        begun.set()
        resume.wait(30)

    monkeypatch.setattr(TemporaryFolders, "remove", delete_slowly)
    monkeypatch.setattr(retention, "_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(periodic_tasks, "_STOP_SECONDS", 1)
    node = start_node(lease=SWEEP)
    session_id, second, _ = kill_first_attempt(node)
    folder = node.node.settings.layout.temporary / f"headrace-{session_id}-1"
    folder.mkdir(parents=True)
    try:
        assert begun.wait(60)
        node.http.delete(f"/api/v1/sessions/{session_id}")
        second.goodbye()
        wait_until(lambda: node.session_state(session_id) == "dead", what="sweeps continue")
    finally:
        resume.set()
