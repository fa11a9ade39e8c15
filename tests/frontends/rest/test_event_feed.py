"""The feed of events: what event streams send, and how often they read the store."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.control.long_polls import LongPolls
from headrace.errors import InvalidRequest, StoreUnavailable
from headrace.frontends.rest.event_feed import EventFeed, EventFilter, encode_frame
from headrace.model.event import Event, EventPosition

_ALL = EventFilter()
_AT = datetime(2026, 1, 1, tzinfo=UTC)


class _Log:
    """An event log in memory that counts its reads."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.reads = 0
        self.is_away = False
        self._callbacks: set[Callable[[], None]] = set()
        self._lock = threading.Lock()

    def append(self, count: int = 1, entity: str = "statement") -> None:
        """Append events of the entities e0, e1 and e2 in turn, and wake the reader."""
        for _ in range(count):
            number = len(self.events) + 1
            self.events.append(
                Event(
                    cursor=EventPosition(0, 0, number).cursor,
                    entity=entity,
                    entity_id=f"e{number % 3}",
                    owner="ada",
                    source=None,
                    target="waiting",
                    at=_AT,
                    actor="ada",
                    detail={},
                )
            )
        for callback in list(self._callbacks):
            callback()

    def select(self, start: int, only: EventFilter) -> list[str]:
        """Return the cursors of the events of a filter that follow the first `start` events."""
        later = self.events[start:]
        return [event.cursor for event in later if only.matches(encode_frame(event))]

    def last(self) -> str:
        return self.events[-1].cursor if self.events else EventPosition().cursor

    def read(
        self,
        *,
        after: str | None,
        entity: str | None,
        entity_id: str | None,
        owners: Collection[str] | None,
        limit: int,
    ) -> list[Event]:
        with self._lock:
            self.reads += 1
        if self.is_away:
            raise StoreUnavailable("The store is away.")
        position = EventPosition() if after is None else EventPosition.parse(after)
        return [
            event
            for event in self.events
            if event.position > position
            and entity in {None, event.entity}
            and entity_id in {None, event.entity_id}
            and (owners is None or event.owner in owners)
        ][:limit]

    @contextmanager
    def subscribe(self, callback: Callable[[], None]) -> Iterator[None]:
        self._callbacks.add(callback)
        yield
        self._callbacks.discard(callback)


class _Client:
    """A client that reads a stream, or waits until the test lets it read."""

    def __init__(self, stream: AsyncIterator[bytes]) -> None:
        self.received = b""
        self.may_read = asyncio.Event()
        self._stream = stream
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for content in self._stream:
            self.received += content
            await self.may_read.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def cursors(self) -> list[str]:
        """The cursors of the events that it has received."""
        frames = self.received.decode().split("\r\n\r\n")
        lines = [dict(line.split(": ", 1) for line in frame.splitlines()) for frame in frames]
        return [json.loads(each["data"])["cursor"] for each in lines if "data" in each]


class _Feed:
    """A feed with its log and clients."""

    def __init__(self, log: _Log, *, max_frames: int = 10_000) -> None:
        self.log = log
        self.long_polls = LongPolls(hears_wake_ups=lambda: True)
        self.feed = EventFeed(log, log.subscribe, self.long_polls, max_frames=max_frames)
        self.clients: list[_Client] = []

    async def open(
        self, cursor: str | None, only: EventFilter = _ALL, *, reads: bool = True
    ) -> _Client:
        client = _Client(self.feed.follow(await self.feed.open(cursor, only)))
        if reads:
            client.may_read.set()
        self.clients.append(client)
        return client

    async def close(self) -> None:
        self.long_polls.release()
        for client in self.clients:
            await client.close()


def _run(work: Callable[[_Feed], Awaitable[None]], *, max_frames: int = 10_000) -> None:
    async def run() -> None:
        feed = _Feed(_Log(), max_frames=max_frames)
        try:
            await work(feed)
        finally:
            await feed.close()

    asyncio.run(run())


async def _wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def _cursors(first: int, last: int) -> list[str]:
    return [EventPosition(0, 0, number).cursor for number in range(first, last + 1)]


@pytest.mark.parametrize("streams", [1, 50])
def test_all_streams_together_read_the_store_as_often_as_one(streams: int) -> None:
    async def work(feed: _Feed) -> None:
        clients = [await feed.open("0.0.0") for _ in range(streams)]
        await _wait_until(lambda: feed.log.reads > 0)
        before, began = feed.log.reads, asyncio.get_running_loop().time()
        for number in range(1, 6):
            feed.log.append()
            await _wait_until(
                lambda number=number: all(len(each.cursors) == number for each in clients)
            )  # type: ignore[misc]
        # A wake-up can lead to one more read, and so does each second.
        seconds = asyncio.get_running_loop().time() - began
        assert feed.log.reads - before <= 5 * 2 + seconds
        assert all(client.received == clients[0].received for client in clients)

    _run(work)


def test_streams_that_start_at_the_first_event_share_the_pages_of_the_past() -> None:
    async def work(feed: _Feed) -> None:
        feed.log.append(1000)
        clients = await asyncio.gather(*(feed.open(None) for _ in range(40)))
        await _wait_until(lambda: all(len(client.cursors) == 1000 for client in clients))
        assert all(client.cursors == _cursors(1, 1000) for client in clients)
        assert feed.log.reads < 100

    _run(work)


def test_a_client_that_does_not_read_misses_nothing_and_delays_no_other_client() -> None:
    async def work(feed: _Feed) -> None:
        slow, fast = await feed.open("0.0.0", reads=False), await feed.open("0.0.0")
        for count in range(100, 600, 100):
            feed.log.append(100)
            await _wait_until(lambda count=count: len(fast.cursors) == count)  # type: ignore[misc]
        # Only the newest events are in memory.
        assert len(feed.feed._recent._frames) == 20
        assert slow.cursors == []
        slow.may_read.set()
        await _wait_until(lambda: len(slow.cursors) == 500)
        assert slow.cursors == _cursors(1, 500)

    _run(work, max_frames=20)


def test_the_streams_of_a_stopped_node_end() -> None:
    async def work(feed: _Feed) -> None:
        client = await feed.open("0.0.0")
        await _wait_until(lambda: feed.log.reads > 0)
        feed.long_polls.release()
        await asyncio.wait_for(client._task, 30)

    _run(work)


def test_streams_continue_after_an_outage_of_the_store() -> None:
    async def work(feed: _Feed) -> None:
        live, past = await feed.open("0.0.0"), await feed.open(None, reads=False)
        feed.log.append(100)
        await _wait_until(lambda: len(live.cursors) == 100)
        feed.log.is_away = True
        with pytest.raises(StoreUnavailable):
            await feed.open("0.0.7")
        past.may_read.set()
        feed.log.append(5)
        reads = feed.log.reads
        await _wait_until(lambda: feed.log.reads > reads)
        feed.log.is_away = False
        for client in (live, past):
            await _wait_until(lambda client=client: client.cursors == _cursors(1, 105))  # type: ignore[misc]

    _run(work, max_frames=10)


@pytest.mark.parametrize("cursor", ["", "x", "0.1", "0.0.99999999999999999999"])
def test_a_stream_with_an_invalid_cursor_is_refused(cursor: str) -> None:
    async def work(feed: _Feed) -> None:
        with pytest.raises(InvalidRequest, match="cursor"):
            await feed.open(cursor)

    _run(work)


_FILTERS = st.sampled_from(
    [
        EventFilter(),
        EventFilter(entity="session"),
        EventFilter(entity_id="e1"),
        EventFilter("statement", "e2"),
        EventFilter(entity="node"),
        EventFilter(owners=frozenset({"ada"})),
        EventFilter(owners=frozenset({"bob"})),
    ]
)


@settings(max_examples=40, deadline=None)
@given(
    max_frames=st.integers(1, 30),
    bursts=st.lists(
        st.tuples(st.integers(1, 150), st.sampled_from(["statement", "session"])), max_size=6
    ),
    streams=st.lists(
        st.tuples(
            st.integers(0, 6), st.one_of(st.none(), st.integers(0, 900)), _FILTERS, st.booleans()
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_each_stream_sends_every_event_of_its_filter_once_and_in_order(
    max_frames: int,
    bursts: list[tuple[int, str]],
    streams: list[tuple[int, int | None, EventFilter, bool]],
) -> None:
    """Streams begin anywhere in the log, at any time, with clients that read at once or late."""

    async def work(feed: _Feed) -> None:
        opened = []
        for step in range(7):
            for _at, after, only, reads in (each for each in streams if each[0] == step):
                start = None if after is None else min(after, len(feed.log.events))
                cursor = None if start is None else EventPosition(0, 0, start).cursor
                opened.append((await feed.open(cursor, only, reads=reads), start or 0, only))
            for count, entity in bursts[step : step + 1]:
                feed.log.append(count, entity)
                await asyncio.sleep(0)
        for client, start, only in opened:
            client.may_read.set()
            expected = feed.log.select(start, only)
            await _wait_until(lambda client=client, expected=expected: client.cursors == expected)  # type: ignore[misc]

    _run(work, max_frames=max_frames)
