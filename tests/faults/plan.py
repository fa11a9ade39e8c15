"""What shall happen at which fault point, and what has: one file each, for all processes."""

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
    """One thing that goes wrong."""

    point: str
    side: str
    """`before` or `after`."""
    do: str
    """`kill`: this process; `kill_jvm`; `freeze`: this driver; `pause`: this thread, while others
    go on; `unreachable`: the backend is."""
    hit: int = 1
    """At which passage, counted over all processes of the history."""
    seconds: float = 5.0
    """How long a driver is frozen, or a thread pauses."""

    def __str__(self) -> str:
        return f"{self.do} {self.side} {self.point}, passage {self.hit}"


class Plan:
    """The plan of one lane's processes: a history writes its own over the last one's."""

    def __init__(self, folder: Path, points: list[Point]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "plan.json"
        self._log = folder / "faults.log"
        self._history = 0
        self._points: dict[str, list[list[Any]]] = defaultdict(list)
        for one in points:
            self._points[f"{one.kind} {one.module}"].append(
                [one.first_line, one.last_line, one.name]
            )
        self.write([])

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to have fault points."""
        path = [str(INJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(path), "FAULT_PLAN": str(self._file)}

    def write(self, faults: list[Fault]) -> None:
        """From now on these hold, and hits are counted anew."""
        self._history += 1
        plan = {
            "history": self._history,
            "log": str(self._log),
            "points": self._points,
            "faults": [asdict(one) for one in faults],
        }
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(plan))
        fresh.replace(self._file)

    def passed(self) -> list[dict[str, Any]]:
        """What this history has passed and done: `{pid, point, side, did, statement}`.

        A process tells of each passage once, of the link's once for each statement it is about.
        """
        if not self._log.exists():
            return []
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [line for line in lines if line["history"] == self._history]
