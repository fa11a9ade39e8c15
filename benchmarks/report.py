"""The table of ratios to reach, as far as it is measured, and RESULTS.md."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchmarks.measure import Sample
from headrace import __version__


@dataclass(frozen=True)
class Row:
    """One line of the table of ratios."""

    what: str
    reach: str
    measured: str
    reached: bool | None = None
    """None: not measured in this version."""


@dataclass
class Report:
    """What a run of the benchmarks has found."""

    versions: dict[str, str] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """Sections in Markdown."""

    def add(self, what: str, reach: str, measured: str, *, reached: bool) -> None:
        self.rows.append(Row(what, reach, measured, reached))
        sys.stderr.write(f"    {what}: {measured} (to reach: {reach})\n")

    def table(self) -> str:
        """The ratios in Markdown."""
        lines = ["| what | to reach | measured | |", "|---|---|---|---|"]
        for row in [
            *self.rows,
            *(each for each in UNMEASURED if each.what not in self._measured()),
        ]:
            verdict = {True: "reached", False: "**missed**", None: ""}[row.reached]
            lines.append(f"| {row.what} | {row.reach} | {row.measured} | {verdict} |")
        return "\n".join(lines)

    def write(self, file: Path) -> None:
        """The whole report, with what it was measured on."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        parts = [
            "# Benchmark results",
            (
                "Written by `make bench`; do not edit. Every figure is a median; the ratios "
                "compare what was measured in this one run, in interleaved rounds."
            ),
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC. {machine()}. {versions}.",
            self.table(),
            *self.details,
        ]
        file.write_text("\n\n".join(parts) + "\n")

    def _measured(self) -> set[str]:
        return {row.what for row in self.rows}


def machine() -> str:
    """Cores, memory, system."""
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[2]
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}, "
        f"load average of the last 15 minutes {load:.1f}"
    )


def versions(peers: dict[str, str]) -> dict[str, str]:
    """What was measured, by name."""
    return {
        "Headrace": __version__,
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        **peers,
    }


def in_ms(samples: dict[str, Sample], reference: str) -> str:
    """Medians, spreads and ratios in Markdown."""
    base = samples[reference].median
    lines = ["| | median ms | 10 % to 90 % | ratio |", "|---|--:|--:|--:|"]
    for name, sample in samples.items():
        low, high = sample.spread
        spread = f"{low * 1000:.1f} to {high * 1000:.1f}"
        ratio = f"{sample.median / base:.2f}×"
        lines.append(f"| {name} | {sample.median * 1000:.1f} | {spread} | {ratio} |")
    return "\n".join(lines)


SELECT_ONE = "`SELECT 1`, HTTP submit to rows, warm session, against in-process PySpark"
BELOW_PEERS = "the same, against Spark Connect and the Spark Thrift Server"
ONE_JOB = "a small query with a Spark job, the same way"
ROWS = "5 million rows to an Arrow client, against in-process `toArrow()`"
NODE_MEMORY = "growth of the node's memory meanwhile"
READS = "status reads on one node"
SUBMITS = "submits on one node"
CLAIMS = "claim with 1,000,000 finished statements, against 1,000"
WARM = "new session on a warm driver, submit to rows"
BACKEND_CALLS = "backend calls for 1,000 status reads of a running batch query"
CTAS = "CTAS of 10 million rows, against plain Spark CTAS"

UNMEASURED = [
    Row(SELECT_ONE, "≤ 1.20×", "not in this run"),
    Row(BELOW_PEERS, "below both", "not in this run"),
    Row(ONE_JOB, "≤ 1.50×", "not in this run"),
    Row(ROWS, "≤ 1.25×", "not in this run"),
    Row(NODE_MEMORY, "< 200 MiB", "not in this run"),
    Row(CTAS, "≤ 1.05×", "not in this run"),
    Row(READS, "≥ 1,000/s", "not in this run"),
    Row(SUBMITS, "≥ 300/s", "not in this run"),
    Row(CLAIMS, "≤ 1.2×", "not in this run"),
    Row(WARM, "≤ 1 s", "not in this run"),
    Row(BACKEND_CALLS, "0", "not in this run"),
    Row("streaming rows/s under supervision, against a bare `writeStream`", "≥ 0.98×", "later"),
    Row("SIGKILL of a node, until another serves all it owned", "≤ lease + 2 s", "later"),
    Row("plan of 1,000 manifests", "≤ 2 s", "later"),
]
