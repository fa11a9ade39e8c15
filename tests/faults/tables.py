"""`make chaos`, second part: every kind of table that a CTAS creates, and every way to die at it.

python -m tests.faults.tables                 all of it, with the counts
python -m tests.faults.tables delta jdbc      these kinds alone
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
from tests.faults.points import points
from tests.faults.table_cases import END_REPORTED, KINDS, SLOW, Case, Kind, Table, cases
from tests.support import short_lived_java
from tests.support.lakes import lake_conf, lake_extensions, lake_jars
from tests.support.node import ENDED, NodeProcess
from tests.support.postgres import PostgresServer, running_server
from tests.support.waiting import wait_until

_LANES = 2
_MEMORY = {"spark.sql.catalogImplementation": "in-memory"}


@dataclass
class Seen:
    """What the cases of all kinds have come to."""

    whole: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def main(wanted: list[str]) -> int:
    """1 when a table was neither whole nor absent, or anything was left."""
    short_lived_java.apply()
    folder = Path(tempfile.mkdtemp(prefix="headrace-tables-", dir="/tmp"))
    seen, began = Seen(), time.monotonic()
    kinds = [one for one in KINDS if not wanted or one.name in wanted]
    with running_server() as server, ThreadPoolExecutor(_LANES) as lanes:
        for done in [
            lanes.submit(_all_of, kind, folder / kind.name, server, seen) for kind in kinds
        ]:
            done.result()
    _tell(seen, len(kinds), time.monotonic() - began)
    if seen.wrong:
        print(f"logs and stores: {folder}")
    else:
        shutil.rmtree(folder)
    return int(bool(seen.wrong))


def _all_of(kind: Kind, folder: Path, server: PostgresServer, seen: Seen) -> None:
    """Every case of one kind, through a node and a session of its own."""
    plan = Plan(folder / "plan", points())
    lakes = lake_conf(folder, server, server.new_database())
    # What loads no jars starts in half the time.
    jars = lake_jars(*kind.lake.jars) if kind.lake.jars else []
    conf = lakes | {"spark.sql.extensions": lake_extensions(jars)}
    if "delta" not in conf["spark.sql.extensions"]:
        del conf["spark.sql.catalog.spark_catalog"]
    conf |= _MEMORY if kind.in_memory else {}
    with _node(folder / "home", plan) as node:
        session = node.session(conf=conf, jars=[str(jar) for jar in jars])
        node.wait_running(session)
        for case in cases(kind):
            _tried(Table(node, session, kind, folder), case, plan, seen)


@contextmanager
def _node(home: Path, plan: Plan) -> Iterator[NodeProcess]:
    settings = {"LEASE__DURATION": "4s", "LEASE__RENEW": "1s", "STATEMENTS__MAX_ATTEMPTS": "9"}
    node = NodeProcess(home, **settings, environment=plan.environment)
    try:
        yield node
    finally:
        node.close()


def _tried(table: Table, case: Case, plan: Plan, seen: Seen) -> None:
    """One case: something dies, and then the table is whole, whoever had to finish it."""
    name = f"{table.kind.name}: {case}"
    try:
        last = table.begin()
        # Its driver may be on its way back from the report of it: that is not to be hit.
        wait_until(lambda: _is_back(plan, last), what="the driver is back")
        plan.write([case.fault] if case.fault is not None else [])
        outcome = _outcome(table, case)
        done = [one["did"] for one in plan.passed() if one["did"]]
        plan.write([])
        if case.fault is not None and done != [case.fault.do]:
            raise AssertionError(f"the fault did not happen: {done}")
        table.end(whole=outcome == "success")
    except AssertionError as error:
        seen.wrong.append(f"{name}: {error}")
        plan.write([])
        print(f"WRONG  {name}: {error}", flush=True)
    else:
        seen.whole[case.way] += 1
        print(f"ok     {name}", flush=True)


def _is_back(plan: Plan, statement: str) -> bool:
    reported = (END_REPORTED, "after", statement)
    return any((one["point"], one["side"], one["statement"]) == reported for one in plan.passed())


def _outcome(table: Table, case: Case) -> str:
    node = table.node
    sent = node.submit(table.ctas(case.query), table.session, conf=table.kind.own)["id"]
    if case.query == SLOW:
        wait_until(lambda: table.is_writing(sent), seconds=60, what="it writes")
        if case.way == "cancel":
            node.http.post(f"/api/v1/statements/{sent}/cancel")
        else:
            table.kill_jvm()
    wait_until(lambda: node.statement(sent)["state"] in ENDED, seconds=180, what="it has ended")
    made = node.statement(sent)
    assert made["state"] == case.ends, made
    return str(made["state"])


def _tell(seen: Seen, kinds: int, seconds: float) -> None:
    tried = sum(seen.whole.values()) + len(seen.wrong)
    print(f"\n{kinds} kinds of tables, {tried} cases, in {seconds:.0f} s")
    for way, count in sorted(seen.whole.items()):
        print(f"{count:5}  {way}: whole or absent as its statement says, nothing left")
    print(f"{len(seen.wrong)} wrong")
    for what in seen.wrong:
        print(what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
