"""The link's other end: what drivers call.

Plain routes of Starlette's: around every statement a driver calls three times, and FastAPI's own
machinery would take longer than the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.api.auth import bearer
from headrace.api.context import node_of, waiters_of
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
from headrace.store.notifications import session_topic


@dataclass(frozen=True, slots=True)
class _Caller:
    """A driver that asks: the session and epoch that it claims to serve."""

    link: DriverLinkService
    session_id: str
    epoch: int
    token: str

    def ask(self, name: str, message: Message) -> Message:
        """What the node answers. Raises as the methods of `control.link.Link` do."""
        self.link.authenticate(self.session_id, self.epoch, self.token)
        _kind, answer = _CALLS[name]
        return answer(self.link, self.session_id, self.epoch, message)


_CALLS: dict[str, tuple[type[Message], Callable[..., Message]]] = {
    "restore": (Restore, DriverLinkService.restore),
    "hello": (Hello, DriverLinkService.hello),
    "poll": (Poll, DriverLinkService.poll),
    "renew": (Renew, DriverLinkService.renew),
    "started": (Started, DriverLinkService.started),
    "advanced": (Advanced, DriverLinkService.advanced),
    "ended": (Ended, DriverLinkService.ended),
    "transact": (Transact, lambda link, *call: link.tables.transact(*call)),
    "recover": (Recover, lambda link, *call: link.tables.recover(*call)),
    "goodbye": (Goodbye, DriverLinkService.goodbye),
}
"""By the last word of the path: what a driver sends, and what answers it."""


async def _call(request: Request) -> Response:
    name = request.path_params["call"]
    if name not in _CALLS:
        raise HTTPException(404)
    caller = _Caller(
        node_of(request).link,
        request.path_params["session_id"],
        request.path_params["epoch"],
        bearer(request),
    )
    message = _read(_CALLS[name][0], await request.body())
    if isinstance(message, Poll):
        answer = await _poll(request, caller, message)
    else:
        answer = await run_in_threadpool(caller.ask, name, message)
    return Response(answer.model_dump_json(), media_type="application/json")


async def _poll(request: Request, caller: _Caller, message: Poll) -> Message:
    async def look() -> Message | None:
        orders = await run_in_threadpool(caller.ask, "poll", message)
        return None if orders == _NOTHING else orders

    found = await waiters_of(request).until(
        session_topic(caller.session_id), look, seconds=message.wait_seconds
    )
    return found or _NOTHING


def _read(kind: type[Message], body: bytes) -> Message:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in error.errors()
        )
        raise InvalidRequest(f"No {kind.__name__}: {wrong}.") from error


_NOTHING = Orders()

ROUTE = Route(
    f"{LINK_PREFIX}/{{session_id}}/{{epoch:int}}/{{call}}",
    _call,
    methods=["POST"],
    include_in_schema=False,
)
