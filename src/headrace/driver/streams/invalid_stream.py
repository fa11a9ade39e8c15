"""The error of a stream or a query that the driver refuses."""

from __future__ import annotations

from headrace.errors import StatementFailed


class InvalidStream(StatementFailed):
    """The stream cannot be read, or cannot be written to its sink."""

    code = "invalid_stream"
