"""What every output format does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Row = Sequence[Any]
"""A row's values as the API's JSON has them."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a result; names may repeat."""

    name: str
    type: str
    """A Spark SQL type, e.g. `decimal(10,2)`."""


class Writer(Protocol):
    """Writes one result. `rows` may come any number of times between `begin` and `end`."""

    def begin(self, columns: Sequence[OutputColumn], sample: Sequence[Row]) -> None:
        """`sample` is the first rows, which `rows` gives again; a layout may go by them.

        Raises FormatCannotHold, naming the columns, before anything is written.
        """

    def rows(self, rows: Sequence[Row]) -> None: ...

    def end(self) -> None: ...
