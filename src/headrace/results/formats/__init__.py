"""The formats in which clients read results. Each module writes rows as a stream of bytes."""

from __future__ import annotations


class StreamBuffer:
    """A file for a writer of a library. Its content can be removed while the file grows."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._position = 0
        self.closed = False

    def write(self, content: bytes) -> int:
        self._content += content
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: `drain` returns all content."""

    def close(self) -> None:
        self.closed = True

    def drain(self) -> bytes:
        """Return the content since the last call, and forget it."""
        content = bytes(self._content)
        self._content.clear()
        return content
