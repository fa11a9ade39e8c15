"""The faults of a scenario and the log of passages: one file each, for all processes."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.points import Point

INJECT = Path(__file__).parent / "inject"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that happens once, when a process passes a point."""

    point: str
    side: str
    """`before` or `after`; of a transaction of the store also `before_commit`."""
    action: str
    """`kill`: end this process. `kill_jvm`: end the JVM of this driver. `kill_drivers`: end the
    drivers of the scenario. `kill_all`: end its nodes and drivers.
    `cut`: end all connections to PostgreSQL. `lose_answer`: raise StoreUnavailable.
    `terminate`: send SIGTERM to this process. `freeze`: stop this process, and the JVM of a driver,
    for some seconds. `pause`: make only this thread sleep. `unreachable`: raise
    BackendUnreachable."""
    hit: int = 1
    """The passage that triggers the fault, counted over all processes of the scenario."""
    seconds: float = 5.0
    """How long a process is frozen, or a thread sleeps."""

    def __str__(self) -> str:
        return f"{self.action} {self.side} {self.point}, passage {self.hit}"


class Plan:
    """The plan of one lane's processes: each scenario overwrites the plan of the last one."""

    def __init__(self, folder: Path, points: list[Point]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "plan.json"
        self._log = folder / "faults.log"
        self._history = 0
        self._points: dict[str, list[list[Any]]] = defaultdict(list)
        for point in points:
            self._points[f"{point.kind} {point.module}"].append(
                [point.first_line, point.last_line, point.name]
            )
        self.write([])

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that give a process its fault points."""
        path = [str(INJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(path), "SPARK_FAULT_PLAN": str(self._file)}

    def write(self, faults: list[Fault]) -> None:
        """Replace the faults and count all hits from zero."""
        self._history += 1
        plan = {
            "history": self._history,
            "log": str(self._log),
            "points": self._points,
            "faults": [asdict(fault) for fault in faults],
        }
        # A process that reads the file must never see half of it.
        new_file = self._file.with_suffix(".new")
        new_file.write_text(json.dumps(plan))
        new_file.replace(self._file)

    def read_passages(self) -> list[dict[str, Any]]:
        """Return the passages of this scenario: `{pid, point, side, action, statement}`.

        A process logs each passage once, and the passages of a link call once per statement.
        `action` is None if no fault happened.
        """
        if not self._log.exists():
            return []
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["history"] == self._history]

    def read_actions(self) -> list[str]:
        """Return the actions of the faults that happened in this scenario, in order."""
        return [passage["action"] for passage in self.read_passages() if passage["action"]]
