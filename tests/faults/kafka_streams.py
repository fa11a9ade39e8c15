"""`make chaos`, fifth part: streaming queries from Kafka to four kinds of sinks, with faults.

python -m tests.faults.kafka_streams             1,000,000 records
python -m tests.faults.kafka_streams 200000      200,000 records instead

Six queries run in one session: a filter to Parquet, Delta, Kafka and PostgreSQL, and totals to
Delta and PostgreSQL. Meanwhile, drivers and the node are killed, the broker and PostgreSQL are
restarted, and the node is suspended. PostgreSQL also holds the store of the node. At the end, each
sink must hold every record, and those with a guarantee must hold each record once.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.faults.kafka_queries import QUERIES, Queries, SinkCheck
from tests.faults.kafka_records import Orders
from tests.support.kafka import KafkaBroker, kafka_jars
from tests.support.lakes import lake_extensions, lake_jars
from tests.support.node import NodeProcess
from tests.support.postgres import PostgresServer, running_server
from tests.support.waiting import wait_until

_RECORDS = 1_000_000
_TOPIC = "orders"
_BATCHES = 50
"""Batches in which a query reads all records."""
_SUSPEND_SECONDS = 30.0
_RECOVERY_SECONDS = 240.0
_DRAIN_SECONDS = 400.0
_NEW_BATCHES = 2
"""Batches that every query commits after a fault. The first may have begun before the fault."""
_BATCHES_OF_PORTION = 3
_CONF = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and how long the queries took to continue after it."""

    name: str
    seconds: float
    remark: str = ""


class AcceptanceRun:
    """All parts: a broker, PostgreSQL, a node with a streaming session, and the queries."""

    def __init__(self, folder: Path, stack: ExitStack, records: int) -> None:
        self._records = records
        self.faults: list[Fault] = []
        self.backoffs = 0
        """Failed runs after which the supervisor has started a query again."""
        self._server: PostgresServer = stack.enter_context(running_server())
        self._broker = KafkaBroker(folder / "kafka")
        stack.callback(self._broker.stop)
        self._orders = Orders(self._broker, _TOPIC)
        store = self._server.url(self._server.new_database())
        self._node = NodeProcess(folder / "home", STORE__URL=store)
        stack.callback(self._node.close)
        jars = [*lake_jars("delta", "unitycatalog", "postgresql"), *kafka_jars()]
        conf = _CONF | {"spark.sql.extensions": lake_extensions(jars)}
        self._session = self._node.session(
            name="acceptance", kind="streaming", conf=conf, jars=[str(jar) for jar in jars]
        )
        self._node.wait_running(self._session)
        self._batch_records = records // _BATCHES
        self.queries = Queries(
            self._node,
            self._session,
            folder / "sinks",
            self._broker,
            self._server,
            _TOPIC,
            self._batch_records,
        )

    def run(self) -> list[SinkCheck]:
        """Cause every fault while the queries work, then compare the sinks with the records."""
        faults: list[tuple[str, Callable[[], str]]] = [
            ("SIGKILL of the driver's Python", lambda: self._kill_driver(python=True)),
            ("SIGKILL of the node", self._kill_node),
            ("restart of the broker", self._restart_broker),
            ("SIGKILL of the driver's JVM", lambda: self._kill_driver(jvm=True)),
            ("restart of PostgreSQL", self._restart_postgres),
            (f"SIGSTOP of the node for {_SUSPEND_SECONDS:g} s", self._suspend_node),
            ("SIGKILL of Python and JVM", lambda: self._kill_driver(python=True, jvm=True)),
        ]
        # One portion before each fault, so that the queries work during it, and one after it.
        portion = _BATCHES_OF_PORTION * self._batch_records
        self._orders.publish(self._records - 2 * len(faults) * portion)
        self._orders.flush()
        self.queries.define()
        self.queries.start()
        self._wait_for_batches(self._read_batches(), 1)
        for name, cause in faults:
            before = self._read_batches()
            self._orders.publish(portion)
            self._wait_for_any_batch(before)
            begin = time.monotonic()
            remark = cause()
            before = self._read_batches()
            self._orders.publish(portion)
            self._wait_for_batches(before, _NEW_BATCHES)
            self.faults.append(Fault(name, time.monotonic() - begin, remark))
            print(f"{self.faults[-1].seconds:6.1f} s  {name}", flush=True)
        self._orders.flush()
        self.backoffs = self.queries.count_backoffs()
        self.queries.drain(_DRAIN_SECONDS)
        return list(self.queries.check(self._orders.count))

    def _read_batches(self) -> dict[str, int]:
        batches = wait_until(
            self.queries.read_batches, seconds=_RECOVERY_SECONDS, what="the node answers"
        )
        assert batches is not None
        return batches

    def _wait_for_batches(self, before: dict[str, int], count: int) -> None:
        """Wait until every query has committed so many batches more."""

        def have_continued() -> bool:
            now = self.queries.read_batches()
            return now is not None and all(now[name] >= before[name] + count for name in QUERIES)

        wait_until(
            have_continued,
            seconds=_RECOVERY_SECONDS,
            what=f"all queries continue after {before}",
            every=0.5,
        )

    def _wait_for_any_batch(self, before: dict[str, int]) -> None:
        """Wait until the fastest query has committed a batch: then all have records to read."""
        wait_until(
            lambda: (now := self.queries.read_batches()) is not None and now != before,
            seconds=_RECOVERY_SECONDS,
            what=f"a query continues after {before}",
        )

    def _kill_driver(self, *, python: bool = False, jvm: bool = False) -> str:
        """Kill processes of the driver. Python's death ends the JVM about two seconds later."""
        driver = psutil.Process(self._node.describe_session(self._session)["driver"]["pid"])
        java = [child for child in driver.children(recursive=True) if "java" in child.name()]
        assert java, driver
        for process in [*([driver] if python else []), *(java if jvm else [])]:
            process.kill()
        return ""

    def _kill_node(self) -> str:
        self._node.kill()
        self._node.start()
        return ""

    def _restart_broker(self) -> str:
        """Kill the broker and start it again on the same port, with its records."""
        self._broker.stop()
        self._broker.start()
        return ""

    def _restart_postgres(self) -> str:
        """Restart the server of the store and of the sink: all connections break."""
        self._server.stop()
        self._server.start()
        return ""

    def _suspend_node(self) -> str:
        """Suspend the node. The driver continues: it needs no node to commit batches."""
        begin = self.queries.count_database_batches()
        os.kill(self._node.process.pid, signal.SIGSTOP)
        try:
            time.sleep(_SUSPEND_SECONDS)
            batches = self.queries.count_database_batches() - begin
        finally:
            os.kill(self._node.process.pid, signal.SIGCONT)
        return f"{batches} batches committed in PostgreSQL meanwhile"


def main(arguments: list[str]) -> int:
    """Return 1 if a record was lost, or if it is twice in a sink that guarantees otherwise."""
    # An interrupted run ends its processes, too.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    records = int(arguments[0]) if arguments else _RECORDS
    folder = Path(tempfile.mkdtemp(prefix="headrace-streams-", dir="/tmp"))
    begin = time.monotonic()
    try:
        with ExitStack() as stack:
            run = AcceptanceRun(folder, stack, records)
            checks = run.run()
    except BaseException:
        print(f"The logs and sinks are kept in {folder}.")
        raise
    wrong = [check for check in checks if not check.is_right]
    _print_report(run, records, checks, time.monotonic() - begin)
    if wrong:
        print(f"The logs and sinks are kept in {folder}.")
    else:
        shutil.rmtree(folder)
    return int(bool(wrong))


def _print_report(
    run: AcceptanceRun, records: int, checks: list[SinkCheck], seconds: float
) -> None:
    print(f"\n{records:,} records, {len(QUERIES)} queries in one session, {seconds:.0f} s")
    print(f"{len(run.faults)} faults; every query continued:")
    for fault in run.faults:
        remark = f"  ({fault.remark})" if fault.remark else ""
        print(f"{fault.seconds:6.1f} s  {fault.name}{remark}")
    print(f"{run.backoffs} failed runs after which the supervisor started a query again")
    for check in checks:
        print(f"{'right' if check.is_right else 'WRONG'}  {check}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
