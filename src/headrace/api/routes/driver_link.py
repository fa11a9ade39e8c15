"""The node's end of the link: the calls of drivers.

These are plain Starlette routes. A driver makes three calls for each statement, and FastAPI's own
machinery would take longer than the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.api.auth import bearer_token
from headrace.api.context import long_polls_of, node_of
from headrace.control.driver_link.service import DriverLinkService
from headrace.errors import InvalidRequest
from headrace.model.messages import (
    LINK_PREFIX,
    Advanced,
    Ended,
    Goodbye,
    Hello,
    Message,
    Orders,
    Poll,
    Recover,
    Renew,
    Restore,
    Started,
    Transact,
)
from headrace.model.session import DriverLease

Method = Callable[[DriverLinkService, DriverLease, Message], Message]


@dataclass(frozen=True, slots=True)
class LinkCall:
    """A call of the link: the message that a driver sends, and the method that answers it."""

    message: type[Message]
    answer: Method


def _call(message: type[Message], answer: Callable[..., Message]) -> LinkCall:
    # Each method takes the message class of its entry, which mypy cannot express for a dict.
    return LinkCall(message, answer)


CALLS: dict[str, LinkCall] = {
    "restore": _call(Restore, DriverLinkService.restore),
    "hello": _call(Hello, DriverLinkService.hello),
    "poll": _call(Poll, DriverLinkService.poll),
    "renew": _call(Renew, DriverLinkService.renew),
    "started": _call(Started, DriverLinkService.started),
    "advanced": _call(Advanced, DriverLinkService.advanced),
    "ended": _call(Ended, DriverLinkService.ended),
    "transact": _call(Transact, lambda link, *call: link.tables.transact(*call)),
    "recover": _call(Recover, lambda link, *call: link.tables.recover(*call)),
    "goodbye": _call(Goodbye, DriverLinkService.goodbye),
}
"""The calls of the link, by the last segment of the path."""

_NO_ORDERS = Orders()


@dataclass(frozen=True, slots=True)
class _LinkCaller:
    """A driver that calls: the lease that the path names, and the token that must prove it."""

    link: DriverLinkService
    lease: DriverLease
    token: str

    def answer(self, call: LinkCall, message: Message) -> Message:
        """Return the node's answer. Raise as the methods of `DriverLinkService` do."""
        self.link.authenticate(self.lease, self.token)
        return call.answer(self.link, self.lease, message)


async def _serve(request: Request) -> Response:
    call = CALLS.get(request.path_params["call"])
    if call is None:
        raise HTTPException(404)
    lease = DriverLease(request.path_params["session_id"], request.path_params["epoch"])
    caller = _LinkCaller(node_of(request).driver_link, lease, bearer_token(request))
    message = _parse(call.message, await request.body())
    if isinstance(message, Poll):
        answer = await _poll(request, caller, call, message)
    else:
        answer = await run_in_threadpool(caller.answer, call, message)
    return Response(answer.model_dump_json(), media_type="application/json")


async def _poll(request: Request, caller: _LinkCaller, call: LinkCall, message: Poll) -> Message:
    async def check() -> Message | None:
        orders = await run_in_threadpool(caller.answer, call, message)
        return None if orders == _NO_ORDERS else orders

    subscribe = partial(node_of(request).wake_ups.on_session_change, caller.lease.session_id)
    orders = await long_polls_of(request).wait(subscribe, check, seconds=message.wait_seconds)
    return orders or _NO_ORDERS


def _parse(message: type[Message], body: bytes) -> Message:
    try:
        return message.model_validate_json(body)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'body'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise InvalidRequest(f"The body is not a {message.__name__}: {problems}.") from error


ROUTE = Route(
    f"{LINK_PREFIX}/{{session_id}}/{{epoch:int}}/{{call}}",
    _serve,
    methods=["POST"],
    include_in_schema=False,
)
