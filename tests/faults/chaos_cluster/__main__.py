"""`make chaos-cluster`: three nodes behind nginx, with a mixed load, faults, and checks at the end.

python -m tests.faults.chaos_cluster            10 minutes, with a new seed, which is printed first
python -m tests.faults.chaos_cluster 2          2 minutes
python -m tests.faults.chaos_cluster 10 1234    the faults of the seed 1234 again
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.faults.chaos_cluster.run import run_cluster
from tests.faults.hosts import missing_for_hosts
from tests.support import short_lived_java

_MINUTES = 10.0


def main(arguments: list[str]) -> int:
    """Return 1 after a violation, 2 if this machine cannot have hosts."""
    missing = missing_for_hosts()
    if missing is not None:
        print(f"This machine cannot run the cluster: {missing}.")
        return 2
    short_lived_java.apply()
    # An interrupted run ends its processes, too.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    minutes = float(arguments[0]) if arguments else _MINUTES
    seed = arguments[1] if len(arguments) > 1 else str(random.randrange(10**6))
    print(f"seed {seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="headrace-cluster-", dir="/tmp"))
    try:
        report = run_cluster(folder, seed, 60 * minutes)
    except BaseException:
        print(f"The logs and homes are kept in {folder}.")
        raise
    report.print()
    if report.violations:
        print(f"\nThe logs and homes are kept in {folder}.")
    else:
        shutil.rmtree(folder)
    return int(bool(report.violations))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
