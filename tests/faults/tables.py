"""`make chaos`, third part: every atomic statement on every kind of table, interrupted.

python -m tests.faults.tables                 all kinds
python -m tests.faults.tables delta jdbc      only these kinds
python -m tests.faults.tables writes          only the statements that change rows
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.plan import Plan
from tests.faults.points import read_points
from tests.faults.recipes import END_REPORTED
from tests.faults.table_cases import (
    KINDS,
    SLOW,
    Case,
    Table,
    TableKind,
    list_cases,
)
from tests.support import short_lived_java
from tests.support.lakes import lake_conf, lake_extensions, lake_jars
from tests.support.node import ENDED, NodeProcess
from tests.support.postgres import PostgresServer, running_server
from tests.support.waiting import wait_until

_PARALLEL_KINDS = 2
_MEMORY = {"spark.sql.catalogImplementation": "in-memory"}


@dataclass
class TableReport:
    """The outcomes of the cases of all kinds."""

    passed: Counter[str] = field(default_factory=Counter)
    """Counts of cases, by name."""
    failures: list[str] = field(default_factory=list)


def main(names: list[str]) -> int:
    """Return 1 if a table was neither complete nor unchanged, or if a file was left over."""
    short_lived_java.apply()
    folder = Path(tempfile.mkdtemp(prefix="headrace-tables-", dir="/tmp"))
    report, begin = TableReport(), time.monotonic()
    kinds = [
        kind
        for kind in KINDS
        if not names or kind.name in names or ("writes" in names and kind.changes_rows)
    ]
    with running_server() as server, ThreadPoolExecutor(_PARALLEL_KINDS) as executor:
        for future in [
            executor.submit(_run_kind, kind, folder / kind.name, server, report) for kind in kinds
        ]:
            future.result()
    _print_report(report, len(kinds), time.monotonic() - begin)
    if report.failures:
        print(f"The logs and stores are kept in {folder}.")
    else:
        shutil.rmtree(folder)
    return int(bool(report.failures))


def _run_kind(kind: TableKind, folder: Path, server: PostgresServer, report: TableReport) -> None:
    """Run every case of one kind, through a node and a session of its own."""
    plan = Plan(folder / "plan", read_points())
    lakes = lake_conf(folder, server, server.new_database())
    # A driver without additional jars starts in half the time.
    jars = lake_jars(*kind.lake.jars) if kind.lake.jars else []
    conf = lakes | {"spark.sql.extensions": lake_extensions(jars)}
    if "delta" not in conf["spark.sql.extensions"]:
        del conf["spark.sql.catalog.spark_catalog"]
    conf |= _MEMORY if kind.in_memory else {}
    with _running_node(folder / "home", plan) as node:
        session = node.session(conf=conf, jars=[str(jar) for jar in jars])
        node.wait_running(session)
        for case in list_cases(kind):
            _run_case(Table(node, session, kind, folder), case, plan, report)


@contextmanager
def _running_node(home: Path, plan: Plan) -> Iterator[NodeProcess]:
    # On a busy machine, a cancelled write needs time to end. A kill would be another case.
    lease = {"LEASE__DURATION": "4s", "LEASE__RENEW": "1s", "LEASE__CANCEL_GRACE": "60s"}
    settings = {**lease, "STATEMENTS__MAX_ATTEMPTS": "9"}
    node = NodeProcess(home, **settings, environment=plan.environment)
    try:
        yield node
    finally:
        node.close()


def _run_case(table: Table, case: Case, plan: Plan, report: TableReport) -> None:
    """Interrupt a statement, and check that its table is complete or unchanged."""
    name = f"{table.kind.name}: {case}"
    try:
        last = table.prepare()
        # The fault must not hit the report of this statement's end.
        wait_until(lambda: _has_reported_end(plan, last), what="the driver has reported the end")
        plan.write([case.fault] if case.fault is not None else [])
        state = _run_statement(table, case)
        actions = plan.read_actions()
        plan.write([])
        if case.fault is not None and actions != [case.fault.action]:
            raise AssertionError(f"The faults that happened are {actions}, not {case.fault}.")
        table.check_and_drop(complete=state == "success")
    except AssertionError as error:
        report.failures.append(f"{name}: {error}")
        plan.write([])
        print(f"FAILED  {name}: {error}", flush=True)
    else:
        report.passed[case.name] += 1
        print(f"passed  {name}", flush=True)


def _has_reported_end(plan: Plan, statement: str) -> bool:
    report = (END_REPORTED, "after", statement)
    return any(
        (passage["point"], passage["side"], passage["statement"]) == report
        for passage in plan.read_passages()
    )


def _run_statement(table: Table, case: Case) -> str:
    """Run the statement of a case to its end and return its final state."""
    node = table.node
    text = table.text(case.query)
    statement_id = node.submit(text, table.session, conf=table.kind.conf)["id"]
    if case.query == SLOW:
        wait_until(lambda: table.is_writing(statement_id), seconds=60, what="the statement writes")
        if case.name == "cancel":
            node.http.post(f"/api/v1/statements/{statement_id}/cancel")
        else:
            table.kill_jvm()
    wait_until(
        lambda: node.statement(statement_id)["state"] in ENDED,
        seconds=180,
        what="the statement has ended",
    )
    statement = node.statement(statement_id)
    assert statement["state"] == case.final_state, statement
    return str(statement["state"])


def _print_report(report: TableReport, kind_count: int, seconds: float) -> None:
    case_count = sum(report.passed.values()) + len(report.failures)
    print(f"\n{kind_count} kinds of tables, {case_count} cases, in {seconds:.0f} s")
    for name, count in sorted(report.passed.items()):
        print(
            f"{count:5}  {name}: complete or unchanged, as the statement reports; nothing left over"
        )
    print(f"{len(report.failures)} failures")
    for failure in report.failures:
        print(failure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
