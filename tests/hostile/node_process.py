"""A node in a process of its own that records which files and sockets it touches.

Its launcher starts no process: it writes the bootstrap of each driver to a folder, for the test.
Usage: python -m tests.hostile.node_process HOME RESULTS FOLDER
"""

from __future__ import annotations

import json
import os
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.support.in_process_node import make_settings, serve_node
from tests.support.scripted_driver import ScriptedLauncher

from headrace.control.host.process_identity import this_host
from headrace.control.launchers.base import Handle, LaunchRequest

_WATCHED = {
    *("open", "os.listdir", "os.scandir", "os.remove", "os.rename", "os.rmdir", "os.mkdir"),
    *("os.symlink", "os.link", "os.chmod", "os.truncate", "shutil.rmtree", "os.chdir"),
    *("socket.connect", "subprocess.Popen", "os.exec", "os.system", "os.posix_spawn"),
}
_RESULT_FILE = re.compile(r"manifest\.json|part-[A-Za-z0-9-]{1,100}\.arrow")
"""Files of a result are opened relative to their directory, whose access is recorded as well."""


class BootstrapWriter(ScriptedLauncher):
    """Writes the bootstrap of each driver to a file that is named after the launch."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def start(self, request: LaunchRequest) -> Handle:
        handle = super().start(request)
        draft = self._folder / f"{request.name}.draft"
        draft.write_text(request.bootstrap.model_dump_json())
        draft.rename(self._folder / f"{request.name}.json")
        return handle


class Watch:
    """An audit hook that records accesses outside the allowed places."""

    def __init__(self, log: Path, allowed: list[Path]) -> None:
        self._allowed = [str(path.resolve()) for path in allowed]
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _WATCHED:
            return
        place = arguments[1] if event == "socket.connect" else arguments[0]
        if not self._is_allowed(event, place):
            os.write(self._log, f"{event} {place!r}\n".encode())

    def _is_allowed(self, event: str, place: object) -> bool:
        if event == "socket.connect" or not isinstance(place, str | bytes | os.PathLike):
            return isinstance(place, int)
        path = os.fsdecode(place)
        if event == "open" and _RESULT_FILE.fullmatch(path):
            return True
        # An import lists each directory of the path that has changed since the last one.
        if event == "os.listdir" and path in sys.path:
            return True
        resolved = os.path.normpath(os.path.join(os.getcwd(), path))  # noqa: PTH109, PTH118
        return any(resolved == base or resolved.startswith(f"{base}/") for base in self._allowed)


def main(home: Path, results: Path, folder: Path) -> None:
    # The drivers of others do not renew: their leases must outlast all attacks.
    lease = {"duration": "2h", "cancel_grace": "2h"}
    settings = make_settings(home, results={"location": str(results)}, lease=lease, statements={})
    root = Path(__file__).parents[2]
    python = [Path(sys.prefix), Path(sys.base_prefix), Path(sysconfig.get_paths()["stdlib"])]
    # A process reads the identity of its host once: before the watch, as it is not in the home.
    this_host()
    with serve_node(settings, BootstrapWriter(folder)) as node:
        # Modules that the first requests import are code, not data.
        code = [root / "src", root / "tests", *python, Path("/usr/share/zoneinfo")]
        sys.addaudithook(Watch(folder / "accesses.log", [home, results, folder, *code]))
        (folder / "ready.json").write_text(json.dumps(node.address))
        sys.stdin.read()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
