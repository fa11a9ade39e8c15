"""A text stream on top of another one."""

from __future__ import annotations

import io
from typing import TextIO


class WrappedStream(io.TextIOBase):
    """Base of the streams that change what is written to a stream of the process."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()
