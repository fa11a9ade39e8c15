"""The formats of files that can be loaded, by the ends of their names."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

from headrace.cli.load import arrow_rows
from headrace.cli.load.file_rows import FileFormat, FileSource, Misfits, Numbered
from headrace.cli.load.text_rows import read_csv, read_json, read_tsv
from headrace.errors import InvalidRequest
from headrace.grammar.data_types import DataType

_JSON = FileFormat(read_json)
_ARROW = FileFormat(arrow_rows.read_arrow, types=arrow_rows.arrow_types)
_FORMATS = {
    ".csv": FileFormat(read_csv, is_text=True),
    ".tsv": FileFormat(read_tsv, is_text=True),
    ".json": _JSON,
    ".jsonl": _JSON,
    ".ndjson": _JSON,
    ".parquet": FileFormat(arrow_rows.read_parquet, types=arrow_rows.parquet_types),
    ".arrow": _ARROW,
    ".arrows": _ARROW,
}


class LoadFile:
    """A file and its format."""

    def __init__(self, path: Path) -> None:
        """Find the format. Raises InvalidRequest if the end of the name does not select one."""
        self.source = FileSource(path)
        format_ = _FORMATS.get(self.source.suffix)
        if format_ is None:
            raise InvalidRequest(
                f"The end of {str(path)!r} does not name a format that can be loaded.",
                hint=f"choose one of {', '.join(_FORMATS)}, each also with .gz",
            )
        self._format = format_

    @property
    def is_text(self) -> bool:
        return self._format.is_text

    def types(self) -> dict[str, DataType] | None:
        """Return the types that the file declares; None if it declares none.

        Raises InvalidRequest if the file cannot be read.
        """
        if self._format.types is None:
            return None
        try:
            return self._format.types(self.source)
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(self.source, error) from error

    def rows(self, misfits: Misfits) -> Iterator[Numbered]:
        """Yield the rows with their lines. Rows that are not well formed go to the misfits.

        Raises:
            InvalidRequest: The file cannot be read as a whole.
        """
        try:
            yield from self._format.read(self.source, misfits)
        except UnicodeDecodeError:
            raise InvalidRequest(f"{self.source.path} is not valid UTF-8.") from None
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(self.source, error) from error


def _unreadable(source: FileSource, error: Exception) -> InvalidRequest:
    reason = getattr(error, "strerror", None) or str(error)
    return InvalidRequest(f"{source.path} cannot be read: {reason.rstrip('.')}.")
