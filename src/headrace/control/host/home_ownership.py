"""The one node of a home: it holds the home's lock, and can replace an embedded node.

An embedded node that is replaced ends without its drivers. The next node of the home finds them in
the store, so that sessions and running statements continue.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headrace.config.home import HomeLayout
from headrace.config.node_file import NodeFile, find_running_node, request_replacement
from headrace.errors import InvalidSetting, StoreInUse
from headrace.files.file_locks import lock_file

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
