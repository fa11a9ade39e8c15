"""Lookup of streaming queries, inside a transaction of the caller."""

from __future__ import annotations

from headrace.errors import StreamNotFound
from headrace.model.lifecycle import STREAM
from headrace.model.stream_query import ADHOC_SCOPE, StreamQuery
from headrace.model.text import looks_like_id
from headrace.store.database import Tx
from headrace.store.sessions import sessions
from headrace.store.streams import stream_queries

_MAX_DOTS = 10
"""Largest number of ways in which a name is read."""
_SHOWN = 200
"""Largest number of characters of a name in a message."""


def find_query(tx: Tx, owner: str, name: str) -> StreamQuery:
    """Return a query of an owner: by its id, its name, or `scope.name`.

    A name means the live query with this name, or the newest that has ended. Raise StreamNotFound
    if the owner has no such query.
    """
    query = stream_queries.get(tx, name) if looks_like_id(name) else _find_by_name(tx, owner, name)
    if query is None or query.owner != owner:
        raise StreamNotFound(f"The streaming query {name[:_SHOWN]!r} does not exist.")
    return query


def lock_query(tx: Tx, owner: str, name: str) -> StreamQuery:
    """Return a query as `find_query` does, with locks on its session and on the query."""
    found = find_query(tx, owner, name)
    sessions.lock(tx, found.session_id)
    locked = stream_queries.lock(tx, found.id)
    assert locked is not None
    return locked


def _find_by_name(tx: Tx, owner: str, name: str) -> StreamQuery | None:
    # The name of a job, and that of a query, can contain a dot.
    dots = [at for at, character in enumerate(name) if character == "."][:_MAX_DOTS]
    names = [(ADHOC_SCOPE, name), *((name[:dot], name[dot + 1 :]) for dot in dots)]
    found = [stream_queries.find(tx, owner, scope, query) for scope, query in names]
    known = [each for each in found if each is not None]
    return max(known, key=_rank, default=None)


def _rank(query: StreamQuery) -> tuple[bool, bool, str]:
    return query.state not in STREAM.terminal, query.scope == ADHOC_SCOPE, query.id
