"""The driver's end of the link: calls to whichever node answers, repeated until one does.

A call ends without its result by LeaseLost, after which the driver must stop, by Orphaned, when no
node has answered for the bootstrap's `orphan_seconds`, or by Refused, which is a defect.
A store outage is none of these: nodes answer 503 and the call is repeated, so no result is lost.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

import urllib3

from headrace.driver.bootstrap import addresses
from headrace.errors import HeadraceError, LeaseLost
from headrace.model.failure import Failure
from headrace.model.messages import (
    LINK_PREFIX,
    Acknowledged,
    Advanced,
    Bootstrap,
    Ended,
    Goodbye,
    Hello,
    Message,
    Orders,
    OrphanedTransaction,
    Poll,
    Recover,
    Recovered,
    Renew,
    Renewed,
    Restore,
    Restored,
    Started,
    Transact,
    Transacted,
)
from headrace.model.progress import Progress

_LOG = logging.getLogger("headrace.link")
_POLL_SECONDS = 20.0
_CALL_SECONDS = 10.0
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_CONNECTIONS = 8

Answer = TypeVar("Answer", bound=Message)


class NoNodeAnswers(HeadraceError):
    """No node has answered for too long."""

    code = "orphaned"


class LinkRefused(HeadraceError):
    """The node does not understand this driver: they are of different versions."""

    code = "link_refused"


class Link:
    """Calls of one session and epoch. Thread safe."""

    def __init__(self, file: Path | None, bootstrap: Bootstrap, token: str) -> None:
        """`file` names nodes anew when none answers; None where the driver has no such file."""
        self.bootstrap = bootstrap
        self._file = file
        self._path = f"{LINK_PREFIX}/{bootstrap.session_id}/{bootstrap.epoch}"
        self._nodes = list(bootstrap.nodes)
        self._lock = threading.Lock()
        self._pool = urllib3.PoolManager(
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            maxsize=_CONNECTIONS,
            retries=False,
        )

    def close(self) -> None:
        """Lets go of the connections."""
        self._pool.clear()

    def restore(self) -> Restored:
        """What a driver before this one has left."""
        return self._call("restore", Restore(), Restored)

    def hello(self, message: Hello) -> Acknowledged:
        return self._call("hello", message, Acknowledged)

    def poll(self, in_flight: list[str], cancels_received: list[str]) -> Orders:
        message = Poll(
            wait_seconds=_POLL_SECONDS, in_flight=in_flight, cancels_received=cancels_received
        )
        return self._call("poll", message, Orders, seconds=_POLL_SECONDS + _CALL_SECONDS)

    def renew(self, streams: int = 0) -> Renewed:
        """Prolongs the lease, says how many streams run, and learns where nodes are."""
        renewed = self._call("renew", Renew(streams=streams), Renewed)
        if renewed.nodes:
            with self._lock:
                known = [node for node in self._nodes if node in renewed.nodes]
                self._nodes = known + [node for node in renewed.nodes if node not in known]
        return renewed

    def started(self, statement_id: str) -> Acknowledged:
        return self._call("started", Started(statement_id=statement_id), Acknowledged)

    def advanced(self, progress: dict[str, Progress]) -> None:
        """Best effort: the next report says more."""
        with contextlib.suppress(NoNodeAnswers):
            self._call("advanced", Advanced(progress=progress), Acknowledged, patience=0.0)

    def transact(self, message: Transact) -> Transacted:
        """Journals a step of a table transaction."""
        return self._call("transact", message, Transacted)

    def recover(self, identities: list[str]) -> list[OrphanedTransaction]:
        """Takes over what nobody drives any more of these catalogs."""
        return self._call("recover", Recover(identities=identities), Recovered).left

    def ended(self, message: Ended) -> Acknowledged:
        return self._call("ended", message, Acknowledged)

    def goodbye(self, failure: Failure | None = None) -> None:
        """Best effort: a node that misses it learns from the lease."""
        patience = min(_CALL_SECONDS, self.bootstrap.orphan_seconds)
        try:
            self._call("goodbye", Goodbye(failure=failure), Acknowledged, patience=patience)
        except HeadraceError as error:
            _LOG.warning("left without a goodbye: %s", error.message)

    def _call(
        self,
        name: str,
        message: Message,
        answer: type[Answer],
        *,
        seconds: float = _CALL_SECONDS,
        patience: float | None = None,
    ) -> Answer:
        body = message.model_dump_json().encode()
        patience = self.bootstrap.orphan_seconds if patience is None else patience
        deadline = time.monotonic() + patience
        pause = _FIRST_PAUSE
        while True:
            reached, text = self._attempt(name, body, seconds)
            if text is not None:
                return answer.model_validate_json(text)
            if reached:
                deadline = time.monotonic() + patience
            if time.monotonic() > deadline:
                raise NoNodeAnswers(f"No node has answered {name!r} for {patience:g} s.")
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt(self, name: str, body: bytes, seconds: float) -> tuple[bool, bytes | None]:
        """Whether a node was reached, and its answer when it gave one."""
        with self._lock:
            node = self._nodes[0]
        try:
            response = self._pool.request(
                "POST", f"{node}{self._path}/{name}", body=body, timeout=seconds
            )
        except urllib3.exceptions.HTTPError as error:
            _LOG.info("node %s is out of reach: %s", node, error)
            self._turn_to_next(node)
            return False, None
        status = response.status
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return True, response.data
        told = response.data.decode(errors="replace")
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.CONFLICT}:
            raise LeaseLost(f"{node} answers {status}: {told}")
        if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise LinkRefused(f"{node} answers {status} to {name}: {told}")
        _LOG.warning("node %s answers %s to %s", node, status, name)
        self._turn_to_next(node)
        return status == HTTPStatus.SERVICE_UNAVAILABLE, None

    def _turn_to_next(self, failed: str) -> None:
        """Another node's turn; the file may name one that came back on another port."""
        fresh = addresses(self._file)
        with self._lock:
            known = dict.fromkeys([*fresh, *self._nodes])
            self._nodes = [node for node in known if node != failed] + [failed]
