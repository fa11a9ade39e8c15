"""The processes that a home runs, found without a node: drivers and the metastore.

Run as a program, this module prints them for `headrace status`. It reads no settings and no store,
so that it starts fast and works whatever has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from headrace.config.home import HomeLayout
from headrace.control.host.metastore_supervisor import FOLDER_OPTION
from headrace.control.host.process_identity import belongs_to_owner

_LAUNCH_FILE = re.compile(r"(headrace-(se_[0-9a-f]{1,64})-[0-9]{1,9})\.(?:json|properties)")
_SUPERVISOR = "headrace.control.host.metastore_supervisor"


@dataclass(frozen=True, slots=True)
class HomeProcess:
    """A driver with its JVM, or the metastore with its supervisor."""

    kind: str
    """`driver` or `metastore`."""
    pid: int
    """Process id of the leader of its session of processes."""
    name: str | None = None
    """Launch name of a driver."""
    session_id: str | None = None


def find_home_processes(layout: HomeLayout) -> list[HomeProcess]:
    """Return what the home runs, in order of process id: each driver and metastore once."""
    found: dict[int, HomeProcess] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            described = _describe(process, layout)
            if described is not None and described.pid not in found:
                found[described.pid] = described
    return [found[pid] for pid in sorted(found)]


def _describe(process: psutil.Process, layout: HomeLayout) -> HomeProcess | None:
    """Return what a process belongs to, or None if it does not belong to the home.

    Other users of the host can start processes with the same arguments. An editor that shows a file
    of a driver has the same argument: its session of processes is led by a shell, and not by a
    driver.
    """
    arguments = process.cmdline()
    launch = _find_launch(process, arguments, layout)
    if launch is None and not _runs_metastore(process, arguments, layout):
        return None
    leader = os.getsid(process.pid)
    if not leader or (leader != process.pid and not _may_lead(leader, layout)):
        return None
    if launch is None:
        return HomeProcess("metastore", leader)
    return HomeProcess("driver", leader, launch[1], launch[2])


def _may_lead(leader: int, layout: HomeLayout) -> bool:
    """Return whether a session leader has ended, or belongs to the home itself."""
    try:
        process = psutil.Process(leader)
        arguments = process.cmdline()
        # A zombie has no arguments.
        return (
            not arguments
            or _find_launch(process, arguments, layout) is not None
            or _runs_metastore(process, arguments, layout)
        )
    except psutil.NoSuchProcess:
        return True


def _find_launch(
    process: psutil.Process, arguments: list[str], layout: HomeLayout
) -> re.Match[str] | None:
    """Return the match of the bootstrap or properties file among the arguments of a driver."""
    folders = (_resolve(layout.drivers), _resolve(layout.submitted))
    for argument in arguments:
        folder, _, name = argument.rpartition("/")
        launch = _LAUNCH_FILE.fullmatch(name)
        # A driver that runs as its owner has a folder of its own.
        if (
            launch is not None
            and _resolve(Path(folder.removesuffix(f"/{launch[1]}"))) in folders
            and belongs_to_owner(process, Path(folder))
        ):
            return launch
    return None


def _runs_metastore(process: psutil.Process, arguments: list[str], layout: HomeLayout) -> bool:
    """Return whether a process is the home's metastore or its supervisor."""
    if _SUPERVISOR in arguments and "--folder" in arguments[:-1]:
        folders = [arguments[arguments.index("--folder") + 1]]
    else:
        options = [argument for argument in arguments if argument.startswith(FOLDER_OPTION)]
        folders = [option.removeprefix(FOLDER_OPTION) for option in options]
    is_named = _resolve(layout.metastore) in {_resolve(Path(folder)) for folder in folders}
    return is_named and belongs_to_owner(process, layout.metastore)


def _resolve(path: Path) -> str:
    return os.path.realpath(path)


def main() -> int:
    """Print the processes of the home that the first argument names, one JSON object per line."""
    for process in find_home_processes(HomeLayout.at(Path(sys.argv[1]))):
        sys.stdout.write(json.dumps(asdict(process)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
