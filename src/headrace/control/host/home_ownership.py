"""The one node of a home: it holds the home's lock, and can replace an embedded node.

An embedded node that is replaced ends without its drivers. The next node of the home finds them in
the store, so that sessions and running statements continue.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headrace.config.home import HomeLayout
from headrace.config.node_file import NodeFile, find_running_node, request_replacement
from headrace.errors import InvalidSetting, StoreInUse, StoreUnavailable
from headrace.files.file_locks import lock_file
from headrace.files.private_files import write_private
from headrace.store.database import Database
from headrace.store.statements import statements
from headrace.store.streams import stream_queries

_LOG = logging.getLogger("headrace.config.home")
_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.05


def refuse_second_node(layout: HomeLayout) -> None:
    """Raise StoreInUse if a node that cannot be replaced serves the home."""
    node = find_running_node(layout)
    if node is not None and not node.embedded:
        raise _describe(layout, node)


@contextmanager
def own_home(layout: HomeLayout, starting: ExitStack, *, embedded: bool) -> Iterator[None]:
    """Hold the lock of a home during the block, which contains the life of its node.

    A node that is stopping is awaited. An embedded node is asked to make way, unless the new node
    is embedded too.

    Args:
        starting: Closed by the caller when the node serves requests. Until then, the commands of
            the home wait. For an embedded node, the command that starts it makes others wait.

    Raises:
        StoreInUse: If another node serves the home.
        InvalidSetting: If the home cannot be written.
    """
    if not embedded:
        starting.callback(os.close, _lock_start(layout))
    descriptor = _acquire(layout, embedded=embedded)
    try:
        # The file of a node that was killed would now seem to describe the holder of the lock.
        layout.node_file.unlink(missing_ok=True)
        yield
    finally:
        os.close(descriptor)


def _lock_start(layout: HomeLayout) -> int:
    descriptor = _lock(layout, layout.start_lock, timeout=_WAIT_SECONDS)
    if descriptor is None:
        raise _describe(layout, None)
    return descriptor


def _acquire(layout: HomeLayout, *, embedded: bool) -> int:
    deadline = time.monotonic() + _WAIT_SECONDS
    asked: NodeFile | None = None
    while (descriptor := _lock(layout, layout.node_lock)) is None:
        node = find_running_node(layout)
        if node is not None and node != asked:
            if embedded or not node.embedded or not request_replacement(node):
                raise _describe(layout, node)
            _LOG.info("replaces the embedded node, process %d; its drivers continue", node.pid)
            asked = node
        if time.monotonic() > deadline:
            raise _describe(layout, node or asked)
        time.sleep(_POLL_SECONDS)
    return descriptor


def _lock(layout: HomeLayout, file: Path, *, timeout: float = 0.0) -> int | None:
    try:
        return lock_file(file, timeout=timeout)
    except OSError as error:
        raise InvalidSetting(
            f"The home {layout.path} cannot be written: {error.strerror}. Choose another home with "
            "--home or HEADRACE_HOME."
        ) from error


def _describe(layout: HomeLayout, node: NodeFile | None) -> StoreInUse:
    remedy = "Stop it now with headrace stop, or choose another home with --home."
    if node is None:
        return StoreInUse(f"A node still serves the home {layout.path}.", hint=remedy)
    end = " It stops some minutes after its last command." if node.embedded else ""
    return StoreInUse(
        f'Process {node.pid}, started by "{node.started_by}", still serves the home '
        f"{layout.path}.{end}",
        hint=remedy,
    )


_BYTES = 32


def load_or_create_token(file: Path) -> str:
    """Return the token in a file with mode 0600; create the file if it does not exist.

    Another process that creates the file at the same time gets the same token. The mode of an
    existing file is corrected. Raises OSError.
    """
    if not file.exists():
        _create(file)
    if file.stat().st_mode & 0o077:
        file.chmod(0o600)
    token = file.read_text().strip()
    if not token:
        token = secrets.token_urlsafe(_BYTES)
        write_private(file, token)
    return token


def _create(file: Path) -> None:
    """Create the file with a new token, unless another process has just created it."""
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    write_private(draft, secrets.token_urlsafe(_BYTES))
    try:
        # Unlike a rename, a link does not replace the file of another process.
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink()


class IdleShutdown:
    """Measures how long no command has used an embedded node."""

    def __init__(self, layout: HomeLayout, linger_seconds: float) -> None:
        self._lock_file = layout.commands_lock
        self._linger_seconds = linger_seconds
        self._idle_since: float | None = None
        self._lock: int | None = None

    def is_due(self, database: Database) -> bool:
        """Return whether no command has used the node for the linger time and all work has ended.

        A detached statement and a streaming query keep the node alive until they have ended. After
        the first True, this process holds the lock exclusively: a new command waits for the end of
        the node, and then starts another one.
        """
        if self._lock is not None:
            return True
        lock = lock_file(self._lock_file)
        if lock is None or _has_active_work(database):
            self._idle_since = None
            if lock is not None:
                os.close(lock)
            return False
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since < self._linger_seconds:
            os.close(lock)
            return False
        self._lock = lock
        return True


def _has_active_work(database: Database) -> bool:
    """Return whether a statement or a streaming query has not ended.

    A store that does not answer counts as active.
    """
    try:
        with database.read() as tx:
            return statements.active_count(tx) > 0 or stream_queries.any_live(tx)
    except StoreUnavailable:
        return True
