"""Identifiers: a prefix for the entity and a UUIDv7 in hex, so that ids sort by creation time."""

from __future__ import annotations

import re

import uuid_utils

_PATTERN = re.compile(r"[a-z]{2}_[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """Return a new id, for example `st_019…`."""
    return f"{prefix}_{uuid_utils.uuid7().hex}"


def looks_like_id(text: str) -> bool:
    """Return whether a text has the form of an id. Session names must not have it."""
    return _PATTERN.fullmatch(text) is not None


def seconds_of_id(text: str) -> float:
    """Return the Unix time at which an id was created."""
    return int(text.partition("_")[2][:12], 16) / 1000
