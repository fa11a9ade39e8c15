"""Statements, sessions and nodes by the beginning of their ids, which lists on a terminal show."""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.cli.output.text import cut, to_printable
from headrace.cli.support.readable import format_age_of, shorten_ids
from headrace.client.http import Client, Json
from headrace.errors import AmbiguousId, NotFound, StatementNotFound

LAST = "last"
"""Stands for the caller's newest statement."""
_PREFIX = re.compile(r"(st|se|no)_[0-9a-f]{1,31}")
_MAX_CANDIDATES = 8
_RECENT = 3
"""Statements that the error for an unknown id lists."""
_MAX_TEXT = 40


def resolve_statement(client: Client, reference: str) -> str:
    """Return the id of the statement that an id, a prefix of an id, or `last` stands for.

    Raises:
        StatementNotFound: There is no such statement.
        AmbiguousId: Several ids begin with the prefix; the hint lists them.
    """
    if reference == LAST:
        newest = client.statements(limit=1)["items"]
        if not newest:
            raise StatementNotFound("You have not submitted any statement yet.")
        return str(newest[0]["id"])
    if not _is_prefix(reference, "st"):
        return reference
    found = client.statements(id_prefix=reference, limit=_MAX_CANDIDATES + 1)["items"]
    if not found:
        recent = client.statements(limit=_RECENT)["items"]
        raise StatementNotFound(
            f"No id of your statements begins with {reference!r}.",
            hint=_list_candidates("your newest statements:", recent) if recent else None,
        )
    return _choose(reference, found, "statements")


def resolve_session(client: Client, reference: str) -> str:
    """Return the id or name of the session that an id, a name or a prefix of an id stands for.

    A reference that matches no session is returned unchanged: the node then reports the error.

    Raises AmbiguousId if several ids begin with the prefix; the hint lists them.
    """
    if not _is_prefix(reference, "se"):
        return reference
    try:
        # The name of a session can have the form of a prefix.
        return str(client.session(reference)["id"])
    except NotFound:
        found = client.sessions(id_prefix=reference, limit=_MAX_CANDIDATES + 1)["items"]
    return _choose(reference, found, "sessions") if found else reference


def resolve_node(client: Client, reference: str) -> str:
    """Return the id of the node that an id or a prefix of an id stands for.

    Raises AmbiguousId if several ids begin with the prefix; the hint lists them.
    """
    if not _is_prefix(reference, "no"):
        return reference
    nodes = client.nodes()
    found = [node for node in nodes if node["id"].startswith(reference)]
    if not found or any(node["id"] == reference for node in nodes):
        return reference
    return _choose(reference, found, "nodes")


def _is_prefix(reference: str, kind: str) -> bool:
    return reference.startswith(kind) and _PREFIX.fullmatch(reference) is not None


def _choose(reference: str, found: Sequence[Json], kind: str) -> str:
    """Return the id of the only candidate. Raise AmbiguousId if there are several."""
    if len(found) == 1:
        return str(found[0]["id"])
    count = f"More than {_MAX_CANDIDATES}" if len(found) > _MAX_CANDIDATES else f"{len(found)}"
    raise AmbiguousId(
        f"{count} {kind} have ids that begin with {reference!r}. Add more characters.",
        hint=_list_candidates("candidates:", found[:_MAX_CANDIDATES]),
    )


def _list_candidates(title: str, items: Sequence[Json]) -> str:
    """Return a line for each object: short id, state, age, and text or name."""
    lines = [title]
    for item, short_id in zip(items, shorten_ids([item["id"] for item in items]), strict=True):
        age = format_age_of(item.get("created_at"))
        text = item.get("statement") or item.get("name") or item.get("address") or ""
        parts = (short_id, item["state"], age and f"{age} ago", " ".join(text.split()))
        shown = [cut(to_printable(part), _MAX_TEXT) for part in parts if part]
        lines.append("  " + "  ".join(shown))
    return "\n".join(lines)
