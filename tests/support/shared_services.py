"""Services that all processes of a test run share: whichever needs one first starts it.

A service runs until the guard of the run ends it (run_cleanup.py).
"""

from __future__ import annotations

import fcntl
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.run_cleanup import run_folder

Address = dict[str, Any]
"""What a process must know of a service to use it, as JSON can hold it."""


def shared(name: str, start: Callable[[Path], Address]) -> Address:
    """Return the address of the run's service of this name; start it unless it runs.

    `start` is given an empty folder, and returns once the service is up.
    """
    file = run_folder() / f"{name}.json"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=run_folder()))
            file.write_text(json.dumps(start(folder)))
    address: Address = json.loads(file.read_text())
    return address
