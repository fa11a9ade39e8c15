"""Identifiers: a prefix that names the kind and a UUIDv7 in hex, so that they sort by time."""

from __future__ import annotations

import re

import uuid_utils

_PATTERN = re.compile(r"(st|se|tx|no)_[0-9a-f]{32}")


def new_id(prefix: str) -> str:
    """A fresh id, e.g. `st_019…`."""
    return f"{prefix}_{uuid_utils.uuid7().hex}"


def looks_like_id(text: str) -> bool:
    """Whether a text has the form of an id; no session may be named like that."""
    return _PATTERN.fullmatch(text) is not None
