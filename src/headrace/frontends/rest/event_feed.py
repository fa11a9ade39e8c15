"""The feed of events: one reader for all event streams of a node.

The reader reads new events once after a wake-up, turns each into the bytes of a server-sent event,
and keeps the newest ones in memory. All streams send these bytes. A stream that starts in the past,
or whose client reads too slowly, reads pages of the store until it is back at the events in memory.
A slow client costs the memory of one page, and delays no other client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from headrace.control.long_polls import LongPolls, Subscribe
from headrace.errors import StoreUnavailable
from headrace.frontends.rest.serializers import event_body
from headrace.model.event import Event, EventPosition

_MAX_BYTES = 16 * 2**20
"""Largest size of the events in memory."""
_BLOCK_BYTES = 64 * 1024
"""Bytes after which a stream sends what it has collected."""


class EventFilter(NamedTuple):
    """The events that a stream sends: all, or those of some entities."""

    entity: str | None = None
    entity_id: str | None = None
    owners: frozenset[str] | None = None

    def matches(self, frame: Frame) -> bool:
        """Return whether a stream with this filter sends an event."""
        return (
            (self.entity is None or frame.entity == self.entity)
            and (self.entity_id is None or frame.entity_id == self.entity_id)
            and (self.owners is None or frame.owner in self.owners)
        )


ALL = EventFilter()


class Frame(NamedTuple):
    """An event as streams send it, with what filters look at."""

    position: EventPosition
    entity: str
    entity_id: str
    owner: str | None
    content: bytes


def encode_frame(event: Event) -> Frame:
    """Return the server-sent event of an event."""
    text = event_body(event).model_dump_json(by_alias=True)
    content = ServerSentEvent(data=text, event=event.entity, id=event.cursor).encode()
    return Frame(event.position, event.entity, event.entity_id, event.owner, content)


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


_LOG = logging.getLogger("headrace.events")
_MAX_FRAMES = 10_000
"""Largest number of events in memory."""
_BATCH = 500
"""Largest number of events that the reader reads at once."""
_PAGE = 100
"""Largest number of events in a page of the past. Another thread may have to wait for a page."""
_MAX_PAGE_READS = 2
_MAX_PAGES = 16
"""Pages in memory, for streams that start at the same event."""
_PAGE_SECONDS = 10.0
"""Time for which a page is kept."""
_PAUSES_PER_PAGE = 3.0
"""Length of the pause after a page, in times of its read, so that others have most of the time."""
_PAUSE = 0.025
"""Shortest time between two reads of new events. After this time, the reader reads at once."""
_PAUSE_PER_STREAM = 0.002
"""Seconds by which each stream makes the pause longer. To wake a stream takes about 0.1 ms of the
event loop, so that all streams together take a twentieth of its time."""
_LONGEST_PAUSE = 1.0
_POLL_SECONDS = 1.0
"""Time between two reads without a wake-up."""
_LINGER_SECONDS = 10.0
"""Time for which the reader continues without a stream."""


class EventReads(Protocol):
    """The reads of the event log that the feed needs. They run in threads."""

    def last(self) -> str:
        """Return the cursor of the last event that readers can see."""

    def read(
        self,
        *,
        after: str | None,
        entity: str | None,
        entity_id: str | None,
        owners: Collection[str] | None,
        limit: int,
    ) -> list[Event]:
        """Return at most `limit` events after a cursor, oldest first."""


class EventFeed:
    """The events of one node's streams. All methods run on the event loop."""

    def __init__(
        self,
        log: EventReads,
        subscribe: Subscribe,
        long_polls: LongPolls,
        *,
        max_frames: int = _MAX_FRAMES,
    ) -> None:
        """Create it without a reader, which starts with the first stream.

        Args:
            subscribe: Subscribes to wake-ups when the log has grown.
            long_polls: Ends the streams when the node stops.
            max_frames: Largest number of events in memory.
        """
        self._log = log
        self._subscribe = subscribe
        self._long_polls = long_polls
        self._recent = RecentFrames(max_frames)
        self._history = _HistoryReads(log)
        self._streams = 0
        self._starting = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None
        self._needed_until = 0.0
        self._has_grown = False
        """Whether a commit has woken the reader. Any thread sets it."""
        self._grown = asyncio.Event()
        """Set when events were added; another event replaces it then."""

    @property
    def streams(self) -> int:
        """Number of streams that are followed now."""
        return self._streams

    async def open(self, cursor: str | None, only: EventFilter = ALL) -> EventStream:
        """Return a new stream of the events after a cursor; None: from the first event on.

        Raises:
            InvalidRequest: `cursor` is not a cursor.
            StoreUnavailable: The store does not answer.
        """
        stream = EventStream(cursor, only)
        async with self._starting:
            self._needed_until = time.monotonic() + _LINGER_SECONDS
            if self._reader is None or self._reader.done():
                self._recent.restart(EventPosition.parse(await run_in_threadpool(self._log.last)))
                self._reader = asyncio.create_task(self._read_on())
        if not self._recent.locate(stream):
            stream.page = await self._read_page(stream)
        return stream

    async def follow(self, stream: EventStream) -> AsyncIterator[bytes]:
        """Yield server-sent events of a stream until the node stops."""
        self._streams += 1
        try:
            if stream.cursor is not None:
                # A client that has received no event yet resumes here.
                yield ServerSentEvent(id=stream.cursor).encode()
            while not self._long_polls.stopping:
                grown = self._grown
                content, stream.page = stream.page, b""
                if not content:
                    content = await self._take(stream)
                if content:
                    yield content
                elif self._recent.locate(stream) and not self._recent.has_next(stream):
                    await grown.wait()
        finally:
            self._streams -= 1

    async def _take(self, stream: EventStream) -> bytes:
        """Return the next events of a stream, as far as they can be sent at once."""
        if self._recent.locate(stream):
            return self._recent.take(stream)
        try:
            return await self._read_page(stream)
        except StoreUnavailable:
            # The stream continues when the store is back.
            await asyncio.sleep(_POLL_SECONDS)
            return b""

    async def _read_page(self, stream: EventStream) -> bytes:
        # All events up to this position are visible to the read that follows.
        newest = self._recent.end
        page = await self._history.read(stream.position, stream.only)
        # A page that is not full contains all events of the filter, and others may lie behind them.
        stream.position = page.end if page.is_full else max(page.end, newest)
        return page.content

    async def _read_on(self) -> None:
        """Add new events to those in memory, until no stream has needed them for a while."""
        is_away = False
        with self._long_polls.subscribed(self._subscribe_to_growth) as poll:
            while not self._long_polls.stopping and self._is_needed():
                # Before the read, so that a later commit wakes the reader again.
                self._has_grown = False
                poll.woken.clear()
                try:
                    await self._read_new()
                    is_away = False
                except StoreUnavailable as error:
                    if not is_away:
                        _LOG.warning("event streams wait: the store does not answer: %s", error)
                    is_away = True
                pause = _PAUSE + self._streams * _PAUSE_PER_STREAM
                await asyncio.sleep(min(pause, _LONGEST_PAUSE))
                await _wait(poll.woken, _POLL_SECONDS)
        self._history.clear()
        self._wake_streams()

    def _subscribe_to_growth(self, wake: Callable[[], None]) -> AbstractContextManager[object]:
        """Subscribe the reader: only the first commit after a read wakes the event loop."""

        def wake_once() -> None:
            if not self._has_grown:
                self._has_grown = True
                wake()

        return self._subscribe(wake_once)

    def _is_needed(self) -> bool:
        if self._streams:
            self._needed_until = time.monotonic() + _LINGER_SECONDS
        return time.monotonic() < self._needed_until

    async def _read_new(self) -> None:
        is_complete = False
        while not is_complete:
            frames = await run_in_threadpool(_read_frames, self._log, self._recent.end, ALL, _BATCH)
            is_complete = len(frames) < _BATCH
            if frames:
                self._recent.add(frames)
                self._wake_streams()

    def _wake_streams(self) -> None:
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()


@dataclass(frozen=True, slots=True)
class _Page:
    """Events of the past, in the form in which streams send them."""

    content: bytes
    end: EventPosition
    """Position of the last event, or the position after which the page was read."""
    is_full: bool
    read_at: float


class _HistoryReads:
    """Reads of pages of the past. Streams at one place share a page."""

    def __init__(self, log: EventReads) -> None:
        self._log = log
        self._turns = asyncio.Semaphore(_MAX_PAGE_READS)
        self._reads: dict[tuple[EventPosition, EventFilter], asyncio.Task[_Page]] = {}
        self._pages: OrderedDict[tuple[EventPosition, EventFilter], _Page] = OrderedDict()

    async def read(self, after: EventPosition, only: EventFilter) -> _Page:
        """Return the events of a filter after a position. Raise StoreUnavailable."""
        key = (after, only)
        page = self._pages.get(key)
        if page is not None and time.monotonic() - page.read_at < _PAGE_SECONDS:
            return page
        read = self._reads.get(key)
        if read is None:
            read = self._reads[key] = asyncio.create_task(self._read(after, only))
            # The streams that wait for the page may end before it.
            read.add_done_callback(lambda task: task.cancelled() or task.exception())
        # The end of one stream does not end the read of others.
        return await asyncio.shield(read)

    def clear(self) -> None:
        """Forget the pages."""
        self._pages.clear()

    async def _read(self, after: EventPosition, only: EventFilter) -> _Page:
        key = (after, only)
        try:
            await self._turns.acquire()
            start = time.monotonic()
            try:
                page = await run_in_threadpool(_read_page, self._log, after, only)
            finally:
                pause = (time.monotonic() - start) * _PAUSES_PER_PAGE
                asyncio.get_running_loop().call_later(pause, self._turns.release)
            if page.is_full:
                # More events can follow those of another page.
                self._pages[key] = page
                if len(self._pages) > _MAX_PAGES:
                    self._pages.popitem(last=False)
            return page
        finally:
            del self._reads[key]


def _read_page(log: EventReads, after: EventPosition, only: EventFilter) -> _Page:
    frames = _read_frames(log, after, only, _PAGE)
    end = frames[-1].position if frames else after
    return _Page(
        b"".join(frame.content for frame in frames), end, len(frames) == _PAGE, time.monotonic()
    )


def _read_frames(
    log: EventReads, after: EventPosition, only: EventFilter, limit: int
) -> list[Frame]:
    events = log.read(after=after.cursor, limit=limit, **only._asdict())
    return [encode_frame(event) for event in events]


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()


def event_feed_of(request: Request) -> EventFeed:
    """Return the feed of the event streams of the node that answers a request."""
    event_feed: EventFeed = request.app.state.event_feed
    return event_feed
