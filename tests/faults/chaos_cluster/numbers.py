"""A streaming query and a job that copy the numbers of files, each number exactly once."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.faults.chaos_cluster.host_cluster import HostCluster
from tests.faults.chaos_cluster.load import UserSession
from tests.faults.chaos_cluster.record import LoadRecord, Work
from tests.support.waiting import wait_until

from headrace.client.http import Json
from headrace.errors import HeadraceError

_FILE_NUMBERS = 10
_FILE_SECONDS = 1.0
_STREAM = "copied_by_stream"
_JOB = "copied_by_job"
_WAIT_SECONDS = 240.0


class NumberFiles:
    """Writes the numbers 0, 1, 2 … to files in the shared folder, ten in each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True)
        self.count = 0
        """How many numbers there are."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="NumberFiles", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write no further file."""
        self._stopping.set()
        self._thread.join()

    def write(self) -> None:
        """Add a file. A reader never sees a part of it."""
        numbers = range(self.count, self.count + _FILE_NUMBERS)
        name = f"{self.count:08}.json"
        hidden = self.folder / f".{name}"
        hidden.write_text("".join(json.dumps({"n": number}) + "\n" for number in numbers))
        hidden.rename(self.folder / name)
        self.count = numbers.stop

    def _run(self) -> None:
        while not self._stopping.wait(_FILE_SECONDS):
            self.write()


class NumberCopies:
    """The streaming query and the job, in one streaming session. Both write Parquet files."""

    def __init__(self, cluster: HostCluster, record: LoadRecord) -> None:
        self.files = NumberFiles(cluster.shared / "numbers")
        self._sinks = {name: cluster.shared / name for name in (_STREAM, _JOB)}
        self._session = UserSession(cluster, record, "streams", kind="streaming")

    def start(self) -> None:
        """Start the query and deploy the job. Both have committed a batch then."""
        self.files.write()
        path = self.files.folder
        source = f"CREATE STREAM numbers (n BIGINT) FROM json OPTIONS ('path' = '{path}')"
        self._session.must_run(Work.SETUP, source)
        self._session.must_run(
            Work.SETUP,
            f"SAVE STREAM numbers TO parquet IDENTIFIED BY {_STREAM} TRIGGER 1 SECOND"
            f" OPTIONS ('path' = '{self._sinks[_STREAM]}')",
        )
        self._deploy(source)
        self.files.start()

    def stop(self, reader: UserSession) -> None:
        """Write no further number, wait until all are copied, and stop the query and the job."""
        self.files.stop()
        wait_until(
            lambda: all(
                len(counts) >= self.files.count for counts in self.count_copies(reader).values()
            ),
            seconds=_WAIT_SECONDS,
            what=f"the query and the job have copied all {self.files.count} numbers",
            every=2.0,
        )
        client = self._session.client
        self._repeat(lambda: client.act_on_stream(_STREAM, "stop"))
        self._repeat(lambda: client.stop_job(_JOB, savepoint=False))
        wait_until(
            lambda: (
                client.stream(_STREAM)["state"] == "stopped"
                and client.job(_JOB)["state"] == "stopped"
                and client.job(_JOB)["deployment"] is None
            ),
            seconds=_WAIT_SECONDS,
            what="the query and the job have stopped",
            every=0.5,
        )

    def count_copies(self, reader: UserSession) -> Mapping[str, Mapping[int, int]]:
        """Return how often each sink has each number."""
        return {
            name: {
                int(number): int(count)
                for number, count in reader.read(
                    f"SELECT n, count(*) FROM parquet.`{path}` GROUP BY n"
                )
            }
            for name, path in self._sinks.items()
        }

    def _deploy(self, source: str) -> None:
        client = self._session.client
        session: str = client.session(self._session.id)["name"]
        manifest = {
            "name": _JOB,
            "description": "Copies numbers",
            "target-table": "job_files",
            "session": session,
            "trigger": "1 second",
            "sql": "SELECT n FROM job_numbers",
            "metadata-columns": False,
            "spark-properties": {"spark.sql.shuffle.partitions": "1"},
        }
        definitions = (
            f"{source.replace('numbers', 'job_numbers', 1)};\n"
            f"CREATE SINK job_files TO parquet OPTIONS ('path' = '{self._sinks[_JOB]}');\n"
        )
        planned = client.plan_jobs(
            {
                "manifests": [{"path": "job.yaml", "text": json.dumps(manifest)}],
                "definitions": [{"path": "job.sql", "text": definitions}],
            }
        )
        assert self._wait_deployment(planned["id"], {"planned", "rejected"})["state"] == "planned"
        client.apply_plan(planned["id"])
        applied = self._wait_deployment(planned["id"], {"applied", "failed"})
        assert applied["state"] == "applied", applied

    def _wait_deployment(self, deployment_id: str, states: set[str]) -> Json:
        def reached() -> Json | None:
            deployment = self._session.client.deployment(deployment_id)
            return deployment if deployment["state"] in states else None

        deployment = wait_until(reached, seconds=_WAIT_SECONDS, what=f"{states}", every=0.2)
        assert deployment is not None
        return deployment

    def _repeat(self, call: Callable[[], Any]) -> None:
        """Call until the cluster has done it. A repeated call may find that it is done."""

        def is_done() -> bool:
            try:
                call()
            except HeadraceError as error:
                return error.code in {"job_state_conflict", "stream_state_conflict"}
            return True

        wait_until(is_done, seconds=_WAIT_SECONDS, what="the cluster has taken the call")
