"""Bootstrap files of the drivers on this host, mode 0600: `<name>.json` in one folder."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headrace.model.messages import Bootstrap
from headrace.private_files import write_private


class BootstrapFiles:
    """The files in a folder. Drivers look into them again when no node answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def file(self, name: str) -> Path:
        """Where that of a launch is."""
        return self._folder / f"{name}.json"

    def write(self, name: str, bootstrap: Bootstrap) -> Path:
        file = self.file(name)
        write_private(file, bootstrap.model_dump_json())
        return file

    def remove(self, name: str) -> None:
        """Also where there is none."""
        self.file(name).unlink(missing_ok=True)

    def announce(self, addresses: list[str]) -> None:
        """Names these nodes to all drivers."""
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                known = Bootstrap.model_validate_json(file.read_text())
                write_private(file, known.model_copy(update={"nodes": addresses}).model_dump_json())
