"""Scenarios from seeds, played in two lanes in parallel, and the report of a run."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.cluster import LEASE_SECONDS, Catalog, find_drivers
from tests.faults.history import History
from tests.faults.hosts import missing_for_hosts
from tests.faults.invariants import (
    check_healthy_drivers_keep_their_leases,
    check_submits_are_idempotent,
    find_violations,
)
from tests.faults.lane import ChaosLane, Deployment, LaneKind
from tests.faults.leftovers import delete_leftovers
from tests.faults.plan import Fault
from tests.faults.points import Point
from tests.faults.recipes import (
    CHEAP,
    FREEZES,
    HARMS_DRIVERS,
    HARMS_DRIVERS_OF_EMBEDDED_NODE,
    USUAL,
    find_recipe,
)
from tests.support.processes import end, processes_of

_FREQUENT = (
    *("store node.renew", "store link.renew", "store link.ended", "store statement.submit"),
    "store takeover.fence",
    *("link lease_renewal:renew", "link loop:poll", "link loop:ended", "launcher takeover:poll"),
)
"""Points that a scenario passes several times."""
_ONLY_EMBEDDED = ("store node.close_sessions", "store launch.early")
_ONLY_CLUSTERED = ("store node.register#2",)
_ACTIONS_IN_DRIVERS = ["kill", "kill", "kill_jvm", "kill_jvm", "freeze", "terminate"]
_ACTIONS_IN_NODES = ["kill", "kill", "kill", "freeze", "terminate", "slow"]
_HARMFUL_ACTIONS = {"kill", "kill_jvm", "freeze", "terminate"}
"""Actions that may cost a driver its lease if they happen in the driver."""
_FREEZE_SECONDS = (0.5 * LEASE_SECONDS, 1.7 * LEASE_SECONDS)
_SLOW_CALL_SECONDS = 12.0
_DEFAULT_TIMES_SHARE = 0.06
_HOSTS_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Scenario:
    """The steps and faults of one history, determined by its seed."""

    seed: str
    """`<seed of the run>.<number>`."""
    lane: LaneKind
    steps: tuple[str, ...]
    faults: tuple[Fault, ...]

    @property
    def may_lose_drivers(self) -> bool:
        """Whether a driver may lose its lease: a fault or a step ends or freezes drivers."""
        harmful = HARMS_DRIVERS | (HARMS_DRIVERS_OF_EMBEDDED_NODE if self.lane.embedded else set())
        return not harmful.isdisjoint(self.steps) or any(
            fault.action in _HARMFUL_ACTIONS
            and (fault.point.startswith("link ") or self.lane.embedded)
            for fault in self.faults
        )

    def __str__(self) -> str:
        faults = "; ".join(map(str, self.faults)) or "no fault"
        return f"{self.lane}: {', '.join(self.steps)}: {faults}"


def make_scenario(seed: str, points: list[Point]) -> Scenario:
    """Return the scenario of a seed.

    The scenarios of a run take the points in turn, in an order that the seed of the run gives.
    """
    run, _, number = seed.partition(".")
    order = random.Random(run).sample(points, len(points))
    turn = int(number)
    point = order[turn % len(order)]
    chance = random.Random(seed)
    recipe = find_recipe(point.name)
    steps = [*chance.choices(CHEAP, k=2), *recipe.steps] if recipe else chance.choices(USUAL, k=4)
    steps.append(chance.choice(CHEAP))
    lane = _choose_lane(point, turn % len(order) + turn // len(order), chance)
    if lane.deployment is not Deployment.SQLITE and chance.random() < 0.2:
        steps.append("store_restart")
    if lane.deployment is Deployment.HOSTS and chance.random() < 0.4:
        steps.append("lost_host")
    if chance.random() < 0.3:
        steps.append(chance.choice(FREEZES))
    first_faults = recipe.first if recipe else ()
    return Scenario(seed, lane, tuple(steps), (*first_faults, *_choose_fault(point, chance)))


def _choose_lane(point: Point, turn: int, chance: random.Random) -> LaneKind:
    default_times = chance.random() < _DEFAULT_TIMES_SHARE
    if point.name in _ONLY_EMBEDDED or (turn % 2 == 0 and point.name not in _ONLY_CLUSTERED):
        return LaneKind(Deployment.SQLITE, default_times)
    if chance.random() < _HOSTS_SHARE and missing_for_hosts() is None:
        return LaneKind(Deployment.HOSTS)
    return LaneKind(Deployment.POSTGRES, default_times)


def _choose_fault(point: Point, chance: random.Random) -> list[Fault]:
    action = chance.choice(_ACTIONS_IN_DRIVERS if point.in_driver else _ACTIONS_IN_NODES)
    if action == "slow":
        # A slow backend, or a slow store: only the calling thread waits.
        action, seconds = "pause", _SLOW_CALL_SECONDS
    else:
        seconds = chance.choice(_FREEZE_SECONDS)
    hit = chance.randint(1, 3) if point.name in _FREQUENT else 1
    fault = Fault(point.name, chance.choice(["before", "after"]), action, hit, seconds)
    return [] if chance.random() < 0.05 else [fault]


@dataclass(frozen=True, slots=True)
class Violations:
    """The violations that one scenario shows."""

    unrest: list[str]
    """Why the nodes and drivers did not come to rest."""
    rows: list[str]
    """Invariants of the store that do not hold."""


def play_scenario(lane: ChaosLane, scenario: Scenario) -> Violations:
    """Play a scenario in a lane and check the store after it."""
    lane.plan.write(list(scenario.faults))
    history = History(lane, scenario.seed)
    try:
        last_event = max((row["id"] for row in lane.read_rows().events), default=0)
        history.run(list(scenario.steps))
        rows = lane.read_rows()
    except Exception:  # noqa: BLE001 - every error is a violation that the report must show
        return Violations([f"not at rest: {traceback.format_exc()}"], [])
    violations = find_violations(rows)
    violations += check_submits_are_idempotent(history.answers, rows.statements)
    violations += [
        f"session {driver.session} has ended, but a process of epoch {driver.epoch} was alive"
        for driver in history.survivors
    ]
    if not scenario.may_lose_drivers:
        violations += check_healthy_drivers_keep_their_leases(rows, after=last_event)
    return Violations([], violations)


@dataclass
class ChaosReport:
    """The counts and violations of all scenarios of a run."""

    points: list[Point]
    scenario_count: int = 0
    seconds: float = 0.0
    violations: list[tuple[str, str]] = field(default_factory=list)
    """Seed and message."""
    passed: Counter[str] = field(default_factory=Counter)
    actions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Counts of faults that happened, by action, side and point."""
    leftover_count: int = 0
    """Number of killed attempts whose result files the nodes have deleted."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set by a signal: no further scenario begins."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def missed_points(self) -> list[str]:
        """Points that no scenario has passed."""
        return [point.name for point in self.points if point.name not in self.passed]

    @property
    def unknown_points(self) -> list[str]:
        """Points that a process has passed but the code does not list."""
        return sorted(set(self.passed) - {point.name for point in self.points})

    def add_violations(self, seed: str, violations: list[str]) -> None:
        """Print violations and keep them for the report."""
        for violation in violations:
            print(f"{seed}  VIOLATION  {violation}", flush=True)
        with self.lock:
            self.violations += [(seed, violation) for violation in violations]

    def add_leftovers(self, seed: str, count: int, violations: list[str]) -> None:
        """Count deleted attempts, and keep violations under the seed of the last scenario."""
        self.add_violations(seed, violations)
        with self.lock:
            self.leftover_count += count

    def add_scenario(self, lane: ChaosLane) -> None:
        """Count the points and faults that the last scenario of a lane has passed."""
        with self.lock:
            self.scenario_count += 1
            for passage in lane.plan.read_passages():
                self.passed[passage["point"]] += passage["side"] == "before"
                if passage["action"] is not None:
                    self.actions[passage["action"], passage["side"], passage["point"]] += 1


class LaneRunner:
    """Plays scenarios one after the other in one lane."""

    def __init__(self, folder: Path, catalog: Catalog, report: ChaosReport) -> None:
        self._folder = folder
        self._catalog = catalog
        self._report = report
        self._lane_count = 0
        self._reported: set[str] = set()
        self._lane: ChaosLane | None = None
        self._last_seed = ""

    def run(self, scenarios: deque[Scenario]) -> None:
        try:
            while scenarios and not self._report.stopping.is_set():
                self._play(scenarios.popleft())
        finally:
            self._close_lane()

    def _play(self, scenario: Scenario) -> None:
        begin = time.monotonic()
        lane = self._ensure_lane(scenario.lane)
        violations = play_scenario(lane, scenario)
        if violations.unrest:
            # The state of this lane is undefined: use a new one, keep the folder for analysis.
            self._lane = None
        messages = [
            message
            for message in [*violations.unrest, *violations.rows]
            if message not in self._reported
        ]
        self._reported.update(messages)
        self._last_seed = scenario.seed
        self._report.add_scenario(lane)
        if violations.unrest:
            lane.close()
        print(f"{scenario.seed}  {time.monotonic() - begin:5.1f} s  {scenario}", flush=True)
        self._report.add_violations(scenario.seed, messages)

    def _ensure_lane(self, kind: LaneKind) -> ChaosLane:
        if self._lane is not None and self._lane.kind != kind:
            self._close_lane()
        if self._lane is None:
            self._lane_count += 1
            self._lane = ChaosLane(
                self._folder / f"{kind.deployment.name.lower()}{self._lane_count}",
                self._catalog,
                self._report.points,
                number=self._lane_count,
                kind=kind,
            )
        return self._lane

    def _close_lane(self) -> None:
        """Check what the scenarios of the lane have left, and close it."""
        if self._lane is None:
            return
        lane, self._lane = self._lane, None
        try:
            count, leftovers = delete_leftovers(lane)
        except Exception:  # noqa: BLE001 - every error is a violation that the report must show
            count, leftovers = 0, [f"not at rest: {traceback.format_exc()}"]
        self._report.add_leftovers(self._last_seed, count, leftovers)
        lane.close()


def run_scenarios(folder: Path, seeds: list[str], report: ChaosReport) -> None:
    """Play the scenarios of these seeds: those on SQLite and those on PostgreSQL in parallel.

    Scenarios of one kind of lane follow each other, so that few lanes start.
    """
    begin = time.monotonic()
    scenarios = [make_scenario(seed, report.points) for seed in seeds]
    catalog = Catalog(folder / "catalog")
    try:
        threads = [
            threading.Thread(
                target=LaneRunner(folder, catalog, report).run,
                args=[deque(sorted(chosen, key=lambda scenario: str(scenario.lane)))],
                daemon=True,
            )
            for chosen in (
                [scenario for scenario in scenarios if scenario.lane.embedded],
                [scenario for scenario in scenarios if not scenario.lane.embedded],
            )
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        catalog.close()
        end({driver.process for driver in find_drivers(folder)} | processes_of(folder))
    report.seconds = time.monotonic() - begin
