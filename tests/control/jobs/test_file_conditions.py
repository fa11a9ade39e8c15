"""New files together with other conditions of a schedule, in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.followed_jobs import DUE, FAILED, SKIPPED, SUCCEEDED, FollowedJobs
from tests.support.listed_files import register_watcher

from headrace.control.jobs import file_watches as module
from headrace.control.jobs.clock_conditions import describe_unmet
from headrace.model.run import CatchUp, RunTrigger
from headrace.model.schedule import Schedule
from headrace.store.database import Database
from headrace.store.jobs import file_watches, schedules, triggers

POLL = 10.0
CHANGE = {"on-change": ["d.t"], "settle": "0s"}


class ReadingJobs(FollowedJobs):
    """Several jobs, and a node that lists the files of one directory. The job `read` reads them."""

    def __init__(self, store: Database, root: Path) -> None:
        super().__init__(store)
        self.directory = root / "in"
        self.directory.mkdir()
        self._seconds = 0.0
        home, allowed = root / "home", {str(root): ["ada"]}
        self._node = register_watcher(store, home, allowed, lambda: self._seconds)
        for name in ("load", "other"):
            self.add(name)
        with store.write("test") as tx:
            # The test inserts their runs.
            for name in ("load", "other"):
                schedules.pause(tx, self.ids[name])

    @property
    def files_condition(self) -> dict[str, str]:
        return {"on-files": str(self.directory)}

    def add_reader(self, schedule: dict[str, Any], **rules: Any) -> None:
        """Add the job `read`."""
        self.add("read", schedule=Schedule.model_validate(schedule), **rules)
        with self.store.write("test") as tx:
            file_watches.save(tx, self.ids["read"])

    def with_files(self, *others: Any) -> dict[str, Any]:
        """Return a schedule that needs new files and other conditions."""
        return {"all": [self.files_condition, *others]}

    def write(self, *names: str) -> None:
        """Write files, and let them settle."""
        for name in names:
            (self.directory / name).write_text("row")
        self.poll()
        self.poll()

    def poll(self) -> None:
        self._seconds += POLL
        self._node.run()

    def stop(self) -> None:
        with self.store.write("test") as tx:
            triggers.pause(tx, self.ids["read"])
            file_watches.pause(tx, self.ids["read"])

    def start(self) -> None:
        with self.store.write("test") as tx:
            triggers.save(tx, self.ids["read"], owner="ada", sources=[], keeps=True)
            file_watches.save(tx, self.ids["read"])

    def reads(self) -> list[tuple[int, str, str]]:
        """Return hour, state and files of each run of `read`; `waits` is a state, too."""
        start = f"file:{self.directory}/"
        summary = []
        for (hour, state), run in zip(self.states("read"), self.list("read"), strict=True):
            with self.store.read() as tx:
                uris = file_watches.list_run_files(tx, run.id)
            names = " ".join(uri.removeprefix(start) for uri in uris)
            waits = run.awaits_conditions and state is DUE
            summary.append((hour, "waits" if waits else state, names))
        return summary

    def end_last(self) -> None:
        self.end(self.list("read")[-1].id)

    def unmet(self) -> list[str]:
        """Return what the runs of `read` wait for."""
        waiting = [run for run in self.list("read") if run.awaits_conditions]
        with self.store.read() as tx:
            return list(describe_unmet(tx, waiting).values())


@pytest.fixture
def jobs(store: Database, tmp_path: Path) -> ReadingJobs:
    return ReadingJobs(store, tmp_path)


def test_the_time_of_a_clock_reads_the_files_that_have_come_before_it(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}))
    jobs.write("a", "b")
    assert jobs.reads() == []
    jobs.fire("read", 1)
    assert jobs.reads() == [(1, "waits", "")]
    assert jobs.unmet() == [f"new files in {jobs.directory}"]
    jobs.poll()
    assert jobs.reads() == [(1, DUE, "a b")]
    [run] = jobs.list("read")
    assert (run.trigger, run.has_turn) == (RunTrigger.SCHEDULE, True)
    assert [(each.location, each.file_count) for each in run.inputs] == [(str(jobs.directory), 2)]
    jobs.end_last()
    jobs.fire("read", 2)
    jobs.poll()
    assert jobs.reads()[1:] == [(2, "waits", "")]
    jobs.write("c")
    assert jobs.reads()[1:] == [(2, DUE, "c")]


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        (CatchUp.ALL, [(1, DUE, "a"), (2, "waits", ""), (3, "waits", "")]),
        (CatchUp.LAST, [(1, SKIPPED, ""), (2, SKIPPED, ""), (3, DUE, "a")]),
    ],
    ids=["all", "last"],
)
def test_files_that_come_late_are_read_by_one_of_the_times_that_wait(
    jobs: ReadingJobs, catch_up: CatchUp, expected: list[tuple[int, str, str]]
) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}), catch_up=catch_up)
    jobs.fire("read", 3)
    jobs.write("a")
    assert jobs.reads() == expected


def test_files_and_a_run_of_another_job_start_a_run_in_either_order(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files({"after": ["load"]}))
    jobs.write("a")
    assert jobs.reads() == []
    jobs.run("load", 1)
    jobs.poll()
    assert jobs.reads() == [(1, DUE, "a")]
    [run] = jobs.list("read")
    assert [each.job or each.location for each in run.inputs] == ["load", str(jobs.directory)]
    jobs.end_last()
    jobs.run("load", 2)
    jobs.run("load", 3)
    jobs.poll()
    assert len(jobs.reads()) == 1
    # One run uses both ends, because it reads all files.
    jobs.write("b")
    assert jobs.reads()[1:] == [(3, DUE, "b")]


def test_a_run_of_another_job_that_fails_is_a_skipped_run_and_leaves_the_files(
    jobs: ReadingJobs,
) -> None:
    jobs.add_reader(jobs.with_files({"after": ["load"]}))
    jobs.write("a")
    jobs.run("load", 1, FAILED)
    jobs.poll()
    assert jobs.reads() == [(1, SKIPPED, "")]
    jobs.run("load", 2)
    jobs.poll()
    assert jobs.reads()[1:] == [(2, DUE, "a")]


def test_a_run_that_is_skipped_because_the_job_was_stopped_leaves_the_files(
    jobs: ReadingJobs,
) -> None:
    jobs.add_reader(jobs.with_files({"after": ["load"]}), catch_up=CatchUp.NONE)
    jobs.stop()
    jobs.write("a")
    jobs.run("load", 1)
    jobs.poll()
    assert jobs.reads() == []
    jobs.start()
    jobs.write("b")
    assert jobs.reads() == [(1, SKIPPED, "")]
    jobs.run("load", 2)
    jobs.poll()
    assert jobs.reads()[1:] == [(2, DUE, "a b")]


def test_files_and_a_change_of_a_table_start_a_run_together(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files(CHANGE))
    jobs.write("a")
    assert jobs.reads() == []
    changed = jobs.change()
    jobs.poll()
    [run] = jobs.list("read")
    assert jobs.reads() == [(run_hour(jobs), DUE, "a")]
    assert [each.last_transaction for each in run.inputs if each.table] == [changed]
    jobs.end_last()
    jobs.write("b")
    assert len(jobs.reads()) == 1


def run_hour(jobs: ReadingJobs) -> int:
    """Return the hour of the first run of `read`, which starts now."""
    return jobs.states("read")[0][0]


def test_a_combination_with_files_takes_nothing_from_another_one(jobs: ReadingJobs) -> None:
    with_load = jobs.with_files({"after": ["load"]})
    jobs.add_reader({"any": [with_load, {"after": ["other"]}]})
    load = jobs.begin("load", 1)
    other = jobs.begin("other", 2)
    jobs.end(load)
    jobs.end(other)
    jobs.write("a")
    assert sorted(jobs.reads()) == [(1, DUE, "a"), (2, DUE, "")]


def test_files_are_not_added_to_a_run_that_may_begin_meanwhile(jobs: ReadingJobs) -> None:
    either = {"any": [jobs.files_condition, {"after": ["load"]}]}
    jobs.add_reader({"all": [{"every": "1h"}, either]})
    jobs.fire("read", 1)
    jobs.run("load", 1)
    jobs.follow()
    jobs.write("a")
    assert jobs.reads() == [(1, DUE, "")]
    jobs.end_last()
    jobs.fire("read", 2)
    jobs.poll()
    assert jobs.reads()[1:] == [(2, DUE, "a")]


def test_files_start_a_run_beside_the_one_that_another_condition_has_started(
    jobs: ReadingJobs,
) -> None:
    jobs.add_reader({"any": [jobs.files_condition, {"after": ["load"]}]})
    jobs.run("load", 1)
    jobs.follow()
    jobs.write("a")
    assert sorted(files for _hour, _state, files in jobs.reads()) == ["", "a"]


def test_more_files_than_one_run_reads_wait_until_all_conditions_are_met_again(
    jobs: ReadingJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 2)
    jobs.add_reader(jobs.with_files({"after": ["load"]}))
    jobs.write("a", "b", "c")
    jobs.run("load", 1)
    jobs.poll()
    jobs.end_last()
    jobs.poll()
    assert jobs.reads() == [(1, SUCCEEDED, "a b")]
    jobs.run("load", 2)
    jobs.poll()
    assert jobs.reads()[1:] == [(2, DUE, "c")]


def test_a_time_that_runs_again_reads_its_own_files_and_leaves_new_ones_to_the_next(
    jobs: ReadingJobs,
) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}, {"after": ["load"]}))
    jobs.run("load", 1)
    jobs.fire("read", 1)
    jobs.write("a")
    jobs.end_last()
    jobs.run("load", 1)
    assert jobs.reads() == [(1, SUCCEEDED, "a"), (1, DUE, "a")]
    jobs.end_last()
    jobs.write("b")
    assert len(jobs.reads()) == 2
    jobs.run("load", 2)
    jobs.fire("read", 2)
    jobs.poll()
    assert jobs.reads()[2:] == [(2, DUE, "b")]


def test_a_run_of_another_job_that_runs_again_starts_one_with_the_same_files(
    jobs: ReadingJobs,
) -> None:
    jobs.add_reader(jobs.with_files({"after": ["load"]}))
    jobs.run("load", 1)
    jobs.write("a")
    jobs.end_last()
    jobs.run("load", 1)
    jobs.write("b")
    assert jobs.reads() == [(1, SUCCEEDED, "a"), (1, DUE, "a")]
    [run] = [run for run in jobs.list("read") if run.repetition]
    assert [each.job or each.location for each in run.inputs] == ["load", str(jobs.directory)]
    jobs.end_last()
    jobs.run("load", 2)
    jobs.poll()
    assert jobs.reads()[2:] == [(2, DUE, "b")]


def test_a_repetition_that_is_skipped_keeps_its_files_for_the_next_one(jobs: ReadingJobs) -> None:
    with_load = jobs.with_files({"after": ["load"]})
    jobs.add_reader({"any": [with_load, jobs.with_files({"every": "1h"})]}, catch_up=CatchUp.NONE)
    jobs.run("load", 1)
    jobs.write("a")
    jobs.end_last()
    jobs.stop()
    jobs.run("load", 1)
    jobs.start()
    assert jobs.reads() == [(1, SUCCEEDED, "a"), (1, SKIPPED, "a")]
    # The time of the clock has a run already.
    jobs.fire("read", 1)
    jobs.write("b")
    assert len(jobs.reads()) == 2
    jobs.run("load", 1)
    assert jobs.reads()[2:] == [(1, DUE, "a")]


def test_a_lookback_reads_the_files_of_each_time_again(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}), lookback=1)
    jobs.fire("read", 1)
    jobs.write("a")
    jobs.end_last()
    jobs.fire("read", 2)
    jobs.write("b")
    assert sorted(jobs.reads()) == [(1, DUE, "a"), (1, SUCCEEDED, "a"), (2, DUE, "b")]


def test_files_start_the_time_that_waits_for_other_conditions_at_the_logical_time_of_a_run(
    jobs: ReadingJobs,
) -> None:
    with_load = jobs.with_files({"after": ["load"]})
    jobs.add_reader({"any": [{"all": [{"every": "1h"}, CHANGE]}, with_load]})
    jobs.fire("read", 1)
    jobs.run("load", 1)
    jobs.follow()
    assert jobs.reads() == [(1, "waits", "")]
    jobs.write("a")
    assert jobs.reads() == [(1, DUE, "a")]


def test_only_the_missed_runs_of_other_jobs_are_skipped(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files({"after": ["load"]}), catch_up=CatchUp.NONE)
    jobs.stop()
    jobs.run("load", 1)
    jobs.start()
    jobs.run("load", 2)
    jobs.write("a")
    assert jobs.reads() == [(1, SKIPPED, ""), (2, DUE, "a")]


def test_files_start_a_run_although_many_times_wait_for_other_conditions(
    jobs: ReadingJobs,
) -> None:
    waiting = {"all": [{"every": "1h"}, {"after": ["load"]}]}
    jobs.add_reader({"any": [jobs.files_condition, waiting]}, catch_up=CatchUp.ALL)
    assert jobs.fire("read", 100) == 100
    jobs.write("a")
    assert [files for _hour, state, files in jobs.reads() if state == DUE] == ["a"]


def test_a_time_says_everything_that_it_may_wait_for(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}, {"after": ["load"]}))
    jobs.fire("read", 1)
    assert jobs.unmet() == ["a run of load"]
    jobs.run("load", 0.5)
    jobs.begin("load", 1, hours=0.5)
    runs_of_load = "runs of load for its interval that have not ended"
    assert jobs.unmet() == [f"{runs_of_load}, or new files in {jobs.directory}"]


@pytest.mark.parametrize("is_stopped", [False, True], ids=["redeployed", "stopped"])
def test_a_time_that_waits_reads_files_after_a_deployment_or_a_stop_of_its_job(
    jobs: ReadingJobs, is_stopped: bool
) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}))
    jobs.fire("read", 1)
    if is_stopped:
        jobs.stop()
        jobs.write("a")
        assert jobs.reads() == [(1, "waits", "")]
    jobs.start()
    jobs.write("a")
    assert jobs.reads() == [(1, DUE, "a")]


def test_files_pass_a_time_that_a_user_has_cancelled(jobs: ReadingJobs) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}))
    jobs.fire("read", 1)
    [run] = jobs.list("read")
    jobs.end(run.id, SKIPPED)
    jobs.write("a")
    assert jobs.reads() == [(1, SKIPPED, "")]
    jobs.fire("read", 2)
    jobs.poll()
    assert jobs.reads()[1:] == [(2, DUE, "a")]


def test_files_that_wait_for_other_conditions_write_nothing(
    jobs: ReadingJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.add_reader(jobs.with_files({"every": "1h"}, {"after": ["load"]}))
    # It has ended before the time comes.
    jobs.run("load", 1)
    jobs.follow()
    jobs.poll()
    written = list[str]()
    original = jobs.store.write

    def note(name: str) -> Any:
        written.append(name)
        return original(name)

    monkeypatch.setattr(jobs.store, "write", note)
    jobs.write("a")
    jobs.poll()
    assert written == []
