"""A run of the whole test: the cluster, the load, the faults, and the checks at the end."""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.faults.chaos_cluster import checks, load
from tests.faults.chaos_cluster.checks import RowCount
from tests.faults.chaos_cluster.faults import FaultInjector
from tests.faults.chaos_cluster.host_cluster import ClusterNode, HostCluster
from tests.faults.chaos_cluster.job_user import DIGITS
from tests.faults.chaos_cluster.leftovers import find_leftovers, find_staged
from tests.faults.chaos_cluster.load import UserSession
from tests.faults.chaos_cluster.numbers import NumberStreams
from tests.faults.chaos_cluster.record import LoadRecord, Work
from tests.faults.invariants import Rows, check_submits_are_idempotent, find_violations
from tests.support.waiting import wait_until

from headrace.config.sections import StatementSettings
from headrace.errors import HeadraceError
from headrace.model.lifecycle import STATEMENT
from headrace.model.text import cut_text

_END_SECONDS = 240.0
_MAX_ATTEMPTS = StatementSettings().max_attempts
_INSERTS = (Work.INSERT, Work.BATCH_INSERT)
_CREATIONS = (Work.CTAS, Work.FAILING_CTAS)
_QUERY_ROWS = {
    Work.QUERY: 10,
    Work.BATCH_QUERY: 10,
    Work.STORED_QUERY: 20_000,
    Work.HELD_QUERY: 1_000,
}
_TABLES_OF_QUERY = 50
"""Tables that one query counts."""
_SHOWN_ROWS = 40
_SHOWN_TEXT = 600


@dataclass
class ClusterReport:
    """The counts and violations of a run."""

    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind and outcome."""
    actions: Counter[str] = field(default_factory=Counter)
    """Turns of the users of streaming queries and jobs."""
    faults: Counter[str] = field(default_factory=Counter)
    numbers: dict[str, int] = field(default_factory=dict)
    """Rows of each sink, and results that were lost, by name."""
    results: int = 0
    """Results that were read from every node."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of each phase."""
    violations: list[str] = field(default_factory=list)

    def print(self) -> None:
        print(f"\n{', '.join(f'{name} {each:.0f} s' for name, each in self.seconds.items())}")
        print(f"{sum(self.faults.values())} faults:")
        for kind, count in sorted(self.faults.items()):
            print(f"{count:6}  {kind}")
        print(f"{sum(self.statements.values())} statements:")
        for (work, outcome), count in sorted(self.statements.items()):
            print(f"{count:6}  {work}: {outcome}")
        print(f"{sum(self.actions.values())} turns of the users of streams and jobs:")
        for action, count in sorted(self.actions.items()):
            print(f"{count:6}  {action}")
        for sink, count in self.numbers.items():
            print(f"{count:6}  {sink}")
        print(f"{self.results:6}  results read from every node")
        print(f"{len(self.violations)} violations")
        for violation in self.violations:
            print(f"\n{violation}")


class ClusterRun:
    """One run on a new cluster."""

    def __init__(self, folder: Path, seed: str, stack: ExitStack) -> None:
        self._seed = seed
        self._record = LoadRecord()
        self._report = ClusterReport()
        self._phase_begin = time.monotonic()
        self._cluster = HostCluster(folder, stack)
        self._end_phase("start of the cluster")

    def run(self, seconds: float, min_faults: int) -> ClusterReport:
        """Run the load with faults for some seconds, then check everything.

        Args:
            min_faults: Number of faults for which the load continues, on a slow machine.
        """
        cluster, record = self._cluster, self._record
        with ThreadPoolExecutor(3) as pool:
            analyst, loader, streams = pool.map(
                lambda start: start(),
                [
                    partial(UserSession, cluster, record, "analyst"),
                    partial(self._prepare_loader),
                    partial(self._start_streams),
                ],
            )
        workers = [
            load.Analyst(analyst, record, self._seed),
            load.Loader(loader, record, self._seed),
            load.BatchUser(UserSession(cluster, record, "batches"), record, self._seed),
            streams.stream_user,
            streams.job_user,
        ]
        self._end_phase("start of the load")
        faults = FaultInjector(cluster, self._seed)
        for part in (*workers, faults):
            part.start()
        try:
            threading.Event().wait(seconds)
            wait_until(
                lambda: faults.counts.total() >= min_faults,
                seconds=_END_SECONDS,
                what=f"{min_faults} faults",
            )
            self._end_phase("load")
        finally:
            # Also after an interrupt: a fault must not restart a host that the run has ended.
            faults.stop()
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.join()
        self._report.faults.update(str(kind) for kind in faults.counts.elements())
        self._report.actions.update(record.actions)
        self._report.violations += [*faults.errors, *record.errors]
        try:
            self._wait_ended()
            streams.stop(analyst)
            self._end_phase("recovery")
            self._check(analyst, streams, faults.failed_starts)
            self._end_phase("checks")
        except (AssertionError, HeadraceError):
            # The report shows the other violations and the counts also in this case.
            self._report.violations.append(f"not at rest: {traceback.format_exc()}")
            streams.files.stop()
            rows = self._cluster.read_rows()
            self._count_statements(rows)
            self._report.violations += _describe_streams(rows, self._cluster.folder)
        return self._report

    def _prepare_loader(self) -> UserSession:
        session = UserSession(self._cluster, self._record, "loader")
        load.define_tables(session)
        return session

    def _start_streams(self) -> NumberStreams:
        streams = NumberStreams(self._cluster, self._record, self._seed)
        streams.start()
        return streams

    def _end_phase(self, name: str) -> None:
        now = time.monotonic()
        self._report.seconds[name] = now - self._phase_begin
        self._phase_begin = now
        print(f"{self._report.seconds[name]:6.1f} s  end of {name}", flush=True)

    def _wait_ended(self) -> None:
        wait_until(
            lambda: all(
                row["state"] in STATEMENT.terminal for row in self._cluster.read_rows().statements
            ),
            seconds=_END_SECONDS,
            what="every statement has ended",
            every=0.5,
        )

    def _check(
        self, reader: UserSession, streams: NumberStreams, failed_starts: Mapping[str, int]
    ) -> None:
        """Read tables, sinks and results, close all sessions, and check everything."""
        inserted = self._count_inserted(reader)
        created = self._count_created(reader)
        copied, rows_at_least_once = streams.count_copies(reader), streams.count_rows(reader)
        for sink, counts in {**copied, "of the table of a query": rows_at_least_once}.items():
            self._report.numbers[f"rows {sink}"] = sum(counts.values())
        totals = streams.count_totals(reader)
        results = self._read_results()
        nodes = reader.client.nodes()
        held = [each.id for each in self._record.select(Work.HELD_QUERY)]
        at_rest = self._cluster.read_rows()
        lost = checks.find_lost(held, at_rest.statements, at_rest.sessions)
        violations = self._report.violations
        load.close_sessions(self._cluster)
        violations += find_staged(
            self._cluster, UserSession(self._cluster, self._record, "last-reader")
        )
        load.close_sessions(self._cluster)
        rows = self._cluster.read_rows()
        self._report.results = len(results)
        self._count_statements(rows)
        exhausted = checks.find_exhausted(rows.sessions, failed_starts)
        self._report.numbers["sessions with three failed starts"] = len(exhausted)
        violations += checks.check_sessions(rows.sessions, exhausted)
        violations += self._check_statements(rows, inserted, created, exhausted)
        violations += self._check_streams(rows)
        self._report.numbers["results lost with their drivers"] = len(lost & results.keys())
        violations += checks.check_lost_results(lost, results)
        results = {key: answers for key, answers in results.items() if key not in lost}
        violations += checks.check_results(results)
        violations += checks.check_query_rows(
            self._record.select(*_QUERY_ROWS), results, _QUERY_ROWS
        )
        count = streams.files.count
        violations += checks.check_copies(copied, count=count)
        violations += checks.check_at_least_once(rows_at_least_once, count=count)
        violations += checks.check_totals(totals, digits=DIGITS, count=count)
        violations += checks.check_view_reads(self._record.view_reads, rows=load.VIEW_ROWS)
        addresses = [node.address for node in self._cluster.nodes]
        violations += checks.check_nodes(nodes, expected=addresses)
        violations += find_violations(rows)
        violations += self._find_survivors()
        violations += find_leftovers(self._cluster)

    def _check_streams(self, rows: Rows) -> Iterator[str]:
        queries = [row for row in rows.stream_queries if row["spec"].view is None]
        succeeded = {row["id"] for row in rows.statements if row["state"] == "success"}
        yield from checks.check_stream_ends(rows.events, queries, succeeded)
        yield from checks.check_deployments(rows.deployments, self._record.broken_deployments)

    def _check_statements(
        self,
        rows: Rows,
        inserted: Mapping[int, RowCount],
        created: Mapping[int, RowCount],
        exhausted: set[str],
    ) -> Iterator[str]:
        record = self._record
        statements = {row["id"]: row for row in rows.statements}
        inserts, creations = record.select(*_INSERTS), record.select(*_CREATIONS)
        answers = {each.text: [each.id] for each in record.accepted}
        yield from check_submits_are_idempotent(answers, rows.statements)
        yield from checks.check_accepted_are_stored(
            record.accepted, statements, exhausted=exhausted
        )
        yield from checks.check_inserts(
            inserts, statements, inserted, expected=load.ROWS, max_attempts=_MAX_ATTEMPTS
        )
        yield from checks.check_tables(creations, statements, created, expected=load.ROWS)

    def _count_statements(self, rows: Rows) -> None:
        self._report.statements.clear()
        works = {each.id: each.work for each in self._record.accepted}
        for row in rows.statements:
            code = checks.read_code(row)
            outcome = f"{row['state']} ({code})" if code else str(row["state"])
            attempts = f", attempt {row['attempts']}" if row["attempts"] > 1 else ""
            self._report.statements[works.get(row["id"], "other"), outcome + attempts] += 1

    def _count_inserted(self, reader: UserSession) -> dict[int, RowCount]:
        reader.must_run(Work.CHECK, f"REFRESH TABLE {load.TABLE}")
        text = f"SELECT n, count(*), count(DISTINCT id) FROM {load.TABLE} GROUP BY n"
        return {int(n): RowCount(int(rows), int(ids)) for n, rows, ids in reader.read(text)}

    def _count_created(self, reader: UserSession) -> dict[int, RowCount]:
        """Count the rows of each table that a CTAS has made."""
        names = [str(row[1]) for row in reader.read("SHOW TABLES")]
        matches = [re.fullmatch(load.table_name(0).replace("0", r"(\d+)"), name) for name in names]
        numbers = [int(match[1]) for match in matches if match is not None]
        counts = {}
        for begin in range(0, len(numbers), _TABLES_OF_QUERY):
            parts = [
                f"SELECT {number}, count(*), count(DISTINCT id) FROM {load.table_name(number)}"
                f" WHERE n = {number}"
                for number in numbers[begin : begin + _TABLES_OF_QUERY]
            ]
            for number, rows, ids in reader.read(" UNION ALL ".join(parts)):
                counts[int(number)] = RowCount(int(rows), int(ids))
        return counts

    def _read_results(self) -> dict[str, list[str]]:
        """Return the rows of every successful statement, as each node gives them."""
        successes = [
            row["id"] for row in self._cluster.read_rows().statements if row["state"] == "success"
        ]
        with ThreadPoolExecutor(len(self._cluster.nodes)) as pool:
            by_node = list(pool.map(partial(_read_all, successes), self._cluster.nodes))
        return dict(zip(successes, map(list, zip(*by_node, strict=True)), strict=True))

    def _find_survivors(self) -> Sequence[str]:
        """Return the processes of drivers that are alive although all sessions have ended."""
        find: Callable[[], Any] = self._cluster.find_drivers
        try:
            wait_until(lambda: not find(), seconds=120, what="all drivers have ended", every=0.5)
        except AssertionError:
            return [f"all sessions have ended, but a process is alive: {each}" for each in find()]
        return []


def _describe_streams(rows: Rows, folder: Path) -> Iterator[str]:
    """Yield the streaming queries and their sessions, with their events and logs."""
    sessions = {query["session_id"] for query in rows.stream_queries}
    live = [row for row in rows.sessions if row["id"] in sessions]
    ids = {row["id"] for row in (*rows.stream_queries, *live)}
    events = [event for event in rows.events if event["entity_id"] in ids]
    for kind, found in [("query", rows.stream_queries), ("session", live), ("event", events)]:
        for row in found[-_SHOWN_ROWS:]:
            facts = {key: value for key, value in row.items() if value is not None}
            yield f"at the end, a {kind}: {cut_text(str(facts), _SHOWN_TEXT)}"
    for session in sessions:
        for log in sorted(folder.glob(f"*/logs/{session}.log")):
            lines = log.read_text(errors="replace").splitlines()[-_SHOWN_ROWS:]
            yield f"at the end, {log}:\n" + "\n".join(cut_text(line, _SHOWN_TEXT) for line in lines)


def _read_all(statements: Sequence[str], node: ClusterNode) -> list[str]:
    with node.connect() as client:
        return [_read_result(partial(client.download, each, "csv")) for each in statements]


def _read_result(download: Callable[[], Iterator[bytes]]) -> str:
    """Return the rows of a result as lines of CSV without the header, or the refusal."""
    try:
        lines = b"".join(download()).decode().splitlines()
    except HeadraceError as error:
        return f"refused: {error.code}: {error}"
    return "\n".join(lines[1:])


def run_cluster(folder: Path, seed: str, seconds: float, *, min_faults: int = 0) -> ClusterReport:
    """Run the load with the faults of a seed on a new cluster, and return the report.

    See `ClusterRun.run`.
    """
    with ExitStack() as stack:
        return ClusterRun(folder, seed, stack).run(seconds, min_faults)
