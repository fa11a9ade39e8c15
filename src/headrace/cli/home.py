"""The locks of a home that commands hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.config.home import HomeLayout
from headrace.errors import InvalidSetting, NodeUnreachable
from headrace.files.file_locks import lock_file
from headrace.text.times import describe_duration

_LOCK_TIMEOUT = 120.0


def acquire_commands_lock(layout: HomeLayout) -> int:
    """Acquire the shared lock that keeps the home's embedded node alive.

    The process holds the lock until it ends. A node that stops holds the lock exclusively: this
    function then waits for the end of the node.

    Returns:
        The open file descriptor.

    Raises:
        NodeUnreachable: The node did not end in time.
        InvalidSetting: The home cannot be written.
    """
    descriptor = _lock(layout, layout.commands_lock, shared=True)
    if descriptor is None:
        raise NodeUnreachable(
            f"The previous node of {layout.path} has not stopped within"
            f" {describe_duration(_LOCK_TIMEOUT)}.",
            hint="end it with headrace stop, or choose another home with --home",
        )
    return descriptor


@contextmanager
def start_lock(layout: HomeLayout) -> Iterator[None]:
    """Hold the exclusive lock under which a command starts the home's node.

    A node that is starting holds the lock: this function then waits until the node has started.
    Raises NodeUnreachable if that takes too long, and InvalidSetting if the home cannot be written.
    """
    descriptor = _lock(layout, layout.start_lock, shared=False)
    if descriptor is None:
        raise NodeUnreachable(
            f"The node of {layout.path} has been starting for {describe_duration(_LOCK_TIMEOUT)}.",
            hint=f"see the log of the node: {layout.node_log}",
        )
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(layout: HomeLayout, file: Path, *, shared: bool) -> int | None:
    try:
        layout.create()
        return lock_file(file, shared=shared, timeout=_LOCK_TIMEOUT)
    except OSError as error:
        raise InvalidSetting(
            f"The home {layout.path} cannot be written: {error.strerror}.",
            hint="choose another home with --home or HEADRACE_HOME, or name a node with --server",
        ) from error
