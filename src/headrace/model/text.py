"""Types of text, numbers and JSON that come from outside: requests, and messages of drivers.

A field of one of these types is bounded, and the store can hold every value that it accepts.
PostgreSQL refuses NUL, UTF-8 has no unpaired surrogates, and an integer column has 4 or 8 bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, StringConstraints

MAX_INTEGER = 2**31 - 1
"""Largest value of an integer column."""
MAX_BIGINT = 2**63 - 1
"""Largest value of a bigint column."""
MAX_NAME = 1024
"""Characters of a name, a short description or a URL."""
MAX_MESSAGE = 64 * 1024
"""Characters of a message. A longer message is cut."""
MAX_REPORT = 16 * 1024 * 1024
"""Bytes of the largest report of a driver. No text in a report can be longer."""
MAX_SUMMARY = 1000
"""Characters of a message in a list. A longer message is cut."""

_MAX_KEY_BYTES = 1200
"""PostgreSQL's index entries have at most 2,704 bytes, and an index may hold two such texts."""
_MAX_SECRET = MAX_MESSAGE
"""Characters of the longest secret that may be in a text."""
_CUT_MARK = "… [cut]"
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def check_text(text: str) -> str:
    """Return the text. Raise ValueError if it has a NUL or an unpaired surrogate."""
    if match := _FORBIDDEN.search(text):
        raise ValueError(f"contains U+{ord(match[0]):04X}, which is not allowed in a text")
    return text


def check_key(text: str) -> str:
    """Return a text that the store indexes. Raise ValueError if it has more than 1,200 bytes."""
    if len(text.encode()) > _MAX_KEY_BYTES:
        raise ValueError(f"is longer than {_MAX_KEY_BYTES} bytes")
    return text


def check_finite(value: JsonValue) -> JsonValue:
    """Return a JSON value. Raise ValueError if it contains a number that JSON cannot express.

    pydantic parses NaN and 1e999 in a JsonValue, whatever `allow_inf_nan` says, and PostgreSQL
    refuses to store them.
    """
    remaining = [value]
    while remaining:
        part = remaining.pop()
        if isinstance(part, dict):
            remaining += part.values()
        elif isinstance(part, list):
            remaining += part
        elif isinstance(part, float) and not math.isfinite(part):
            raise ValueError(f"contains the number {part}, which JSON cannot express")
    return value


def clean_message(text: str) -> str:
    """Return a message that can be stored: forbidden characters replaced, cut at 64 Ki."""
    return cut_text(_FORBIDDEN.sub(_REPLACEMENT, text), MAX_MESSAGE)


_hide_secrets: Callable[[str], str] | None = None


def hide_before_cuts(hide: Callable[[str], str] | None) -> None:
    """Let a function hide the secrets in a text before it is cut, in this process.

    The remaining part of a value that is cut would match no pattern. A driver calls this when it
    starts: its models have no secrets.
    """
    global _hide_secrets  # noqa: PLW0603 - one for all parts of a process
    _hide_secrets = hide


def hide_secrets(text: str) -> str:
    """Return a text that can be cut, see `hide_before_cuts`."""
    return text if _hide_secrets is None else _hide_secrets(text)


def cut_text(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters. A longer text ends with a mark.

    A text that is cut has no secrets, in a process that calls `hide_before_cuts`.
    """
    if len(text) <= limit:
        return text
    # To search many megabytes for secrets would stop the other threads of a driver for seconds.
    start = text[: limit + 2 * _MAX_SECRET]
    masked = hide_secrets(start)
    if len(start) < len(text):
        # It may end with the first part of a secret, which no pattern finds.
        masked = masked[:-_MAX_SECRET]
    elif len(masked) <= limit:
        return masked
    return masked[: limit - len(_CUT_MARK)] + _CUT_MARK


def limit_descriptions(descriptions: list[str]) -> list[str]:
    """Return the first descriptions with 64 Ki characters together, and a note on the others."""
    kept, size = list[str](), 0
    for description in descriptions:
        size += len(description)
        if size > MAX_MESSAGE:
            return [*kept, f"… and {len(descriptions) - len(kept)} more"]
        kept.append(description)
    return kept


def _clean_if_text(value: Any) -> Any:
    return clean_message(value) if isinstance(value, str) else value


def _shorten_if_text(value: Any) -> Any:
    return cut_text(clean_message(value), MAX_SUMMARY) if isinstance(value, str) else value


Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(check_text)]
"""A name, a short description or a URL."""
IndexedText = Annotated[
    str, Field(max_length=_MAX_KEY_BYTES), AfterValidator(check_text), AfterValidator(check_key)
]
"""A text by which the store finds rows."""
MessageText = Annotated[str, BeforeValidator(_clean_if_text), Field(max_length=MAX_MESSAGE)]
"""A text for people, for example an error message. It is changed rather than refused."""
SummaryText = Annotated[str, BeforeValidator(_shorten_if_text), Field(max_length=MAX_SUMMARY)]
"""A short text for people. It is changed rather than refused."""
Descriptions = Annotated[
    list[MessageText], Field(max_length=10_000, fail_fast=True), AfterValidator(limit_descriptions)
]
"""A list of short texts for people."""
Code = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
"""The stable code of an error."""

StatementId = Annotated[str, StringConstraints(pattern=r"^st_[0-9a-f]{32}$")]
TransactionId = Annotated[str, StringConstraints(pattern=r"^tx_[0-9a-f]{32}$")]

Count = Annotated[int, Field(ge=0, le=MAX_BIGINT, strict=True)]
"""A number of rows, bytes or tasks."""
SmallCount = Annotated[int, Field(ge=0, le=MAX_INTEGER, strict=True)]
"""A number that is kept in an integer column."""

FiniteJson = Annotated[JsonValue, AfterValidator(check_finite)]
"""A JSON value without NaN and infinity."""
JsonObject = Annotated[
    dict[str, JsonValue], Field(max_length=100_000), AfterValidator(check_finite)
]
"""A JSON object without NaN and infinity. A node limits its values with those of the message."""
