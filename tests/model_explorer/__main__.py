"""Search scenarios: `python -m tests.model_explorer [NAME…]`. The exit status is 1 after a fault.

Without a name, the deep scenarios run. A name selects the scenarios whose names contain it.
"""

from __future__ import annotations

import sys

from tests.model_explorer.explore import explore
from tests.model_explorer.scenarios import DEEP, FAST


def main(names: list[str]) -> int:
    """Print a report of each search, and return the exit status."""
    chosen = [each for each in (*FAST, *DEEP) if any(name in each.name for name in names)]
    failed = False
    for scenario in chosen or DEEP:
        report = explore(scenario)
        print(report, flush=True)
        failed = failed or not report.complete
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
