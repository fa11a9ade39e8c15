"""What a home runs on this host, whether or not a node lives.

Programs of the node find and end the processes, because commands import no package of a node.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from headrace.client.http import Json
from headrace.config.extras import find_missing
from headrace.errors import HeadraceError


def list_home_processes(home: Path) -> list[Json]:
    """Return the drivers and the metastore of a home; none in the light client."""
    if not home.exists() or find_missing("server"):
        return []
    output = _run("headrace.control.host.home_processes", home, str(home))
    return [json.loads(line) for line in output.splitlines()]


def end_home_processes(home: Path) -> Json:
    """End what a home runs. Return what has ended, what remains, and the problems."""
    if not home.exists() or find_missing("server"):
        return {"ended": [], "remaining": [], "problems": []}
    report: Json = json.loads(_run("headrace.control.host_shutdown", home))
    return report


def describe_processes(processes: list[Json], names: Mapping[str, str] | None = None) -> str:
    """Return processes as text: `driver process 12 (session se_…), metastore process 13`.

    Args:
        names: Names of sessions, by their ids. A session without an entry is shown as its id.
    """
    return ", ".join(map(partial(_describe_process, names or {}), processes))


def _describe_process(names: Mapping[str, str], process: Json) -> str:
    text, session = f"{process['kind']} process {process['pid']}", process["session_id"]
    if not session:
        return text
    return f"{text} ({names.get(session, f'session {session}')})"


def _run(module: str, home: Path, *arguments: str) -> str:
    """Return the output of a program of the node. Raises HeadraceError if it fails."""
    # The program needs no token, and would pass it on to its children.
    environment = {name: value for name, value in os.environ.items() if name != "HEADRACE_TOKEN"}
    run = subprocess.run(
        [sys.executable, "-P", "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HEADRACE_HOME": str(home)},
    )
    if run.returncode != 0:
        last_line = run.stderr.strip().rpartition("\n")[2]
        raise HeadraceError(f"The processes of the home {home} cannot be examined: {last_line}")
    return run.stdout
