"""The logs of drivers: each is a file of the node that launched the driver; any node returns it.

The log of an ended session is also in the results location.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.client.http import Client
from headrace.control.context import NodeContext
from headrace.control.policy import Caller
from headrace.control.sessions.launch_request import list_operator_secrets, list_own_secrets
from headrace.control.sessions.opening import get_session, resolve_session
from headrace.control.worker_pool import WorkerPool
from headrace.errors import (
    ClientCertificateMissing,
    HeadraceError,
    NodeUnreachable,
    Unauthorized,
)
from headrace.files import locations
from headrace.files.places import join
from headrace.grammar.secret_references import KnownSecrets
from headrace.model.node import NodeRecord
from headrace.model.session import Session
from headrace.store import nodes
from headrace.store.sessions import sessions
from headrace.text.durations import seconds_of

_LOG = logging.getLogger("headrace.logs")
_BATCH = 200
_LIMIT = 16 * 1024 * 1024
"""Largest number of bytes that are kept of a log: its end."""
_NAME = re.compile(r"(se_[0-9a-f]{32})\.log")


def kept_log_name(session_id: str) -> str:
    """Return the name of a kept log in the results location."""
    return f"{session_id}.log"


class KeptLogs:
    """Copies the logs of this node's home. The thread of `Retention` runs it."""

    def __init__(self, context: NodeContext, calls: WorkerPool) -> None:
        """Use a pool for the calls to the results location, which may hang."""
        self._context = context
        self._database = context.database
        self._folder = context.settings.layout.session_logs
        self._location = context.settings.results.location
        self._calls = calls
        self._retention_seconds = seconds_of(context.settings.history.retention)
        self._kept: set[str] | None = None

    def run(self) -> int:
        """Copy the logs of sessions that have ended; return their number.

        Raises:
            ResultsUnavailable: The results location cannot be listed.
            StoreUnavailable: The store does not answer.
        """
        if self._location is None:
            return 0
        if self._kept is None:
            self._kept = _session_ids(self._calls.call(locations.list_names, self._location))
        missing = sorted(_session_ids(locations.list_names(str(self._folder))) - self._kept)
        count = 0
        for start in range(0, len(missing), _BATCH):
            with self._database.read() as tx:
                ended = sessions.find_ended(tx, missing[start : start + _BATCH])
            copied = {session_id for session_id in ended if self._copy(self._location, session_id)}
            self._kept |= copied
            count += len(copied)
        return count

    def remove_deleted(self, older_than: float | None = None) -> int:
        """Delete the logs of this home whose sessions the store has deleted, and their copies.

        Another store can have sessions of the same home or results location: only logs of this home
        are deleted, and only when they are older than `history.retention`. Return their number.

        Args:
            older_than: Age in seconds instead of `history.retention`.

        Raises:
            ResultsUnavailable: The logs cannot be listed.
            StoreUnavailable: The store does not answer.
        """
        seconds = self._retention_seconds if older_than is None else older_than
        if seconds is None:
            return 0
        oldest = time.time() - seconds
        old = sorted(
            session_id
            for session_id in _session_ids(locations.list_names(str(self._folder)))
            if self._changed_at(session_id) < oldest
        )
        count = 0
        for start in range(0, len(old), _BATCH):
            batch = old[start : start + _BATCH]
            with self._database.read() as tx:
                existing = set(sessions.find_existing(tx, batch))
            count += sum(self._remove(each) for each in batch if each not in existing)
        return count

    def _changed_at(self, session_id: str) -> float:
        try:
            return (self._folder / kept_log_name(session_id)).stat().st_mtime
        except OSError:
            return time.time()

    def _remove(self, session_id: str) -> bool:
        name = kept_log_name(session_id)
        try:
            if self._location is not None:
                # The copy first: without the log, no node would find the copy again.
                self._calls.call(locations.delete, join(self._location, name))
            (self._folder / name).unlink(missing_ok=True)
        except (HeadraceError, OSError) as error:
            _LOG.error("session %s: its log could not be deleted: %s", session_id, error)
            return False
        if self._kept is not None:
            self._kept.discard(session_id)
        return True

    def _copy(self, location: str, session_id: str) -> bool:
        name = kept_log_name(session_id)
        try:
            with self._database.read() as tx:
                session = sessions.get(tx, session_id)
            known = None if session is None else _recall_secrets(self._context, session)
            end = read_log(str(self._folder), name, _LIMIT, known)
            content, place = b"" if end is None else end.content, join(location, name)
            self._calls.call(lambda: locations.write(place, content, private=True))
        except (HeadraceError, OSError) as error:
            _LOG.error("session %s: its log could not be kept: %s", session_id, error)
            return False
        return True


def _session_ids(names: list[str]) -> set[str]:
    return {match[1] for name in names if (match := _NAME.fullmatch(name))}


_CONTEXT = 4096
"""Bytes before the end that is read, which may contain the name of the first secret in it."""
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 with which no character begins."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log, with the secrets redacted."""

    content: bytes
    is_cut: bool
    """Whether the log has more before it. Its size does not say so: redacted secrets change it."""

    @property
    def text(self) -> str:
        """The content as text."""
        return self.content.decode(errors="replace")


def read_log(
    directory: str, name: str, limit: int, known: KnownSecrets | None = None
) -> LogEnd | None:
    """Return the last `limit` bytes of a log, with the secrets redacted; None if there is no file.

    Raises as `read_end` does.

    Args:
        known: Values of secrets of the session, wherever they stand.
    """
    known = known or KnownSecrets()
    size_read = limit + _CONTEXT
    while True:
        end = read_end(directory, name, size_read)
        if end is None:
            return None
        content, size = end
        is_cut = size > len(content)
        masked = _mask_cut(content, known) if is_cut else _mask(content, known.mask_text)
        if not is_cut or len(masked) >= limit or size_read > _LIMIT:
            return LogEnd(masked[-limit:], is_cut or len(masked) > limit)
        # Redacting has made the text shorter.
        size_read *= 2


def _mask(content: bytes, mask: Callable[[str], str]) -> bytes:
    return mask(content.decode(errors="replace")).encode()


def _mask_cut(content: bytes, known: KnownSecrets) -> bytes:
    """Redact the end of a log without its first line, which may begin within a secret."""
    # The first character may be cut as well as the first value.
    masked = _mask(content.lstrip(_CONTINUATION_BYTES), known.mask_end)
    return masked[masked.find(b"\n", 0, _CONTEXT) + 1 or _CONTEXT :]


def _recall_secrets(context: NodeContext, session: Session) -> KnownSecrets:
    """Return the values of the secrets of a session that this process knows or can read.

    A process that has not started the driver reads those of its configuration.
    """
    known = context.secrets.known_of(session.id)
    try:
        profile = context.settings.profile(session.spec.profile)
        names = [*list_operator_secrets(context.settings, profile), *list_own_secrets(session.spec)]
        if missing := [name for name in names if not known.knows(name)]:
            context.secrets.remember(session.id, context.secrets.find(missing, None))
    except HeadraceError as error:
        _LOG.warning("session %s: its log may contain a secret: %s", session.id, error.message)
    return context.secrets.known_of(session.id)


def read_end(directory: str, name: str, limit: int) -> tuple[bytes, int] | None:
    """Return the last `limit` bytes of a file, and its size; None if there is no file.

    A link is not followed, and a pipe not read.

    Raises:
        ResultsUnavailable: The file is not a regular file, or cannot be read.
    """
    try:
        with locations.open_driver_file(directory, name) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - limit))
            content: bytes = stream.read(limit)
            return content, size
    except FileNotFoundError:
        return None


_FORWARD_SECONDS = 5.0
"""How long a node that does not respond is asked for a log."""
_THREADS = 4
_SECONDS = 60.0


class SessionLogs:
    """Reads the logs of the drivers of all callers."""

    def __init__(self, context: NodeContext, *, token: str | None) -> None:
        """Create a reader.

        Args:
            token: Token of the nodes of the cluster; None: they need none.
        """
        self._context = context
        self._database = context.database
        self._node_id = context.node_id
        self._layout = context.settings.layout
        self._results_location = context.settings.results_location
        self._token = token
        self._tls = context.client_tls
        self._threads = WorkerPool(
            "log-reads", threads=_THREADS, seconds=_SECONDS, storage="folder of the logs"
        )

    async def read_async(
        self, caller: Caller, name_or_id: str, tail: int, *, forward: bool = True
    ) -> LogEnd:
        """Do what `read` does, in a thread. Raise ResultsUnavailable if it takes too long."""
        return await self._threads.run(self.read, caller, name_or_id, tail, forward=forward)

    def read(self, caller: Caller, name_or_id: str, tail: int, *, forward: bool = True) -> LogEnd:
        """Return the last `tail` bytes of the driver's log; empty before the driver has started.

        Secrets that a line names are redacted.

        Args:
            forward: Whether another node is asked for the log of a driver that it has launched.

        Raises:
            SessionNotFound: The caller has no such session.
            ResultsUnavailable: The file is not a regular file, or cannot be read.
            NodeUnreachable: The node that has the log does not respond.
        """
        with self._database.read() as tx:
            session = get_session(tx, resolve_session(tx, caller, name_or_id))
            launched_by = session.launched_by
            is_foreign = launched_by is not None and launched_by != self._node_id
            other = nodes.get(tx, launched_by) if launched_by and is_foreign and forward else None
            is_live = other is not None and nodes.is_live(tx, other.id)
        if other is not None and is_live:
            return self._fetch(other, session.id, tail)
        file = self._layout.session_log(session.id)
        known = _recall_secrets(self._context, session)
        end = read_log(str(file.parent), file.name, tail, known)
        if end is None and is_foreign:
            end = read_log(self._results_location, kept_log_name(session.id), tail, known)
        if end is None and other is not None:
            raise NodeUnreachable(
                f"The log of the session {session.id} is on the host of the node {other.id}"
                f" ({other.address}), which is not live.",
                hint="The node copies the logs of ended sessions to the results location.",
            )
        return end or LogEnd(b"", is_cut=False)

    def _fetch(self, node: NodeRecord, session_id: str, tail: int) -> LogEnd:
        try:
            with Client(
                node.address, self._token, tls=self._tls, retry_seconds=_FORWARD_SECONDS
            ) as client:
                text, is_cut = client.session_log_end(session_id, tail)
                return LogEnd(text.encode(), is_cut)
        except (ClientCertificateMissing, Unauthorized):
            raise NodeUnreachable(
                f"The node {node.id} at {node.address} has the log of the session {session_id}, and"
                " does not accept the token or the certificate of this node.",
                hint="Give all nodes of the cluster the same token (HEADRACE_TOKEN), and with"
                " tls.client_ca also a tls.client_cert.",
            ) from None
