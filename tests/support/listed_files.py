"""A node that lists the files of jobs, as tests that move its clock need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.in_process_node import make_settings
from tests.support.store import register_node

from headrace.control.jobs.file_watches import FileWatches
from headrace.store.database import Database


def register_watcher(
    store: Database,
    home: Path,
    allowed: Mapping[str, list[str]],
    read_time: Callable[[], float],
    *,
    node_id: str = "no_1",
) -> FileWatches:
    """Register a node, and return what lists files in it, in the thread of the caller.

    Args:
        allowed: Owners that may follow the files of each location.
        read_time: Returns the time in seconds.
    """
    register_node(store, node_id)
    context: Any = SimpleNamespace(
        database=store,
        settings=make_settings(home, jobs={"watched_locations": dict(allowed)}),
        node_id=node_id,
        secrets=SimpleNamespace(list_owners=lambda _tx, owner: frozenset({owner})),
    )
    return FileWatches(context, read_time=read_time, submit=lambda poll: poll())
