"""Jobs that new files start, in a store: each file is read by one run, whatever dies."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update
from tests.support.batch_jobs import insert_batch_job
from tests.support.listed_files import register_watcher
from tests.support.waiting import wait_until

from headrace.control.jobs import file_watches as module
from headrace.control.jobs.batch_plans import start_schedule, stop_schedule
from headrace.control.jobs.file_watches import FileWatches
from headrace.control.jobs.live_runs import start_next
from headrace.errors import StoreUnavailable
from headrace.model.lifecycle import RunState
from headrace.model.run import FileState, FiringRules, JobRun, Overlap, UsedFile
from headrace.model.schedule import Schedule
from headrace.store.clock import clock
from headrace.store.database import Database
from headrace.store.jobs import file_watches, jobs, runs, schedules
from headrace.store.tables import nodes, used_files

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
SETTLE, POLL = 5.0, 10.0


class Watched:
    """A directory, a job that follows its files, and nodes whose clock the test moves."""

    def __init__(self, store: Database, root: Path) -> None:
        self.store, self.root = store, root
        self.directory = root / "in"
        self.directory.mkdir()
        self.seconds = 0.0
        self.allowed = {str(root): ["ada"]}
        self.nodes: dict[str, FileWatches] = {}
        self.node = self.add_node("no_1")
        self.job_id = ""

    def add_node(self, node_id: str) -> FileWatches:
        watches = register_watcher(
            self.store, self.root / "home", self.allowed, lambda: self.seconds, node_id=node_id
        )
        self.nodes[node_id] = watches
        return watches

    def deploy(self, **schedule: Any) -> None:
        """Deploy the job, or a change of its schedule."""
        rule = Schedule(**{"on_files": str(self.directory), **schedule})
        rules = FiringRules(schedule=rule, overlap=Overlap.QUEUE)
        if not self.job_id:
            self.job_id = insert_batch_job(self.store, rules, cursor=NOON)
        with self.store.write("test") as tx:
            job = jobs.get(tx, self.job_id)
            assert job is not None
            version = jobs.get_version(tx, self._find_version())
            assert version is not None
            assert version.spec.batch is not None
            batch = version.spec.batch.model_copy(update={"rules": rules})
            spec = version.spec.model_copy(update={"batch": batch})
            start_schedule(tx, job, SimpleNamespace(id=version.id, spec=spec))  # type: ignore[arg-type]

    def _find_version(self) -> str:
        with self.store.read() as tx:
            schedule = module.schedules.find(tx, self.job_id)
        assert schedule is not None
        return schedule.version_id

    def stop(self, *, is_deleted: bool = False) -> None:
        with self.store.write("test") as tx:
            job = jobs.get(tx, self.job_id)
            assert job is not None
            stop_schedule(tx, job, is_deleted=is_deleted, actor="ada")

    def write(self, name: str, content: str = "row") -> Path:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def poll(self, times: int = 1, node: FileWatches | None = None) -> list[list[str]]:
        """Let a node list the files this number of times. Return the files of all runs."""
        for _ in range(times):
            self.seconds += POLL
            (node or self.node).run()
        return self.files()

    def list_runs(self) -> list[JobRun]:
        with self.store.read() as tx:
            return runs.page(tx, owners=None, job_id=self.job_id, limit=500)[::-1]

    def files(self) -> list[list[str]]:
        start = f"file:{self.directory}/"
        with self.store.read() as tx:
            return [
                [uri.removeprefix(start) for uri in file_watches.list_run_files(tx, run.id)]
                for run in self.list_runs()
            ]

    def begin(self) -> None:
        """Let all due runs succeed."""
        for run in self.list_runs():
            if run.state is RunState.DUE:
                with self.store.write("test") as tx:
                    runs.begin_attempt(tx, run, position=0, connection_id="cn_x", actor="test")
                    begun = runs.lock(tx, run.id)
                    assert begun is not None
                    runs.end(tx, begun, RunState.SUCCEEDED, actor="test")
                    start_next(tx, run.job_id, actor="test")

    def problem(self) -> str | None:
        with self.store.read() as tx:
            return file_watches.find_problem(tx, self.job_id)

    def end_lease(self, node_id: str) -> None:
        with self.store.write("test") as tx:
            tx.execute(update(nodes).where(nodes.c.id == node_id).values(lease_until=clock(-1)))

    def count_used(self) -> int:
        with self.store.read() as tx:
            return len(tx.execute(used_files.select()).all())


@pytest.fixture
def watched(store: Database, tmp_path: Path) -> Watched:
    return Watched(store, tmp_path)


def test_files_that_have_settled_start_one_run_that_names_them(watched: Watched) -> None:
    watched.write("b.json")
    watched.write("day=1/a b.json")
    watched.deploy()
    assert watched.poll() == []
    assert watched.poll() == [["b.json", "day=1/a%20b.json"]]
    [run] = watched.list_runs()
    [named] = run.inputs
    assert (named.location, named.file_count) == (str(watched.directory), 2)
    assert (run.state, run.trigger, run.has_turn) == (RunState.DUE, "condition", True)
    watched.begin()
    assert len(watched.poll(3)) == 1
    watched.write("c.json")
    assert watched.poll(2)[1:] == [["c.json"]]
    assert watched.list_runs()[1].times.interval_start == run.times.logical_time


def test_a_file_counts_when_it_has_not_changed_for_the_settle_time(watched: Watched) -> None:
    watched.deploy(settle=timedelta(seconds=25))
    file = watched.write("a.json", "")
    watched.poll(5)
    for size in range(1, 6):
        file.write_text("x" * size)
        assert watched.poll() == []
    assert watched.poll(2) == []
    assert watched.poll() == [["a.json"]]


def test_an_empty_file_and_temporary_ones_are_left_out(watched: Watched) -> None:
    watched.deploy(pattern="*.json*")
    for name in ("_a.json", ".b.json", "c.json.tmp", "_temporary/d.json", ".e/f.json", "g.csv"):
        watched.write(name)
    watched.write("empty.json", "")
    (watched.directory / "link.json").symlink_to(watched.write("h.json"))
    (watched.directory / "folder.json").mkdir()
    os.mkfifo(watched.directory / "pipe.json")
    (Path(os.fsdecode(os.fsencode(watched.directory) + b"/\xff.json"))).write_text("row")
    assert watched.poll(3) == [["h.json"]]


def test_a_file_that_gets_its_name_when_it_is_complete_counts_once(watched: Watched) -> None:
    watched.deploy()
    watched.write("a.json.tmp").rename(watched.directory / "a.json")
    assert watched.poll(2) == [["a.json"]]
    watched.begin()
    (watched.directory / "a.json").rename(watched.directory / "b.json")
    assert len(watched.poll(3)) == 1
    assert watched.count_used() == 1
    watched.write("b.json", "other")
    assert watched.poll(2)[1:] == [["b.json"]]


def test_a_file_that_is_written_again_counts_again(watched: Watched) -> None:
    watched.deploy()
    file = watched.write("a.json", "one")
    # The clock of a file system may stand still for longer than all steps of the test.
    os.utime(file, (0, 0))
    watched.poll(2)
    watched.begin()
    file.write_text("two")
    assert watched.poll(2) == [["a.json"], ["a.json"]]


@pytest.mark.parametrize("seconds", [0, 4_000_000_000], ids=["1970", "2096"])
def test_the_age_of_a_file_does_not_matter(watched: Watched, seconds: int) -> None:
    watched.deploy()
    watched.write("a.json")
    watched.poll(2)
    watched.begin()
    os.utime(watched.write("b.json"), (seconds, seconds))
    assert watched.poll(2)[1:] == [["b.json"]]


def test_a_marker_completes_a_directory_and_those_below(watched: Watched) -> None:
    watched.deploy(marker="_SUCCESS")
    watched.write("one/a.json")
    watched.write("one/day=1/b.json")
    watched.write("two/c.json")
    assert watched.poll(3) == []
    watched.write("one/_SUCCESS", "")
    # The files may be older than the marker in the list that shows it first.
    assert watched.poll() == []
    assert watched.poll() == [["one/a.json", "one/day=1/b.json"]]


def test_files_that_arrive_during_a_run_are_read_by_one_run_after_it(watched: Watched) -> None:
    watched.deploy()
    for name in ("a", "b", "c"):
        watched.write(name)
        watched.poll(2)
    assert watched.files() == [["a"]]
    watched.begin()
    assert watched.poll() == [["a"], ["b", "c"]]


def test_the_files_of_a_run_are_bounded_and_the_oldest_come_first(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    watched.deploy()
    for name in ("d", "e", "f"):
        watched.write(name)
    watched.poll()
    watched.write("a")
    watched.poll(2)
    for _ in range(3):
        watched.begin()
        watched.poll()
    assert watched.files() == [["d", "e"], ["f", "a"]]
    monkeypatch.setattr(module, "_MOST_PATH_BYTES", 10)
    watched.write("x" * 20)
    watched.write("y")
    watched.begin()
    watched.poll(2)
    watched.begin()
    assert watched.poll()[2:] == [["x" * 20], ["y"]]


def test_a_location_with_too_many_files_waits_and_says_so(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 3)
    for name in ("a", "b", "_c", "d"):
        watched.write(name)
    watched.deploy()
    assert watched.poll(3) == []
    assert "has more than 3 files and directories. Move files" in (watched.problem() or "")
    (watched.directory / "_c").unlink()
    watched.seconds += 300
    assert watched.poll(2) == [["a", "b", "d"]]
    assert watched.problem() is None


def test_a_location_that_vanishes_is_reported_once_and_its_files_stay_used(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.write("a")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    away = watched.directory.rename(watched.root / "away")
    watched.poll(40)
    assert watched.problem() == f"The location {watched.directory} does not exist."
    assert [each.name for each in caplog.records].count("headrace.schedules") == 1
    # A file system that is not mounted leaves an empty directory.
    watched.directory.mkdir()
    watched.seconds += 300
    watched.poll(3)
    watched.directory.rmdir()
    away.rename(watched.directory)
    assert watched.poll(40) == [["a"]]
    assert watched.problem() is None
    assert [each.name for each in caplog.records].count("headrace.schedules") == 1


def test_a_file_system_that_does_not_answer_is_not_asked_again_meanwhile(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), []

    def hang(location: str, **_limits: object) -> list[Any]:
        asked.append(location)
        assert answers.wait(60)
        return []

    monkeypatch.setattr(module, "list_files", hang)
    monkeypatch.setattr(module, "_LIST_SECONDS", 0.05)
    node = watched.add_node("no_1")
    watched.deploy()
    watched.poll(1, node)
    assert "did not answer within" in (watched.problem() or "")
    watched.poll(9, node)
    assert "does not answer" in (watched.problem() or "")
    assert len(asked) == 1
    answers.set()
    watched.seconds += 300

    def has_recovered() -> bool:
        watched.seconds += 300
        watched.poll(1, node)
        return watched.problem() is None

    wait_until(has_recovered)


def test_many_files_of_a_directory_that_is_renamed_are_not_read_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        watched.write(f"one/{number}")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    monkeypatch.setattr(module, "MOST_FILES", 2)
    (watched.directory / "one").rename(watched.directory / "two")
    assert len(watched.poll(6)) == 1
    watched.write("two/0", "other")
    assert watched.poll(2)[1:] == [["two/0"]]
    assert watched.count_used() == 5


def test_files_that_have_vanished_for_a_day_are_forgotten(watched: Watched) -> None:
    watched.write("a")
    file = watched.write("b")
    watched.deploy()
    watched.poll(2)
    file.unlink()
    watched.poll(2)
    assert watched.count_used() == 2
    watched.seconds += 24 * 3600
    watched.poll()
    assert watched.count_used() == 1


def test_failures_are_tried_again_less_and_less_often(watched: Watched) -> None:
    shutil.rmtree(watched.directory)
    watched.deploy()
    listed = []
    original = module.list_files
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module,
            "list_files",
            lambda *given, **more: (listed.append(watched.seconds), original(*given, **more)),
        )
        watched.poll(100)
    pauses = [later - before for before, later in pairwise(listed)]
    assert pauses[:6] == [20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize("allowed", [{}, {"/elsewhere": ["*"]}], ids=["none", "other"])
def test_a_location_that_the_owner_may_not_follow_is_not_listed(
    watched: Watched, allowed: dict[str, list[str]]
) -> None:
    watched.write("a")
    watched.allowed = allowed
    node = watched.add_node("no_1")
    watched.deploy()
    assert watched.poll(3, node) == []
    assert "may not follow the files" in (watched.problem() or "")


def test_a_link_from_an_allowed_location_does_not_lead_elsewhere(
    watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "a").write_text("row")
    watched.directory.rmdir()
    watched.directory.symlink_to(other)
    watched.deploy()
    assert watched.poll(3) == []
    assert "may not follow the files" in (watched.problem() or "")


def test_a_list_without_a_change_writes_nothing(watched: Watched) -> None:
    watched.write("a")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    watched.poll()
    written = list[str]()
    original = watched.store.write

    def note(name: str) -> Any:
        written.append(name)
        return original(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watched.store, "write", note)
        watched.poll(5)
        assert written == []
        watched.write("b")
        watched.poll(2)
        assert written == ["files.record"]


def test_another_node_takes_over_when_the_lease_of_the_first_has_expired(watched: Watched) -> None:
    second = watched.add_node("no_2")
    watched.write("a")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    watched.write("b")
    assert watched.poll(3, second) == [["a"]]
    watched.end_lease("no_1")
    assert watched.poll(1, second) == [["a"]]
    # The first node continues with an old list.
    watched.poll(2)
    assert watched.poll(1, second) == [["a"], ["b"]]
    watched.begin()
    watched.poll(2)
    assert watched.poll(2, second) == [["a"], ["b"]]


def test_a_node_that_lists_while_another_takes_over_changes_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = watched.add_node("no_2")
    watched.write("a")
    watched.deploy()
    watched.poll()
    original = module.list_files

    def list_slowly(*given: Any, **more: Any) -> Any:
        found = original(*given, **more)
        monkeypatch.setattr(module, "list_files", original)
        watched.end_lease("no_1")
        second.run()
        return found

    monkeypatch.setattr(module, "list_files", list_slowly)
    assert watched.poll() == []
    assert watched.poll(1, second) == [["a"]]


def test_nodes_that_claim_at_the_same_time_start_one_run(watched: Watched) -> None:
    watched.write("a")
    watched.deploy()
    several = [watched.node, *(watched.add_node(f"no_{number}") for number in (2, 3, 4))]
    with ThreadPoolExecutor(len(several)) as pool:
        for _ in range(4):
            watched.seconds += POLL
            list(pool.map(lambda node: node.run(), several))
    assert watched.files() == [["a"]]


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "rolled back"])
def test_a_lost_connection_neither_loses_nor_doubles_a_file(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    watched.write("a")
    watched.deploy()
    watched.poll()
    original = watched.store.write

    def lose(name: str, *more: Any, **given: Any) -> Any:
        if name != "files.record":
            return original(name, *more, **given)
        return _lose(original(name), is_committed=is_committed)

    with monkeypatch.context() as patch:
        patch.setattr(watched.store, "write", lose)
        watched.poll()
    watched.begin()
    watched.poll(3)
    assert watched.files() == [["a"]]


class _lose:  # noqa: N801 - a context manager
    """A transaction whose end the node does not hear of."""

    def __init__(self, transaction: Any, *, is_committed: bool) -> None:
        self._transaction, self._is_committed = transaction, is_committed

    def __enter__(self) -> Any:
        return self._transaction.__enter__()

    def __exit__(self, *_error: object) -> None:
        lost = StoreUnavailable("The connection is lost.")
        if self._is_committed:
            self._transaction.__exit__(None, None, None)
        else:
            self._transaction.__exit__(StoreUnavailable, lost, None)
        raise lost


def test_a_stopped_job_reads_at_its_start_what_has_arrived(watched: Watched) -> None:
    watched.write("a")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    watched.stop()
    watched.write("b")
    assert watched.poll(3) == [["a"]]
    watched.deploy()
    assert watched.poll(2) == [["a"], ["b"]]


def test_a_changed_schedule_keeps_what_is_used_unless_the_location_is_another(
    watched: Watched,
) -> None:
    watched.write("a.json")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    watched.deploy(pattern="*.json", poll=timedelta(seconds=1))
    assert watched.poll(3) == [["a.json"]]
    other = shutil.copytree(watched.directory, watched.root / "other")
    watched.deploy(on_files=str(other))
    assert len(watched.poll(3)) == 2
    watched.begin()
    watched.deploy(on_files=None, every=timedelta(hours=1))
    assert watched.count_used() == 0


def test_a_deleted_job_follows_no_files(watched: Watched) -> None:
    watched.write("a")
    watched.deploy()
    watched.poll(2)
    watched.begin()
    watched.stop(is_deleted=True)
    watched.write("b")
    assert watched.poll(3) == [["a"]]
    assert watched.count_used() == 0


@pytest.mark.postgres
def test_a_run_for_new_files_and_a_change_of_the_job_do_not_wait_for_each_other(
    postgres_url: str,
) -> None:
    store = Database.open(postgres_url)
    rules = FiringRules(schedule=Schedule(on_files="/in"), overlap=Overlap.QUEUE)
    job_id = insert_batch_job(store, rules, cursor=NOON)
    is_locked = threading.Event()

    def change() -> None:
        with store.write("test") as tx:
            assert jobs.lock(tx, job_id) is not None
            is_locked.set()
            schedules.lock(tx, job_id)

    with ThreadPoolExecutor(1) as other:
        with store.write("test") as tx:
            assert schedules.lock(tx, job_id) is not None
            changed = other.submit(change)
            assert is_locked.wait(30)
            file_watches.use(tx, job_id, {"key": UsedFile(FileState(1, "a"), "rn_x")})
        changed.result()
    store.close()
