"""The temporary views that a streaming query reads, from the snapshot of a session."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.session import SessionView, Snapshot


def order_views(snapshot: Snapshot, names: Iterable[str]) -> list[SessionView]:
    """Return the views of a session with these names, each after the views that it reads.

    A name of something else is skipped. So is a view without a query in the snapshot.
    """
    by_name = {
        entry.name.casefold(): entry.view for entry in snapshot.views if entry.view is not None
    }
    ordered: dict[str, SessionView] = {}
    begun = set[str]()
    # A driver may claim that its views form a long chain.
    stack = [(name.casefold(), False) for name in names]
    while stack:
        name, is_done = stack.pop()
        view = by_name.get(name)
        if view is None:
            continue
        if is_done:
            ordered[name] = view
        elif name not in begun:
            begun.add(name)
            stack.append((name, True))
            stack += [(read.casefold(), False) for read in view.reads]
    return list(ordered.values())


def list_streams_read(views: Iterable[SessionView]) -> list[str]:
    """Return the names that these views read and that are none of these views."""
    own, names = set[str](), dict[str, None]()
    for view in views:
        own.add(view.name.casefold())
        names |= dict.fromkeys(read.casefold() for read in view.reads)
    return [name for name in names if name not in own]
