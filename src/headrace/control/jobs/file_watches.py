"""Jobs that new files start: list their files, and insert the runs that read them.

One node lists the files of a job, as long as it has a valid lease as a node. Its transactions lock
the row of the claim: a node that was replaced meanwhile changes nothing. The transaction that
inserts a run stores its files as used, so that none is lost or read twice.

What earlier lists have shown is in memory: a list without a change writes nothing, and after a
takeover files settle anew.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import accumulate, islice
from urllib.parse import quote

from headrace.control.context import NodeContext
from headrace.control.jobs.conditions import may_start_file_run, start_file_run
from headrace.control.jobs.file_tracker import FileRules, FileTracker, NewFile
from headrace.control.jobs.live_runs import ACTOR, start_next
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.places import find_watch_denial
from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable, StoreUnavailable
from headrace.files.listing import ListedFile, TooManyFiles, list_files, to_file_uri
from headrace.model.run import FileWatch, JobSchedule, RunInput, UsedFile
from headrace.model.schedule import SETTLE, Schedule
from headrace.store.database import Tx
from headrace.store.jobs import file_watches, schedules
from headrace.text.readable import escape_controls

_LOG = logging.getLogger("headrace.schedules")
_THREADS = 4
_LIST_SECONDS = 300.0
_STOP_SECONDS = 2.0
_CLAIMS_AT_ONCE = 5
"""Watches that a node claims in one sweep, so that several nodes share them."""
_POLL = timedelta(seconds=10)
_LONGEST_DELAY = 300.0
"""Longest time between two lists of a location that cannot be listed, in seconds."""
MOST_LISTED = 100_000
"""Entries of a location."""
MOST_FILES = 1000
"""Files of one run, and changes of used files in one transaction."""
_MOST_PATH_BYTES = 256 * 1024
"""Bytes of the paths of one run, which are a parameter of its statements."""
_MAX_PROBLEM = 500


@dataclass(frozen=True, slots=True)
class _Changes:
    """What a list has led to."""

    problem: str | None = None
    """Why the location cannot be listed."""
    new: Sequence[NewFile] = ()
    """Files that the next run has to read."""
    renamed: Sequence[tuple[NewFile, str]] = ()
    """Files that have been used, with the keys of their former names."""
    forgotten: Sequence[str] = ()
    """Keys of used files that have vanished."""

    @property
    def has_files(self) -> bool:
        """Whether the files that runs have used change."""
        return bool(self.new or self.renamed or self.forgotten)


@dataclass(slots=True, eq=False)
class _Held:
    """A watch that this node has claimed."""

    watch: FileWatch
    """As the store has it."""
    next_at: float
    """Time of the next list."""
    tracker: FileTracker | None = None
    """None: the used files are not read yet."""
    failures: int = 0
    """Lists in a row that have failed."""
    is_polled: bool = False
    is_listed: bool = False
    """Whether a thread is in the file system, perhaps since an earlier poll."""


class FileWatches:
    """Lists the files of the jobs that this node has claimed. See the module."""

    def __init__(
        self,
        context: NodeContext,
        *,
        read_time: Callable[[], float] = time.monotonic,
        submit: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """Create the threads.

        Args:
            read_time: Returns the time in seconds.
            submit: Runs a poll; default: in a thread.
        """
        self._database = context.database
        self._settings = context.settings
        self._secrets = context.secrets
        self._node_id = context.node_id
        self._read_time = read_time
        polls = WorkerPool("file-polls", threads=_THREADS, seconds=_LIST_SECONDS)
        self._submit = submit or polls.submit
        self._lists = WorkerPool(
            "file-lists", threads=_THREADS, seconds=_LIST_SECONDS, storage="location of the files"
        )
        self._held: dict[str, _Held] = {}
        self._changed = threading.Condition()
        """Guards `is_polled`."""
        self._is_stopping = False

    def run(self) -> None:
        """Claim the watches without a node, and begin the lists that are due."""
        with self._database.read() as tx:
            active = {watch.job_id: watch for watch in file_watches.list_active(tx)}
        self._held = {
            job_id: held
            for job_id, held in self._held.items()
            if job_id in active and active[job_id].epoch == held.watch.epoch
        }
        self._claim([watch for job_id, watch in active.items() if job_id not in self._held])
        for held in self._held.values():
            if held.next_at <= self._read_time() and self._begin(held):
                self._submit(partial(self._poll, held))

    def stop(self) -> None:
        """Begin no further list, and wait a moment for those in progress."""
        with self._changed:
            self._is_stopping = True
            self._changed.wait_for(
                lambda: not any(held.is_polled for held in self._held.values()), _STOP_SECONDS
            )

    def _claim(self, watches: Sequence[FileWatch]) -> None:
        free = [each for each in watches if not each.is_held or each.node_id == self._node_id]
        for watch in free[:_CLAIMS_AT_ONCE]:
            with self._database.write("files.claim") as tx:
                claimed = file_watches.claim(tx, watch, self._node_id)
            if claimed is not None:
                self._held[watch.job_id] = _Held(claimed, self._read_time())

    def _begin(self, held: _Held) -> bool:
        with self._changed:
            if held.is_polled or self._is_stopping:
                return False
            held.is_polled = True
            return True

    def _poll(self, held: _Held) -> None:
        """List the files of a job, and insert a run for new ones."""
        delay = _LONGEST_DELAY
        try:
            with isolate_errors(f"the files of the job {held.watch.job_id} were not listed"):
                delay = self._list_and_record(held)
        except StoreUnavailable:
            # A transaction may have been committed: the next poll reads the used files again.
            held.tracker = None
            delay = _POLL.total_seconds()
        finally:
            with self._changed:
                held.next_at = self._read_time() + delay
                held.is_polled = False
                self._changed.notify_all()

    def _list_and_record(self, held: _Held) -> float:
        """Return the seconds until the next list."""
        job_id = held.watch.job_id
        with self._database.read() as tx:
            schedule = schedules.find(tx, job_id)
            rule = None if schedule is None else schedule.rules.files
            if schedule is None or rule is None:
                return 0.0
            if held.tracker is None:
                held.tracker = _make_tracker(tx, job_id, rule)
            owners = self._secrets.list_owners(tx, schedule.owner)
        began_at = self._read_time()
        found, problem = self._list(held, rule, owners)
        poll = (_POLL if rule.poll is None else rule.poll).total_seconds()
        if found is None:
            self._record(held, _Changes(problem=problem))
            held.failures += 1
            return min(poll * 2.0 ** min(held.failures, 30), _LONGEST_DELAY)
        held.failures = 0
        new = held.tracker.update(found, began_at=began_at, ended_at=self._read_time())
        self._record(held, _find_changes(held.tracker, new, self._read_time()))
        return poll

    def _list(
        self, held: _Held, rule: Schedule, owners: frozenset[str]
    ) -> tuple[list[ListedFile] | None, str | None]:
        """Return the files of a location, or why they cannot be listed."""
        location = rule.on_files
        assert location is not None
        problem = find_watch_denial(self._settings, owners, location)
        if problem is None and held.is_listed:
            problem = f"The file system of {location} does not answer."
        if problem is not None:
            return None, problem
        try:
            return self._lists.call(_list_files, held, location), None
        except FileNotFoundError:
            problem = f"The location {location} does not exist."
        except TooManyFiles:
            problem = (
                f"The location {location} has more than {MOST_LISTED:,} files and directories."
                " Move files that runs have read to another place, or follow a smaller directory."
            )
        except ResultsUnavailable as error:
            problem = error.message
        return None, escape_controls(problem)[:_MAX_PROBLEM]

    def _record(self, held: _Held, changes: _Changes) -> None:
        """Store what a list has led to, in one transaction; nothing if it has led to nothing."""
        tracker, watch = held.tracker, held.watch
        assert tracker is not None
        if changes.new and not self._may_start(watch):
            changes = replace(changes, new=())
        if not changes.has_files and changes.problem == watch.problem:
            return
        with self._database.write("files.record") as tx:
            schedule = schedules.lock(tx, watch.job_id)
            if schedule is None or file_watches.lock(tx, watch.job_id, watch.epoch) is None:
                return
            if changes.problem != watch.problem:
                file_watches.set_problem(tx, watch.job_id, changes.problem)
            former = [key for _file, key in changes.renamed]
            file_watches.forget(tx, watch.job_id, [*changes.forgotten, *former])
            used = {
                file.key: UsedFile(file.state, tracker.used[key].run_id)
                for file, key in changes.renamed
            }
            if changes.new and (run_id := _start(tx, schedule, changes.new)) is not None:
                used |= {file.key: UsedFile(file.state, run_id) for file in changes.new}
            file_watches.use(tx, watch.job_id, used)
        if changes.problem is not None and watch.problem is None:
            _LOG.warning("the job %s waits: %s", schedule.name, changes.problem)
        held.watch = replace(watch, problem=changes.problem)
        tracker.forget([*changes.forgotten, *former])
        tracker.used.update(used)

    def _may_start(self, watch: FileWatch) -> bool:
        """Return whether new files may start a run now. They stay new otherwise."""
        with self._database.read() as tx:
            schedule = schedules.find(tx, watch.job_id)
            return schedule is not None and may_start_file_run(tx, schedule)


def _list_files(held: _Held, location: str) -> list[ListedFile]:
    """List files, and record meanwhile that a thread is in the file system."""
    held.is_listed = True
    try:
        return list_files(location, limit=MOST_LISTED, seconds=_LIST_SECONDS)
    finally:
        held.is_listed = False


def _make_tracker(tx: Tx, job_id: str, rule: Schedule) -> FileTracker:
    assert rule.on_files is not None
    settle = SETTLE if rule.settle is None else rule.settle
    return FileTracker(
        FileRules(rule.pattern, rule.marker, settle.total_seconds()),
        to_file_uri(rule.on_files, ""),
        file_watches.list_used(tx, job_id),
        MOST_LISTED,
    )


def _find_changes(tracker: FileTracker, new: Sequence[NewFile], now: float) -> _Changes:
    """Return what a list has led to, as far as one transaction stores it."""
    renamed = tracker.find_renamed(new)
    old = set(renamed.values())
    forgotten = (key for key in tracker.list_forgotten(now) if key not in old)
    moved = ((file, renamed[file.key]) for file in new if file.key in renamed)
    return _Changes(
        new=_choose(tracker.place, [file for file in new if file.key not in renamed]),
        renamed=list(islice(moved, MOST_FILES)),
        forgotten=list(islice(forgotten, MOST_FILES)),
    )


def _choose(place: str, new: Sequence[NewFile]) -> list[NewFile]:
    """Return the first files, as many as one run reads."""
    first = new[:MOST_FILES]
    sizes = accumulate(len(quote(f"{place}/{file.path}")) for file in first)
    fitting = bisect_right(list(sizes), _MOST_PATH_BYTES)
    return list(first[: max(fitting, 1)])


def _start(tx: Tx, schedule: JobSchedule, files: Sequence[NewFile]) -> str | None:
    """Start the run of a locked schedule that reads some files.

    Return its id; None: other conditions of the schedule are not met.
    """
    rule = schedule.rules.files
    assert rule is not None
    assert rule.on_files is not None
    named = RunInput(location=rule.on_files, file_count=len(files))
    run_id = start_file_run(tx, schedule, named)
    if run_id is not None:
        uris = [to_file_uri(rule.on_files, file.path) for file in files]
        file_watches.insert_run_files(tx, run_id, uris)
        start_next(tx, schedule.job_id, actor=ACTOR)
    return run_id
