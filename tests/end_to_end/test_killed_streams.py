"""A stream with expectations whose driver is killed with SIGKILL while it writes batches.

Each batch reads one file, and all files have the same amounts: the sums show a batch that was
counted twice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.jobs import CountingJob
from tests.support.node import NodeProcess
from tests.support.processes import kill_with_descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

SEED = 4711
SESSION = "jobs-default"
"""The session of jobs whose manifest names none."""
EXPECT = [
    {"name": "large", "condition": "amount > 2", "on-violation": "drop"},
    {"name": "small", "condition": "amount < 9"},
    {"name": "numbered", "condition": "n IS NOT NULL", "on-violation": "fail"},
]
AMOUNTS = [None, *range(1, 10)]
ROWS = {"rows_in": 10, "rows_dropped": 3, "rows_written": 7}
"""What a batch with these amounts counts."""
VIOLATIONS = {"large": (3, 1), "small": (2, 1), "numbered": (0, 0)}
"""Violations that such a batch counts, and how many of them are NULL."""
SLOW = "reflect('java.lang.Thread', 'sleep', 30L) IS NOT NULL"
"""Makes a batch take 0.3 s."""


class CheckedJob(CountingJob):
    """A job with expectations that writes each file of its input to a sink of files."""

    def __init__(self, node: NodeProcess, folder: Path) -> None:
        super().__init__(node, folder, name="checked")
        self.manifest |= {
            "output-mode": "append",
            "trigger": "100 milliseconds",
            "sql": f"SELECT n, amount FROM numbers WHERE {SLOW}",
            "expect": EXPECT,
        }
        self.sink = folder / "sink"
        self.file_count = 0
        self.batches_before = 0
        self.files_before = 0
        """Batches, and files of the sink, before the newest backlog."""

    @property
    def definitions(self) -> str:
        options = f"'path' = '{self.folder}/input', 'maxFilesPerTrigger' = '1'"
        return (
            f"CREATE STREAM numbers (n INT, amount INT) FROM json OPTIONS ({options});\n"
            f"CREATE SINK {self.name} TO json OPTIONS ('path' = '{self.sink}');\n"
        )

    def begin_backlog(self) -> None:
        """Note what exists before the next files."""
        self.batches_before = self.file_count
        self.files_before = self.count_files()

    def count_files(self) -> int:
        """Return the number of files in the sink, also of those that no batch has published."""
        return sum(1 for _ in self.sink.glob("part-*"))

    def add_file(self, *, has_number: bool = True) -> None:
        """Add the next file. Without its last number, it violates `numbered`."""
        self.file_count += 1
        self.write_file(has_number=has_number)

    def write_file(self, *, has_number: bool = True) -> None:
        """Write the newest file, which appears whole."""
        first = (self.file_count - 1) * len(AMOUNTS)
        rows = [{"n": first + place, "amount": amount} for place, amount in enumerate(AMOUNTS)]
        if not has_number:
            rows[-1]["n"] = None
        hidden = self.folder / "input" / f".{self.file_count}"
        hidden.write_text("\n".join(map(json.dumps, rows)))
        hidden.rename(self.folder / "input" / f"{self.file_count}.json")

    def list_kept(self, file_count: int) -> list[int]:
        """Return the numbers that the sink must have after the first files."""
        return [n for n in range(file_count * len(AMOUNTS)) if (AMOUNTS[n % len(AMOUNTS)] or 0) > 2]

    def read_sink(self) -> list[int]:
        rows = self.node.rows(f"SELECT n FROM json.`{self.sink}`", SESSION)
        return sorted(int(n) for [n] in rows)

    def read_checks(self) -> Any:
        return self.node.http.get(f"/api/v1/jobs/{self.name}/expectations").json()["stream"]

    def await_counts(self) -> None:
        """Wait until the batch of each file is counted, or is known to have no counts."""

        def is_counted() -> bool:
            checks = self.read_checks()
            return bool(checks["batches"] + checks["unknown_batches"] == self.file_count)

        wait_until(is_counted, seconds=240, what="all batches are counted", every=0.3)

    def has_failed(self) -> bool:
        return bool(self.read_checks()["state"] == "failed")

    def find_commits(self, batch: int) -> list[Path]:
        """Return the files of the checkpoint that commit a batch."""
        checkpoints = self.folder / "state" / "checkpoints" / self.name
        return list(checkpoints.glob(f"*/*/commits/{batch}"))


Moment = Callable[[CheckedJob, int], bool]


def is_being_written(job: CheckedJob, batch: int) -> bool:
    return job.count_files() > job.files_before + batch - job.batches_before


def is_published(job: CheckedJob, batch: int) -> bool:
    return any((job.sink / "_spark_metadata").glob(f"{batch}*"))


def is_committed(job: CheckedJob, batch: int) -> bool:
    return bool(job.find_commits(batch))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[CheckedJob]:
    """Yield a job that is deployed, with one file."""
    node = NodeProcess(tmp_path / "home", LEASE__DURATION="15s", LEASE__RENEW="1s")
    job = CheckedJob(node, tmp_path / "job")
    job.add_file()
    job.deploy()
    yield job
    node.close()


def kill_at(job: CheckedJob, moment: Moment, batch: int) -> None:
    """Kill the Python process and the JVM of the driver at a moment of a batch."""
    driver = psutil.Process(job.node.describe_session(SESSION)["driver"]["pid"])
    what = f"{moment.__name__} of batch {batch}"
    wait_until(lambda: moment(job, batch), seconds=240, what=what, every=0.005)
    kill_with_descendants(driver)


def test_each_batch_is_counted_once_and_written_once_whenever_its_driver_is_killed(
    job: CheckedJob,
) -> None:
    chance = random.Random(SEED)
    moments: list[Moment] = [is_being_written, is_published, is_committed]
    chance.shuffle(moments)
    for moment in moments:
        job.await_counts()
        job.begin_backlog()
        for _ in range(4):
            job.add_file()
        kill_at(job, moment, job.batches_before + chance.randrange(3))
    # The next driver publishes the batches before this file, and none of the file's rows.
    job.add_file(has_number=False)
    wait_until(job.has_failed, seconds=240, what="the stream has failed", every=0.3)
    assert job.read_sink() == job.list_kept(job.file_count - 1)
    job.write_file()
    assert job.act("start", clean=False)["state"] == "applied"
    job.await_counts()

    assert job.read_sink() == job.list_kept(job.file_count)
    checks = job.read_checks()
    # The counts of a batch are not known if its driver was lost between commit and report, which a
    # driver sends each half second. It has at most the four batches of a backlog by then.
    assert checks["unknown_batches"] <= 4 * len(moments), checks
    total, count = checks["total"], checks["batches"]
    assert {key: total[key] for key in ROWS} == {key: count * ROWS[key] for key in ROWS}
    counted = {each["name"]: (each["violations"], each["nulls"]) for each in total["expectations"]}
    assert counted == {name: (count * n, count * nulls) for name, (n, nulls) in VIOLATIONS.items()}
