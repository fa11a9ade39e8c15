"""What is asked of a result."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.result import Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """How one statement's result is to be written."""

    disposition: Disposition
    row_limit: int | None
    """Rows beyond it are cut off, and the result says so."""
    byte_limit: int | None
    """The result is the longest run of first rows whose batches take no more bytes than this."""
    location: str
    """This result's own directory: a path or a URI; unique to the statement and attempt."""
    inline_limit: int
    """Bytes of record batches up to which a result may be inline."""
    chunk_limit: int
    """Bytes of record batches in one chunk, unless a single row is larger."""

    @property
    def inline_bytes(self) -> int:
        """What an inline result may take: it is one chunk."""
        return min(self.inline_limit, self.chunk_limit)
