"""The rows of files as lines of JSON, in a temporary file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from headrace.cli.load.encoding import ValueMisfit, encode_value
from headrace.cli.load.file_rows import Misfits, Row, column_key
from headrace.cli.load.formats import LoadFile
from headrace.cli.load.statements import LoadColumn
from headrace.errors import InvalidRequest


class EncodedRows:
    """The lines of one load."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        """Number of rows."""
        self.size = 0
        """Size of the lines in bytes."""
        self._columns: dict[str, LoadColumn] = {}
        self._used: set[str] = set()

    def write(
        self,
        files: Sequence[LoadFile],
        columns: Sequence[LoadColumn],
        table: str,
        misfits: Misfits,
    ) -> list[LoadColumn]:
        """Write the rows of the files. Return the columns that a file has.

        A column that a row does not name is NULL in this row. Rows that do not fit go to the
        misfits.

        Raises:
            InvalidRequest: A file cannot be read, or names a column that the table does not have.
        """
        self._columns = {column_key(column.name): column for column in columns}
        with self.path.open("w", encoding="utf-8", newline="\n") as stream:
            for index, file in enumerate(files):
                for line, row in file.rows(misfits):
                    self._write_row(stream, file, index, line, row, table, misfits)
        self.size = self.path.stat().st_size
        return [column for column in columns if column.field in self._used]

    def _write_row(
        self,
        stream: TextIO,
        file: LoadFile,
        index: int,
        line: int,
        row: Row,
        table: str,
        misfits: Misfits,
    ) -> None:
        place = file.source.place(line)
        if not row:
            misfits.add(place, "the row has no columns")
            return
        values: dict[str, Any] = {"f": index, "n": line}
        for name, value in row.items():
            column = self._columns.get(column_key(name))
            if column is None:
                raise self._unknown_column(place, name, table)
            self._used.add(column.field)
            try:
                values[column.field] = encode_value(value, column.type, is_text=file.is_text)
            except ValueMisfit as error:
                misfits.add(place, f"column {name}: {error}")
                return
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        try:
            stream.write(text + "\n")
        except UnicodeEncodeError:
            misfits.add(place, "a text has half of a surrogate pair, which is no character")
            return
        self.count += 1

    def _unknown_column(self, place: str, name: str, table: str) -> InvalidRequest:
        names = [column.name for column in self._columns.values()]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"its columns: {', '.join(names)}"
        return InvalidRequest(f"{place} has the column {name!r}, but {table} has not.", hint=hint)

    def text(self) -> str:
        """Return all lines."""
        return self.path.read_text(encoding="utf-8").removesuffix("\n")

    def batches(self, max_bytes: int, max_rows: int) -> Iterator[str]:
        """Yield the lines in parts of about this size."""
        lines: list[str] = []
        size = 0
        with self.path.open(encoding="utf-8", newline="\n") as stream:
            for line in stream:
                lines.append(line)
                size += len(line.encode())
                if size >= max_bytes or len(lines) >= max_rows:
                    yield "".join(lines).removesuffix("\n")
                    lines, size = [], 0
        if lines:
            yield "".join(lines).removesuffix("\n")
