"""Streaming queries and jobs that copy or count the numbers of files."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.faults.chaos_cluster.host_cluster import HostCluster
from tests.faults.chaos_cluster.job_user import COUNTING, JobUser
from tests.faults.chaos_cluster.load import UserSession
from tests.faults.chaos_cluster.record import LoadRecord, Work
from tests.faults.chaos_cluster.stream_user import StreamUser
from tests.support.waiting import wait_until

_FILE_NUMBERS = 10
_FILE_SECONDS = 1.0
_UNTOUCHED = "copied"
"""A query that no user acts on."""
_TABLE = "copied_rows"
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


class NumberStreams:
    """All streaming queries of the load, with their users. They share one streaming session."""

    def __init__(self, cluster: HostCluster, record: LoadRecord, seed: str) -> None:
        self.files = NumberFiles(cluster.shared / "numbers")
        # Each thread has a client of its own. The session is the same: its name is.
        opened = [UserSession(cluster, record, "streams", kind="streaming") for _ in range(3)]
        self._session, stream_session, job_session = opened
        self._folders = {
            name: cluster.shared / name for name in (_UNTOUCHED, "acted_files", "job_files")
        }
        options = f"OPTIONS ('path' = '{self._folders['acted_files']}')"
        queries = {
            "acted_files": f"SAVE STREAM numbers TO parquet IDENTIFIED BY acted_files"
            f" TRIGGER 2 SECONDS {options}",
            "acted_table": f"SAVE STREAM numbers TO TABLE {_TABLE} IDENTIFIED BY acted_table"
            " TRIGGER 3 SECONDS",
        }
        self._source = (
            f"CREATE STREAM numbers (n BIGINT) FROM json OPTIONS ('path' = '{self.files.folder}')"
        )
        self.stream_user = StreamUser(stream_session, record, seed, queries)
        self.job_user = JobUser(
            job_session, record, seed, source=self._source, folder=self._folders["job_files"]
        )

    def start(self) -> None:
        """Start the queries and deploy the jobs. The jobs have committed a batch then."""
        self.files.write()
        session = self._session
        session.must_run(Work.SETUP, self._source)
        session.must_run(Work.SETUP, f"CREATE TABLE {_TABLE} (n BIGINT) USING parquet")
        session.must_run(
            Work.SETUP,
            f"SAVE STREAM numbers TO parquet IDENTIFIED BY {_UNTOUCHED} TRIGGER 2 SECONDS"
            f" OPTIONS ('path' = '{self._folders[_UNTOUCHED]}')",
        )
        self.stream_user.begin()
        self.job_user.begin()
        self.files.start()

    def stop(self, reader: UserSession) -> None:
        """Write no further number, wait until all are read, and stop the queries and the jobs."""
        self.files.stop()

        def have_all() -> bool:
            copies = {**self.count_copies(reader), "the table": self.count_rows(reader)}
            return (
                all(len(counts) >= self.files.count for counts in copies.values())
                and sum(self.count_totals(reader).values()) >= self.files.count
            )

        wait_until(
            have_all,
            seconds=_WAIT_SECONDS,
            what=f"the queries and the jobs have read all {self.files.count} numbers",
            every=2.0,
        )
        self.stream_user.end([_UNTOUCHED])
        self.job_user.end()

    def count_copies(self, reader: UserSession) -> Mapping[str, Mapping[int, int]]:
        """Return how often each sink of files has each number."""
        return {name: _count(reader, f"parquet.`{path}`") for name, path in self._folders.items()}

    def count_rows(self, reader: UserSession) -> Mapping[int, int]:
        """Return how often the table of a streaming query has each number."""
        reader.must_run(Work.CHECK, f"REFRESH TABLE {_TABLE}")
        return _count(reader, _TABLE)

    def count_totals(self, reader: UserSession) -> Mapping[int, int]:
        """Return the counts of the stateful job, by the last digit of the numbers."""
        reader.must_run(Work.CHECK, f"REFRESH TABLE {COUNTING}")
        rows = reader.read(f"SELECT k, c FROM {COUNTING}")
        return {int(digit): int(count) for digit, count in rows}


def _count(reader: UserSession, table: str) -> Mapping[int, int]:
    rows = reader.read(f"SELECT n, count(*) FROM {table} GROUP BY n")
    return {int(number): int(count) for number, count in rows}
