"""The node's end of the driver link: the calls of drivers, their limits, and batched renewals.

These are plain Starlette routes. A driver makes three calls for each statement, and FastAPI's own
machinery would take longer than the work.

The caller is a stranger until its token is checked, and its message is a claim even then. The body
is read only after the check of the token, and parsed in a thread.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.control.driver_link.renewals import Renewals, is_plain
from headrace.control.driver_link.service import DriverLinkService
from headrace.control.driver_link.waiting_polls import WaitingPoll
from headrace.control.long_polls import Rereads
from headrace.errors import InvalidRequest, ReportTooLarge, TooManyCalls
from headrace.frontends.http.auth import bearer_token, node_of
from headrace.frontends.http.strict_json import has_more_values, refuse_duplicate_keys
from headrace.model.messages import (
    LINK_PREFIX,
    MAX_EXECUTIONS_BODY,
    Advanced,
    AnnounceWrites,
    BeginGeneration,
    BeginWrite,
    CarryOut,
    ClearStaging,
    Ended,
    Executed,
    FindMarked,
    FindSecrets,
    FindStreams,
    Goodbye,
    Hello,
    Message,
    OpenConnection,
    Orders,
    Poll,
    ReadSystemTables,
    Recover,
    Renew,
    Renewed,
    Restore,
    Started,
    Transact,
)
from headrace.model.session import DriverLease
from headrace.model.text import MAX_REPORT

Method = Callable[[DriverLinkService, DriverLease, Message], Message]
M = TypeVar("M", bound=Message)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LinkCall:
    """A call of the link: the message that a driver sends, and the method that answers it."""

    message: type[Message]
    answer: Method
    body_limit: int
    """Largest body in bytes."""


_BODY_LIMIT = 1024 * 1024
_MAX_VALUES = 500_000
"""JSON values in a body. Each value takes many times its own bytes when the body is parsed."""
_MAX_PROBLEMS = 5
_PLAIN_BYTES = 200
"""Largest body of a renewal that may report nothing."""
_LEASE = re.compile(r"(se_[0-9a-f]{32})/([0-9]{1,9})")


def _call(
    message: type[Message], answer: Callable[..., Message], *, body_limit: int = _BODY_LIMIT
) -> LinkCall:
    # Each method takes the message class of its entry, which mypy cannot express for a dict.
    return LinkCall(message, answer, body_limit)


CALLS: dict[str, LinkCall] = {
    "restore": _call(Restore, DriverLinkService.restore),
    "hello": _call(Hello, DriverLinkService.hello),
    "poll": _call(Poll, lambda link, *call: link.poll(*call).orders),
    "renew": _call(Renew, lambda link, *call: link.renewals.renew(*call)),
    "started": _call(Started, DriverLinkService.started),
    "advanced": _call(Advanced, DriverLinkService.advanced),
    "ended": _call(Ended, DriverLinkService.ended, body_limit=MAX_REPORT),
    "executed": _call(Executed, DriverLinkService.executed, body_limit=MAX_EXECUTIONS_BODY),
    "transact": _call(
        Transact, lambda link, *call: link.tables.transact(*call), body_limit=MAX_REPORT
    ),
    "recover": _call(Recover, lambda link, *call: link.tables.recover(*call)),
    "begin_write": _call(BeginWrite, lambda link, *call: link.writes.begin_write(*call)),
    "announce_writes": _call(AnnounceWrites, lambda link, *call: link.writes.announce(*call)),
    "clear_staging": _call(ClearStaging, lambda link, *call: link.writes.clear_staging(*call)),
    "begin_generation": _call(
        BeginGeneration, lambda link, *call: link.views.begin_generation(*call)
    ),
    "open_connection": _call(OpenConnection, DriverLinkService.open_connection),
    "find_secrets": _call(FindSecrets, DriverLinkService.find_secrets),
    "find_streams": _call(FindStreams, DriverLinkService.find_streams),
    "read_system_tables": _call(ReadSystemTables, DriverLinkService.read_system_tables),
    "carry_out": _call(CarryOut, lambda link, *call: link.views.carry_out(*call)),
    "find_marked": _call(FindMarked, lambda link, *call: link.checkpoints.find_marked(*call)),
    "goodbye": _call(Goodbye, DriverLinkService.goodbye),
}
"""The calls of the link, by the last segment of the path."""

_NO_ORDERS = Orders()
_FIRST_POLL_SECONDS = 1.0
"""Longest time of the first poll of a driver at this process."""


async def _serve(request: Request) -> Response:
    path = request.path_params
    call, lease = CALLS.get(path["call"]), _LEASE.fullmatch(f"{path['session_id']}/{path['epoch']}")
    if call is None or lease is None:
        raise HTTPException(404)
    caller = DriverLease(lease[1], int(lease[2]))
    link = node_of(request).driver_link
    calls = link_calls_of(request)
    token = bearer_token(request)
    if not link.authenticate_from_memory(caller, token):
        await _run(calls.threads, link.authenticate, caller, token)
    with calls.admit(caller):
        body = await _read_body(request, call)
        if call.message is Poll:
            answer = await _poll(request, link, caller, _parse(Poll, body))
        elif call.message is Renew and (message := _parse_plain_renewal(body)) is not None:
            answer = await renewals_of(request).renew(caller, message)
        else:
            answer = await _run(calls.threads, _answer, link, caller, call, body)
    return Response(answer.model_dump_json(), media_type="application/json")


async def _run(threads: CapacityLimiter, work: Callable[..., T], *arguments: object) -> T:
    """Run a call of a driver in a thread."""
    return await to_thread.run_sync(partial(work, *arguments), limiter=threads)


def _parse_plain_renewal(body: bytes) -> Renew | None:
    """Return the renewal of a driver that reports nothing; None for any other body."""
    if len(body) > _PLAIN_BYTES:
        return None
    message = _parse(Renew, body)
    return message if is_plain(message) else None


def _answer(link: DriverLinkService, lease: DriverLease, call: LinkCall, body: bytes) -> Message:
    message = _parse(call.message, body)
    masked = link.secrets.known_of(lease.session_id).mask_message(message)
    if masked is not message:
        # References may be longer than the values, and every text has a limit.
        masked = _parse(call.message, masked.model_dump_json().encode())
    return call.answer(link, lease, masked)


async def _poll(
    request: Request, link: DriverLinkService, lease: DriverLease, message: Poll
) -> Message:
    wake_ups = node_of(request).wake_ups
    with link_calls_of(request).open_poll(lease) as open_poll:
        checks = _PollChecks(
            link, lease, message, open_poll, threads=link_calls_of(request).threads
        )

        @contextmanager
        def subscribe(wake: Callable[[], None]) -> Iterator[None]:
            def wake_for_change() -> None:
                checks.has_changed = True
                wake()

            on_change = wake_ups.on_session_change(lease.session_id, wake_for_change)
            with on_change, open_poll.subscribe(wake), checks.waiting(wake):
                yield

        with node_of(request).long_polls.subscribed(subscribe) as poll:
            orders = await checks.check()
            if orders is None:
                # Another process may have missed, at the first poll, that it must send wake-ups.
                longest = _FIRST_POLL_SECONDS if checks.link_moved else message.wait_seconds
                seconds = min(message.wait_seconds, longest)
                orders = await poll.wait(checks.check, seconds=seconds, rereads=Rereads.NEVER)
    return orders or checks.claimed or _NO_ORDERS


class _PollChecks:
    """The reads of the store for one poll of a driver."""

    def __init__(
        self,
        link: DriverLinkService,
        lease: DriverLease,
        message: Poll,
        open_poll: OpenPoll,
        *,
        threads: CapacityLimiter,
    ) -> None:
        self._link, self._lease, self._message = link, lease, message
        self._threads = threads
        self._open_poll = open_poll
        self._waiting: WaitingPoll
        self.has_changed = False
        """Whether the session has changed since the last check. Any thread sets it."""
        self.link_moved = False

    @contextmanager
    def waiting(self, wake: Callable[[], None]) -> Iterator[None]:
        """Let statements that are submitted between two checks be claimed for the poll."""
        self._waiting = self._link.waiting_polls.create(self._lease, self._message, wake)
        try:
            yield
        finally:
            self._waiting.close()

    @property
    def claimed(self) -> Message | None:
        """The statement that a submit has claimed for the poll."""
        return self._waiting.orders

    async def check(self) -> Message | None:
        """Return the orders, or None while there are none."""
        is_claiming = not self._waiting.close()
        if self.claimed is not None:
            return self.claimed
        if self._open_poll.released:
            return _NO_ORDERS
        if is_claiming:
            return None
        orders = await _run(self._threads, self._check)
        if orders is None:
            self._waiting.open()
        return orders

    def _check(self) -> Message | None:
        has_changed, self.has_changed = self.has_changed, False
        if has_changed and self._waiting.use_attempt():
            orders = self._link.claim_at_once(self._lease, self._message)
            if orders is not None:
                return orders
        polled = self._link.poll(self._lease, self._message)
        self.link_moved |= polled.link_moved
        return None if polled.orders == _NO_ORDERS else polled.orders


async def _read_body(request: Request, call: LinkCall) -> bytes:
    """Return the body of a call. Raise ReportTooLarge before it fills the memory of the node."""
    body = bytearray()
    async for block in request.stream():
        body += block
        if len(body) > call.body_limit:
            raise ReportTooLarge(
                f"The body of a {call.message.__name__} is larger than {call.body_limit} bytes."
            )
    return bytes(body)


def _parse(message: type[M], body: bytes) -> M:
    if has_more_values(body, _MAX_VALUES):
        raise ReportTooLarge(f"The body has more than {_MAX_VALUES} values.")
    refuse_duplicate_keys(body)
    try:
        return message.model_validate_json(body)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc']))[:100] or 'body'}: {problem['msg'][:200]}"
            for problem in error.errors(include_url=False, include_input=False)[:_MAX_PROBLEMS]
        ]
        raise InvalidRequest(
            f"The body is not a {message.__name__}: {'; '.join(problems)}."
        ) from error


ROUTE = Route(
    f"{LINK_PREFIX}/{{session_id}}/{{epoch}}/{{call}}",
    _serve,
    methods=["POST"],
    include_in_schema=False,
)


_MAX_CALLS = 32
"""Largest number of calls of one lease in flight. A driver has 8 connections. It repeats a call
that has not been answered for 10 seconds, while the node still works on the first one."""

_THREADS = 20
"""Largest number of threads that work on calls of drivers."""


class LinkCalls:
    """The calls of drivers that this node works on. Only the event loop uses it.

    No driver can use up the connections of the node. Calls of drivers do not wait for a thread
    behind the requests of clients.
    """

    def __init__(self) -> None:
        self._in_flight: Counter[DriverLease] = Counter()
        self._polls: dict[DriverLease, OpenPoll] = {}

    @cached_property
    def threads(self) -> CapacityLimiter:
        """The limit of threads that work on calls of drivers."""
        return CapacityLimiter(_THREADS)

    @contextmanager
    def admit(self, lease: DriverLease) -> Iterator[None]:
        """Count a call until the end of the block. Raise TooManyCalls at the limit."""
        if self._in_flight[lease] >= _MAX_CALLS:
            raise TooManyCalls(f"The driver has {_MAX_CALLS} calls in flight.")
        self._in_flight[lease] += 1
        try:
            yield
        finally:
            self._in_flight[lease] -= 1
            if not self._in_flight[lease]:
                del self._in_flight[lease]

    @contextmanager
    def open_poll(self, lease: DriverLease) -> Iterator[OpenPoll]:
        """Make a poll the only one of its lease, and release the poll before it.

        A driver keeps one poll open, and has given up an older one.
        """
        older = self._polls.get(lease)
        poll = self._polls[lease] = OpenPoll()
        if older is not None:
            older.release()
        try:
            yield poll
        finally:
            if self._polls.get(lease) is poll:
                del self._polls[lease]


class OpenPoll:
    """A poll that a newer poll of the same lease can release."""

    def __init__(self) -> None:
        self.released = False
        self._wake: Callable[[], None] = lambda: None

    @contextmanager
    def subscribe(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` when the poll is released, until the end of the block."""
        self._wake = wake
        yield

    def release(self) -> None:
        """Let the poll return without orders."""
        self.released = True
        self._wake()


def link_calls_of(request: Request) -> LinkCalls:
    """Return the calls of drivers that the node works on."""
    link_calls: LinkCalls = request.app.state.link_calls
    return link_calls


_LONGEST_PAUSE = 0.3
_PAUSES_PER_RENEWAL = 16
"""A pause is this part of the time between two renewals of a driver, so that it never uses up a
short lease."""
_MAX_LEASES = 100
"""Largest number of leases in one transaction."""


class BatchedRenewals:
    """The renewals that report nothing. Those that arrive together share a transaction.

    500 drivers renew 100 times a second. In transactions of their own, they take a quarter of the
    time of a node, and 100 flushes of the disk. All methods run on the event loop.
    """

    def __init__(
        self, renewals: Renewals, threads: Callable[[], CapacityLimiter], *, renew_seconds: float
    ) -> None:
        """Create it without any renewal.

        Args:
            threads: Returns the limit of threads that work on calls of drivers.
            renew_seconds: Time between two renewals of a driver.
        """
        self._renewals = renewals
        self._threads = threads
        self._pause = min(_LONGEST_PAUSE, renew_seconds / _PAUSES_PER_RENEWAL)
        """Shortest time between the starts of two transactions with few leases. A renewal after a
        longer time starts one at once."""
        self._waiting: dict[DriverLease, tuple[Renew, asyncio.Future[Renewed]]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._next_start = 0.0

    async def renew(self, lease: DriverLease, message: Renew) -> Renewed:
        """Renew a lease, and return the answer. Raise as `Renewals.renew` does."""
        if lease not in self._waiting:
            self._waiting[lease] = (message, asyncio.get_running_loop().create_future())
        _message, future = self._waiting[lease]
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        # A driver that repeats its call waits for the same renewal.
        answer = await asyncio.shield(future)
        if answer.applied:
            return answer
        return await self._run(lambda: self._renewals.renew(lease, message))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                # A pause before a full transaction would limit the number of drivers.
                if len(self._waiting) < _MAX_LEASES:
                    await asyncio.sleep(self._next_start - loop.time())
                self._next_start = loop.time() + self._pause
                await self._renew_batch()
        finally:
            self._worker = None

    async def _renew_batch(self) -> None:
        leases = list(self._waiting)[:_MAX_LEASES]
        batch = {lease: self._waiting.pop(lease) for lease in leases}
        messages = {lease: message for lease, (message, _future) in batch.items()}
        try:
            renewed = await self._run(lambda: self._renewals.renew_all(messages))
        except Exception as error:  # noqa: BLE001 - each call reports it
            for _message, future in batch.values():
                future.set_exception(error)
                # The calls that wait for it may have ended.
                future.exception()
        else:
            for lease, (_message, future) in batch.items():
                future.set_result(renewed.get(lease, Renewed(applied=False)))

    async def _run(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._threads())


def renewals_of(request: Request) -> BatchedRenewals:
    """Return the renewals of drivers that the node works on."""
    renewals: BatchedRenewals = request.app.state.renewals
    return renewals
