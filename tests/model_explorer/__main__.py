"""Search scenarios: `python -m tests.model_explorer [NAME…]`. The exit status is 1 after a fault.

Without a name, the deep scenarios run, then a search for each of the seeded bugs: it is a fault if
the explorer does not find one. A name selects the scenarios and bugs whose names contain it.
"""

from __future__ import annotations

import sys

from tests.model_explorer.explore import explore
from tests.model_explorer.scenarios import DEEP, FAST, REPORTS, Scenario
from tests.model_explorer.seeded_bugs import SEEDED_BUGS, SeededBug, seed


def main(names: list[str]) -> int:
    """Print a report of each search, and return the exit status."""
    scenarios: tuple[Scenario, ...] = DEEP
    bugs: tuple[SeededBug, ...] = SEEDED_BUGS
    if names:
        everything = (*FAST, *REPORTS, *DEEP)
        scenarios = tuple(each for each in everything if any(name in each.name for name in names))
        bugs = tuple(each for each in SEEDED_BUGS if any(name in each.name for name in names))
    results = [_search(scenario) for scenario in scenarios]
    results += [_find(bug) for bug in bugs]
    return int(not all(results))


def _search(scenario: Scenario) -> bool:
    """Print a search. Return whether it has found no violation."""
    report = explore(scenario)
    print(report, flush=True)
    return report.complete


def _find(bug: SeededBug) -> bool:
    """Print a search for a seeded bug. Return whether the explorer has found it."""
    with seed(bug):
        report = explore(bug.scenario)
    is_found = bug.is_found_by(report.violation)
    print(
        f"seeded bug {'found' if is_found else 'MISSED'}: {bug.name}", report, sep="\n", flush=True
    )
    return is_found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
