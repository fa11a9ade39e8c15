"""Histories of schedules with conditions: what happens in any order is used once, and not lost."""

from __future__ import annotations

from collections import Counter
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.followed_jobs import DUE, FAILED, RUNNING, SUCCEEDED, FollowedJobs

from headrace.model.run import CatchUp, JobRun
from headrace.model.schedule import Schedule
from headrace.store.database import Database
from headrace.store.jobs import runs, schedules, triggers

_CHANGE = {"on-change": ["d.t"], "settle": "0s"}
_NUMBERS = count()


def _conditions(left: str, right: str) -> list[dict[str, object]]:
    clock, after = {"every": "2h"}, {"after": [left]}
    return [
        {"all": [clock, after]},
        {"all": [clock, _CHANGE]},
        {"all": [clock, {"after": [left, right]}]},
        {"all": [clock, after, _CHANGE]},
        {"all": [after, _CHANGE]},
        {"all": [{"after": [left]}, {"after": [right]}]},
        {"any": [{"all": [clock, after]}, {"after": [right]}]},
        {"any": [clock, {"all": [after, _CHANGE]}]},
        {"all": [clock, {"any": [after, {"all": [{"after": [right]}, _CHANGE]}]}]},
        {"all": [{"any": [clock, {"after": [right]}]}, after]},
    ]


_STEPS = st.one_of(
    st.tuples(st.just("fire"), st.integers(1, 8)),
    st.tuples(st.sampled_from(["left", "right"]), st.integers(0, 8)),
    st.tuples(st.sampled_from(["left fails", "change", "work", "follow"]), st.just(4)),
)


class History:
    """Two jobs, and one whose schedule combines them with a clock and a table."""

    def __init__(self, store: Database, rule: int, catch_up: CatchUp) -> None:
        number = next(_NUMBERS)
        self.names = {each: f"{each}{number}" for each in ("left", "right", "report")}
        self.jobs = FollowedJobs(store)
        for name in ("left", "right"):
            self.jobs.add(self.names[name])
        with store.write("test") as tx:
            for job_id in self.jobs.ids.values():
                # The test inserts their runs.
                schedules.pause(tx, job_id)
        conditions = _conditions(self.names["left"], self.names["right"])[rule]
        schedule = Schedule.model_validate(conditions)
        self.schedule = schedule
        self.jobs.add(self.names["report"], schedule=schedule, catch_up=catch_up)
        self.changes = list[str]()
        self.succeeded = set[str]()

    def step(self, action: str, hour: int) -> None:
        if action == "fire" and self.schedule.clock is not None:
            self.jobs.fire(self.names["report"], hour)
        elif action in self.names:
            run_id = self.jobs.run(self.names[action], hour)
            if self.names[action] in self.schedule.list_upstream():
                self.succeeded.add(run_id)
        elif action == "left fails":
            self.jobs.run(self.names["left"], hour, FAILED)
        elif action == "change":
            self.changes.append(self.jobs.change())
        elif action == "work":
            self._work()
        self.jobs.follow()

    def _work(self) -> None:
        for run in self.list():
            if run.has_turn and run.ended_at is None:
                self.jobs.end(run.id, RUNNING if run.state is DUE else SUCCEEDED)
                return

    def list(self) -> list[JobRun]:
        return self.jobs.list(self.names["report"])

    def check(self) -> None:
        listed = self.list()
        report = self.jobs.ids[self.names["report"]]
        with self.jobs.store.read() as tx:
            noted = {each.run.id for each in runs.list_upstream(tx, report, 1000)}
            waiting = {each.transaction_id for each in triggers.list_changes(tx, report, 1000)}
            triggers_left = triggers.list_ready(tx, 1000)
        # Each end of a run is noted, or is the input of exactly one run.
        used = Counter(each.run for run in listed for each in run.inputs if each.run is not None)
        assert set(used.values()) <= {1}
        assert self.succeeded <= noted | used.keys()
        assert self.succeeded.isdisjoint(noted & used.keys())
        # Each change is noted, or a run has used it or a later one.
        last = [each.last_transaction for run in listed for each in run.inputs if each.table]
        order = {change: place for place, change in enumerate(self.changes)}
        newest_used = max((order[each] for each in last if each), default=-1)
        if self.changes and self.schedule.list_tables():
            assert newest_used == len(self.changes) - 1 or self.changes[-1] in waiting
        assert len(last) == len(set(last))
        # Each time has one first run. What waits has no turn, and each job makes one run at once.
        assert len({run.times.logical_time for run in listed if run.repetition == 0}) == sum(
            run.repetition == 0 for run in listed
        )
        assert not any(run.awaits_conditions and run.has_turn for run in listed)
        assert sum(run.has_turn and run.ended_at is None for run in listed) <= 1
        # No node is asked to look again at what nothing has changed.
        assert report not in triggers_left
        if self.schedule.clock is not None and not self.schedule.is_clock_enough:
            started = [run for run in listed if run.state is not DUE or not run.awaits_conditions]
            assert all(run.inputs for run in started if run.started_at is not None)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rule=st.integers(0, len(_conditions("", "")) - 1),
    catch_up=st.sampled_from(list(CatchUp)),
    steps=st.lists(_STEPS, min_size=4, max_size=14),
)
def test_what_happens_in_any_order_is_used_once_and_is_not_lost(
    store: Database, rule: int, catch_up: CatchUp, steps: list[tuple[str, int]]
) -> None:
    history = History(store, rule, catch_up)
    for action, hour in steps:
        history.step(action, hour)
        history.check()
    with store.write("test") as tx:
        triggers.remove(tx, history.jobs.ids[history.names["report"]])
