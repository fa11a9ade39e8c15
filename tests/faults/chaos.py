"""Many histories, in two lanes at once, and what was seen in all of them."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.cluster import Catalog, drivers
from tests.faults.history import History
from tests.faults.invariants import submits_gave_one_statement, violations
from tests.faults.lane import Lane
from tests.faults.plan import Fault
from tests.faults.points import Point
from tests.faults.recipes import CHEAP, USUAL, recipe
from tests.support.processes import end, processes_of

_OFTEN = (
    *("store node.renew", "store link.renew", "store link.ended", "store link.claim"),
    *("store statement.submit", "store statement.execute", "store takeover.fence"),
    *("link loop:renew", "link loop:poll", "link loop:ended", "launcher takeover:poll"),
)
"""Points that a history passes several times."""
_ONLY_EMBEDDED = ("store node.close_sessions", "launcher node:poll")


@dataclass(frozen=True, slots=True)
class Script:
    """One history, all of it made from its seed."""

    seed: str
    """`<seed of the run>.<number>`."""
    postgres: bool
    steps: tuple[str, ...]
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        where = "two nodes on PostgreSQL" if self.postgres else "a node on SQLite"
        wrong = "; ".join(map(str, self.faults)) or "nothing goes wrong"
        return f"{where}: {', '.join(self.steps)}: {wrong}"


def script(seed: str, found: list[Point]) -> Script:
    """Each point has its turn, in an order that the run's seed gives."""
    run, _, number = seed.partition(".")
    order = random.Random(run).sample(found, len(found))
    turn = int(number)
    point = order[turn % len(order)]
    chance = random.Random(seed)
    made = recipe(point.name)
    steps = [*chance.choices(CHEAP, k=2), *made.steps] if made else chance.choices(USUAL, k=4)
    steps.append(chance.choice(CHEAP))
    embedded = point.name in _ONLY_EMBEDDED
    postgres = not embedded and (turn + turn // len(order)) % 2 == 1
    if postgres and chance.random() < 0.2:
        steps.append("store_restart")
    first = made.first if made else ()
    return Script(seed, postgres, tuple(steps), (*first, *_fault(point, chance)))


def _fault(point: Point, chance: random.Random) -> list[Fault]:
    deeds = ["kill", "kill", "kill_jvm", "kill_jvm", "freeze"] if point.in_driver else ["kill"]
    hit = chance.randint(1, 3) if point.name in _OFTEN else 1
    fault = Fault(point.name, chance.choice(["before", "after"]), chance.choice(deeds), hit)
    return [] if chance.random() < 0.05 else [fault]


@dataclass(frozen=True, slots=True)
class Wrong:
    """What one history has shown."""

    unrest: list[str]
    """It did not come to rest."""
    rows: list[str]
    """Invariants of the store that do not hold."""


def play(lane: Lane, made: Script) -> Wrong:
    """Plays one history."""
    lane.plan.write(list(made.faults))
    history = History(lane, made.seed)
    try:
        history.run(list(made.steps))
        rows = lane.rows()
    except Exception:  # noqa: BLE001 - whatever it is, it is what this history has shown
        return Wrong([f"no rest: {traceback.format_exc()}"], [])
    told = [*violations(rows), *submits_gave_one_statement(history.answers, rows.statements)]
    return Wrong([], told)


@dataclass
class Found:
    """What the histories of a run have shown."""

    points: list[Point]
    histories: int = 0
    seconds: float = 0.0
    wrong: list[tuple[str, str]] = field(default_factory=list)
    """Seed, and what was seen."""
    passed: Counter[str] = field(default_factory=Counter)
    done: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Deed, side and point."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set from outside: no other history begins."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def never(self) -> list[str]:
        """Points that no history came to."""
        return [one.name for one in self.points if one.name not in self.passed]

    @property
    def unknown(self) -> list[str]:
        """What was passed and is not enumerated."""
        return sorted(set(self.passed) - {one.name for one in self.points})

    def add(self, lane: Lane, seed: str, wrong: list[str]) -> None:
        with self.lock:
            self.histories += 1
            self.wrong += [(seed, one) for one in wrong]
            for one in lane.plan.passed():
                self.passed[one["point"]] += one["side"] == "before"
                if one["did"] is not None:
                    self.done[one["did"], one["side"], one["point"]] += 1


class Runner:
    """Runs the scripts of one lane, one after the other."""

    def __init__(self, folder: Path, catalog: Catalog, found: Found, *, postgres: bool) -> None:
        self._folder = folder
        self._catalog = catalog
        self._found = found
        self._postgres = postgres
        self._lanes = 0
        self._seen: set[str] = set()
        self._lane: Lane | None = None

    def run(self, scripts: deque[Script]) -> None:
        try:
            while scripts and not self._found.stopping.is_set():
                self._one(scripts.popleft())
        finally:
            self._drop()

    def _one(self, made: Script) -> None:
        began = time.monotonic()
        lane = self._whole_lane()
        wrong = play(lane, made)
        if wrong.unrest:
            # Nothing is known of this lane any more; its folder stays to be looked into.
            self._lane = None
        fresh = [one for one in [*wrong.unrest, *wrong.rows] if one not in self._seen]
        self._seen.update(fresh)
        self._found.add(lane, made.seed, fresh)
        if wrong.unrest:
            lane.close()
        print(f"{made.seed}  {time.monotonic() - began:5.1f} s  {made}", flush=True)
        for one in fresh:
            print(f"{made.seed}  VIOLATION  {one}", flush=True)

    def _whole_lane(self) -> Lane:
        if self._lane is None:
            self._lanes += 1
            name = f"{'postgres' if self._postgres else 'sqlite'}{self._lanes}"
            self._lane = Lane(
                self._folder / name,
                self._catalog,
                self._found.points,
                number=self._lanes,
                postgres=self._postgres,
            )
        return self._lane

    def _drop(self) -> None:
        if self._lane is not None:
            self._lane.close()
            self._lane = None


def chaos(folder: Path, seeds: list[str], found: Found) -> None:
    """Plays the histories of these seeds, those on SQLite beside those on PostgreSQL."""
    began = time.monotonic()
    scripts = [script(seed, found.points) for seed in seeds]
    catalog = Catalog(folder / "catalog")
    try:
        threads = [
            threading.Thread(
                target=Runner(folder, catalog, found, postgres=postgres).run,
                args=[deque(one for one in scripts if one.postgres is postgres)],
                daemon=True,
            )
            for postgres in (False, True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        catalog.close()
        end({one for _, _, one in drivers(folder)} | processes_of(folder))
    found.seconds = time.monotonic() - began
