"""Bootstrap files of the drivers on this host: one file `<launch name>.json` each, mode 0600."""

from __future__ import annotations

import contextlib
from pathlib import Path

from headrace.model.messages import Bootstrap
from headrace.private_files import write_private


class BootstrapFiles:
    """The bootstrap files in one folder. A driver reads its file again when no node answers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Return the path of the file of a launch, which need not exist."""
        return self._folder / f"{name}.json"

    def write(self, name: str, bootstrap: Bootstrap) -> Path:
        """Write the file of a launch and return its path. Raises OSError."""
        file = self.path(name)
        write_private(file, bootstrap.model_dump_json())
        return file

    def remove(self, name: str) -> None:
        """Delete the file of a launch if it exists."""
        self.path(name).unlink(missing_ok=True)

    def announce(self, addresses: list[str]) -> None:
        """Write the node addresses into every file. Unreadable files are skipped."""
        for file in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                bootstrap = Bootstrap.model_validate_json(file.read_text())
                updated = bootstrap.model_copy(update={"nodes": addresses})
                write_private(file, updated.model_dump_json())
