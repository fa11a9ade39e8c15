"""`/health`, `/ready` and `/metrics`: whether the node is alive and can serve, and its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from headrace import __version__
from headrace.frontends.http.auth import Authenticated, node_of
from headrace.frontends.http.tls import ServerTls
from headrace.frontends.rest.schemas import ResponseModel

router = APIRouter(tags=["health"])


class Readiness:
    """The checks whether one node is ready. Requests that arrive during a check share it.

    A check of a locked store takes seconds, and every program that reaches the port may request
    one. Without the sharing, such requests could take all threads of the node. All methods run on
    the event loop.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        """Create it without a check.

        Args:
            check: Raises the error that says why the node is not ready.
        """
        self._check = check
        self._running: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise the error that says why the node is not ready."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(run_in_threadpool(self._check))
            # The requests that wait for it may have ended.
            self._running.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._running)


_OLD_CERTIFICATE = (
    "The files of tls have changed and cannot be used. The last certificate stays in use."
    " The log of the node has the reason."
)
"""The reason names files of the host, and everyone may read `/ready`."""


def readiness_of(request: Request) -> Readiness:
    """Return the checks whether the node that answers a request is ready."""
    readiness: Readiness = request.app.state.readiness
    return readiness


class Health(ResponseModel):
    """State of the node."""

    status: str
    """`ok` or `ready`."""
    node_id: str
    """Id of the node."""
    version: str
    """Version of Headrace."""


class Ready(Health):
    """State of a node that can serve."""

    warnings: list[str]
    """What an operator should fix, although the node can serve: a new certificate is not in use."""


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    response_description="The metrics.",
)
def read_metrics(request: Request, caller: Authenticated) -> Response:
    """Return the metrics of the node and of the store in Prometheus's text format."""
    return Response(
        generate_latest(node_of(request).metrics(caller)), media_type=CONTENT_TYPE_PLAIN_0_0_4
    )


@router.get("/health")
async def check_health(request: Request) -> Health:
    """Report that the process is alive, whatever the state of its store."""
    return Health(status="ok", node_id=node_of(request).id, version=__version__)


@router.get("/ready")
async def check_readiness(request: Request) -> Ready:
    """Report whether the node can write to the store and its background tasks run.

    The status is 200, otherwise 503. While another process has locked the store, the response waits
    as long as a write does (`store.connect_timeout`).
    """
    node = node_of(request)
    await readiness_of(request).check()
    tls: ServerTls | None = request.app.state.tls
    # 503 would take all nodes that share the files away from their clients.
    warnings = [] if tls is None or tls.problem is None else [_OLD_CERTIFICATE]
    return Ready(status="ready", node_id=node.id, version=__version__, warnings=warnings)
