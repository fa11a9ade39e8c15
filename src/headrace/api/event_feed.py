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
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from headrace.api.event_frames import (
    ALL,
    EventFilter,
    EventStream,
    Frame,
    RecentFrames,
    encode_frame,
)
from headrace.api.waiting import LongPolls, Subscribe
from headrace.errors import StoreUnavailable
from headrace.model.event import Event, EventPosition

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
        self, *, after: str | None, entity: str | None, entity_id: str | None, limit: int
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
    events = log.read(after=after.cursor, entity=only.entity, entity_id=only.entity_id, limit=limit)
    return [encode_frame(event) for event in events]


async def _wait(woken: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await woken.wait()
