"""`make chaos`: random histories with a fault in each, from a seed that is printed first.

python -m tests.faults 200              200 histories of a new seed
python -m tests.faults 200 1234         the same histories as every run with this seed
python -m tests.faults 1 1234.17        history 17 of this seed again, alone
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.faults.chaos import ChaosReport, run_scenarios
from tests.faults.points import read_points
from tests.support import short_lived_java


def main(arguments: list[str]) -> int:
    """Return 1 if a history shows a violation, or if a full run never passed a fault point."""
    short_lived_java.apply()
    seed = arguments[1] if len(arguments) > 1 else str(random.randrange(10**6))
    print(f"seed {seed}", flush=True)
    is_full_run = "." not in seed
    count = int(arguments[0])
    seeds = [f"{seed}.{number}" for number in range(count)] if is_full_run else [seed]
    folder = Path(tempfile.mkdtemp(prefix="headrace-chaos-", dir="/tmp"))
    report = ChaosReport(read_points())
    # An interrupted run still prints the report of the histories that have ended.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: report.stopping.set())
    run_scenarios(folder, seeds, report)
    _print_report(report)
    has_failed = bool(
        report.violations or report.unknown_points or (is_full_run and report.missed_points)
    )
    if has_failed:
        print(f"\nThe logs and stores are kept in {folder}.")
    else:
        shutil.rmtree(folder)
    return int(has_failed)


def _print_report(report: ChaosReport) -> None:
    passed_count = len(report.points) - len(report.missed_points)
    print(f"\n{report.scenario_count} histories in {report.seconds:.0f} s")
    print(f"{sum(report.actions.values())} faults:")
    for (action, side, point), count in sorted(
        report.actions.items(), key=lambda entry: entry[0][2]
    ):
        print(f"{count:5}  {action:12} {side:7} {point}")
    print(f"{passed_count} of {len(report.points)} fault points passed")
    for point in report.missed_points:
        print(f"never passed: {point}")
    for point in report.unknown_points:
        print(f"passed, but missing in the list of points: {point}")
    print(f"{report.leftover_count} killed attempts had result files, which the nodes have deleted")
    print(f"{len(report.violations)} violations")
    for seed, violation in report.violations:
        print(f"\nseed {seed}:\n{violation}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
