"""A second host on this machine: a process in PID and mount namespaces of its own."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from typing import Any

import pytest

_UNSHARE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


@functools.cache
def _unshare_works() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def run_on_other_host(program: str, *arguments: Any) -> Any:
    """Run a Python program in new namespaces, and return the JSON that it prints.

    The arguments are passed as JSON. Skips the test where namespaces are not permitted.
    """
    if not _unshare_works():
        pytest.skip("needs unshare(1), and the right to create PID namespaces")
    command = [*_UNSHARE, sys.executable, "-c", program, *map(json.dumps, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
