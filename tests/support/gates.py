"""Gates: files for which a query waits, so that no test depends on how long a query takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Gate:
    """A query of `rows` waits while the gate is closed. It is open at first.

    The query runs a program of the shell, which outlives a driver that is killed until the gate
    opens.
    """

    def __init__(self, folder: Path) -> None:
        """Write the program to a folder."""
        self._closed = folder / "gate-is-closed"
        self._program = folder / "gate.sh"
        self._program.write_text(f"while [ -e '{self._closed}' ]; do sleep 0.05; done; cat\n")

    @property
    def rows(self) -> str:
        """A relation, in FROM, with the row `id = 0`. Its task waits."""
        transform = f"TRANSFORM(id) USING 'sh {self._program}' AS (id BIGINT)"
        return f"(SELECT {transform} FROM range(0, 1, 1, 1))"

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate for the block."""
        self.close()
        try:
            yield
        finally:
            self.open()

    def close(self) -> None:
        self._closed.touch()

    def open(self) -> None:
        self._closed.unlink(missing_ok=True)
