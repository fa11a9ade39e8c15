"""`make chaos`: random histories with a fault in each, from a seed that is printed first.

python -m tests.faults 200              200 histories of a new seed
python -m tests.faults 200 1234         the same as somebody else's run with that seed
python -m tests.faults 1234.17          one history again, alone
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.faults.chaos import Found, chaos
from tests.faults.points import points
from tests.support import short_lived_java


def main(arguments: list[str]) -> int:
    """1 when anything was wrong, or a point never passed in a run that gave each its turn."""
    short_lived_java.apply()
    seed = arguments[1] if len(arguments) > 1 else str(random.randrange(10**6))
    print(f"seed {seed}", flush=True)
    whole = "." not in seed
    seeds = [f"{seed}.{one}" for one in range(int(arguments[0]))] if whole else [seed]
    folder = Path(tempfile.mkdtemp(prefix="headrace-chaos-", dir="/tmp"))
    found = Found(points())
    # Ended early, it tells what it has seen so far.
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda _signal, _frame: found.stopping.set())
    chaos(folder, seeds, found)
    _tell(found)
    failed = bool(found.wrong or found.unknown or (whole and found.never))
    if failed:
        print(f"\nlogs and stores: {folder}")
    else:
        shutil.rmtree(folder)
    return int(failed)


def _tell(found: Found) -> None:
    print(f"\n{found.histories} histories in {found.seconds:.0f} s")
    print(f"{sum(found.done.values())} faults:")
    for (deed, side, point), count in sorted(found.done.items(), key=lambda one: one[0][2]):
        print(f"{count:5}  {deed:12} {side:7} {point}")
    print(f"{len(found.points) - len(found.never)} of {len(found.points)} points passed")
    for point in found.never:
        print(f"never passed: {point}")
    for point in found.unknown:
        print(f"not enumerated: {point}")
    print(f"{len(found.wrong)} violations")
    for seed, what in found.wrong:
        print(f"\nseed {seed}:\n{what}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
