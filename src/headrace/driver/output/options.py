"""Options of a result."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.result import Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Disposition, location and limits for the result of one statement."""

    disposition: Disposition
    row_limit: int | None
    """Maximum number of rows. A result with more rows is cut and marked as truncated."""
    byte_limit: int | None
    """Maximum bytes of all record batches. A larger result is cut and marked as truncated."""
    location: str
    """Directory of this result, a path or a URI, unique to the statement and its attempt."""
    inline_limit: int
    """Maximum bytes of the record batches of an inline result."""
    chunk_limit: int
    """Maximum bytes of the record batches of a chunk, unless a single row is larger."""

    @property
    def inline_bytes(self) -> int:
        """Maximum bytes of an inline result, which is one chunk."""
        return min(self.inline_limit, self.chunk_limit)
