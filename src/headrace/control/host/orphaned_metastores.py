"""Ends the metastore of a supervisor that was killed."""

from __future__ import annotations

import logging
from pathlib import Path

import psutil

_LOG = logging.getLogger("headrace.metastore")
FOLDER_OPTION = "-Dheadrace.metastore="
"""JVM option with the folder of the metastore, by which its process can be found."""
_KILL_SECONDS = 10


def kill_orphaned_metastores(folder: Path) -> None:
    """Kill the metastores of a folder, which has no supervisor.

    They would keep the files of Derby locked, and the port in use.
    """
    for process in psutil.process_iter(["cmdline"]):
        if f"{FOLDER_OPTION}{folder}" in (process.info["cmdline"] or []):
            _LOG.warning("killing process %d, a metastore without a supervisor", process.pid)
            process.kill()
            process.wait(timeout=_KILL_SECONDS)
