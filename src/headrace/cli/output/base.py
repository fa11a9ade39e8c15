"""Interface of the output formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Row = Sequence[Any]
"""Values of a row, as they appear in the JSON of the API."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a result. Several columns may have the same name."""

    name: str
    type: str
    """Spark SQL type, for example `decimal(10,2)`."""


class Writer(Protocol):
    """Writer of one result. Call `begin` once, `write_rows` any number of times, then `end`."""

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        """Write what precedes the rows.

        Args:
            sample: The first rows, from which a format may choose its layout. They are passed to
                `write_rows` again.

        Raises:
            FormatCannotHold: The format cannot represent the columns that the message names.
                Nothing has been written.
        """

    def write_rows(self, rows: Sequence[Row]) -> None: ...

    def end(self) -> None: ...
