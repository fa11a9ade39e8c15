"""Events as streams send them, and the newest ones in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from sse_starlette import ServerSentEvent

from headrace.api.http.serializers import event_body
from headrace.model.event import Event, EventPosition

_MAX_BYTES = 16 * 2**20
"""Largest size of the events in memory."""
_BLOCK_BYTES = 64 * 1024
"""Bytes after which a stream sends what it has collected."""


class EventFilter(NamedTuple):
    """The events that a stream sends: all, or those of some entities."""

    entity: str | None = None
    entity_id: str | None = None

    def matches(self, frame: Frame) -> bool:
        """Return whether a stream with this filter sends an event."""
        return (self.entity is None or frame.entity == self.entity) and (
            self.entity_id is None or frame.entity_id == self.entity_id
        )


ALL = EventFilter()


class Frame(NamedTuple):
    """An event as streams send it, with what filters look at."""

    position: EventPosition
    entity: str
    entity_id: str
    content: bytes


def encode_frame(event: Event) -> Frame:
    """Return the server-sent event of an event."""
    text = event_body(event).model_dump_json(by_alias=True)
    content = ServerSentEvent(data=text, event=event.entity, id=event.cursor).encode()
    return Frame(event.position, event.entity, event.entity_id, content)


class EventStream:
    """One stream: its filter, and how far it has come."""

    def __init__(self, cursor: str | None, only: EventFilter) -> None:
        self.cursor = cursor
        """Cursor of the request; None: the stream starts at the first event."""
        self.only = only
        self.position = EventPosition.parse(cursor) if cursor is not None else EventPosition()
        """Position of the last event that it has sent, or has left out."""
        self.index: int | None = None
        """Number of its next frame in memory, if it has taken frames from memory before."""
        self.page = b""
        """A page that was read and not sent yet."""


class RecentFrames:
    """The newest events, in order. Each has a number, so that a stream knows its next one."""

    def __init__(self, max_frames: int) -> None:
        self._max_frames = max_frames
        self._frames: list[Frame] = []
        self._first = 0
        """Number of the first frame."""
        self._bytes = 0
        self._start = self.end = EventPosition()
        self._block = (0, 0, b"")

    def restart(self, position: EventPosition) -> None:
        """Forget all events; those after a position follow."""
        self._first += len(self._frames)
        self._frames.clear()
        self._bytes = 0
        self._start = self.end = position

    def add(self, frames: Sequence[Frame]) -> None:
        """Add events, and forget the oldest ones beyond the limits."""
        self._frames += frames
        self._bytes += sum(len(frame.content) for frame in frames)
        self.end = frames[-1].position
        count = 0
        while len(self._frames) - count > self._max_frames or self._bytes > _MAX_BYTES:
            self._bytes -= len(self._frames[count].content)
            count += 1
        if count:
            self._start = self._frames[count - 1].position
            del self._frames[:count]
            self._first += count

    def locate(self, stream: EventStream) -> bool:
        """Find the next event of a stream; return whether all events from it on are in memory."""
        if stream.index is not None and stream.index >= self._first:
            return True
        stream.index = None
        if stream.position < self._start:
            return False
        # A stream may be further than the reader. Its next event then is not in memory yet.
        number = bisect_right(self._frames, stream.position, key=attrgetter("position"))
        if number < len(self._frames) or stream.position <= self.end:
            stream.index = self._first + number
        return True

    def has_next(self, stream: EventStream) -> bool:
        """Return whether there are events that a stream has not looked at, after `locate`."""
        return stream.index is not None and stream.index < self._first + len(self._frames)

    def take(self, stream: EventStream) -> bytes:
        """Return the next events of a stream, after `locate`; nothing if there are none."""
        if stream.index is None or not self.has_next(stream):
            return b""
        first = stream.index - self._first
        if stream.only == ALL:
            last, content = self._take_all(first)
        else:
            last, content = self._take_some(first, stream.only)
        stream.index = self._first + last
        stream.position = self._frames[last - 1].position
        return content

    def _take_all(self, first: int) -> tuple[int, bytes]:
        """Return the end of the next block and the block, which streams at one place share."""
        kept_first, kept_count, content = self._block
        is_kept = kept_first == self._first + first and kept_count
        if is_kept and (first + kept_count == len(self._frames) or len(content) >= _BLOCK_BYTES):
            return first + kept_count, content
        last, content = self._take_some(first, ALL)
        self._block = (self._first + first, last - first, content)
        return last, content

    def _take_some(self, first: int, only: EventFilter) -> tuple[int, bytes]:
        parts, size, last = list[bytes](), 0, first
        while last < len(self._frames) and size < _BLOCK_BYTES:
            frame = self._frames[last]
            last += 1
            if only.matches(frame):
                parts.append(frame.content)
                size += len(frame.content)
        return last, b"".join(parts)
