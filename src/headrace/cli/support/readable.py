"""Ids, times and states of API objects for people.

On a terminal, a list shows times as lengths: how old an object is, how long it has run, how long a
lease or a pause still lasts. A page for one object shows instants in the zone of the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

from headrace.client.http import Json
from headrace.text.readable import describe_duration

_ID = re.compile(r"[a-z]{2}_[0-9a-f]{32}")
_SHORTEST_ID = 13
"""Characters of a short id. The first digits are a time, so that few ids begin with the same 10."""
_STYLES = {
    **dict.fromkeys(("failed", "timeout"), "red"),
    **dict.fromkeys(("cancelled", "cancelling", "backing_off", "recovering", "draining"), "yellow"),
    **dict.fromkeys(("running", "up"), "green"),
    **dict.fromkeys(("dead", "gone", "stopped"), "dim"),
}


def shorten_ids(texts: Sequence[str]) -> list[str]:
    """Return the texts with each id cut to a prefix that is unique among them."""
    ids = sorted({text for text in texts if _ID.fullmatch(text)})
    size = _SHORTEST_ID
    for one, next_one in pairwise(ids):
        while one[:size] == next_one[:size]:
            size += 1
    return [text[:size] if _ID.fullmatch(text) else text for text in texts]


def is_time_field(name: str) -> bool:
    """Return whether a field of an API object is an instant."""
    return name in {"at", "since"} or name.endswith(("_at", "_until", "_since", "_time"))


def parse_instant(value: object) -> datetime | None:
    """Return an instant of the API; None for null and for any other value."""
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def format_local_time(value: object) -> str:
    """Return an instant of the API in the zone of the terminal: `2026-11-24 11:00:00 CET`."""
    instant = parse_instant(value)
    return str(value) if instant is None else instant.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def format_age_of(value: object) -> str | None:
    """Return the time since an instant of the API, in whole seconds; None for null."""
    instant = parse_instant(value)
    if instant is None:
        return None
    return describe_duration(int((datetime.now(UTC) - instant).total_seconds()))


def format_remaining(value: object) -> str | None:
    """Return the time until an instant of the API, in whole seconds; None for null.

    The result for an instant that has passed is `0 s`.
    """
    instant = parse_instant(value)
    if instant is None:
        return None
    return describe_duration(round((instant - datetime.now(UTC)).total_seconds()))


def format_elapsed(item: Json) -> str | None:
    """Return the time from the creation of an object to its end, or to now: `1.5 s`."""
    return format_time_between(item.get("created_at"), item.get("ended_at"))


def format_time_between(start: object, end: object = None) -> str | None:
    """Return the time from one instant of the API to another, or to now; None without a start."""
    started = parse_instant(start)
    ended = parse_instant(end) or datetime.now(UTC)
    return None if started is None else describe_duration((ended - started).total_seconds())


def describe_session(session: Json) -> str:
    """Return the name of a session, or what it is for, or its id."""
    if session["name"]:
        return str(session["name"])
    if session.get("warm"):
        return f"warm driver of profile {session['profile']}"
    if session.get("pool"):
        return f"pool of profile {session['profile']}"
    return str(session["id"])


def style_of_state(state: str) -> str:
    """Return the style of rich in which a list shows a state."""
    return _STYLES.get(state.partition(",")[0], "")
