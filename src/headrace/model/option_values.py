"""The types of the values of options, each as a pattern of its texts and a conversion.

A pattern has the same meaning in Python and in Java, so that the driver's JVM accepts exactly the
texts that a node accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from headrace.durations import LONGEST_DURATION, UNITS, parse_duration

T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueType(Generic[T_co]):
    """A type of values."""

    pattern: str
    """Matches the whole of each text that is a value. Letters match in ASCII only."""
    convert: Callable[[str], T_co]
    """Converts a text that the pattern matches."""
    allowed: str
    """The allowed values, for messages and for the reference."""

    def matches(self, text: str) -> bool:
        """Return whether a text is a value of this type."""
        return re.fullmatch(self.pattern, text, re.ASCII) is not None


def choice(members: type[E]) -> ValueType[E]:
    """Return the type of the members of an enum, in upper or lower case."""
    words = "|".join(member.value.replace(" ", "[ \\t]+") for member in members)
    return ValueType(
        pattern=f"(?i)[ \\t]*(?:{words})[ \\t]*",
        convert=lambda text: members(" ".join(text.lower().split())),
        allowed=", ".join(members),
    )


def boolean() -> ValueType[bool]:
    """Return the type of `true` and `false`, in upper or lower case."""
    return ValueType(
        pattern="(?i)true|false",
        convert=lambda text: text.lower() == "true",
        allowed="true, false",
    )


def count(maximum: int) -> ValueType[int]:
    """Return the type of the integers from 0 to a maximum."""
    return ValueType(pattern=_up_to(maximum), convert=int, allowed=f"integers from 0 to {maximum}")


def share() -> ValueType[float]:
    """Return the type of the finite numbers from 0."""
    return ValueType(
        pattern=r"\+?(?:[0-9]{1,100}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})(?:[eE][+-]?[0-9]{1,2})?",
        convert=float,
        allowed="numbers from 0",
    )


def duration() -> ValueType[timedelta]:
    """Return the type of durations: an integer and its unit without a space between them."""
    texts = (f"{_up_to(LONGEST_DURATION // each)}{unit}" for unit, each in UNITS.items())
    return ValueType(
        pattern=f"(?:{'|'.join(texts)})",
        convert=parse_duration,
        allowed="an integer and a unit, for example 10s; units: "
        f"{', '.join(UNITS)}; at most {LONGEST_DURATION.days}d",
    )


def _up_to(maximum: int) -> str:
    """Return a pattern of the integers from 0 to a maximum."""
    digits = str(maximum)
    size = len(digits)
    ranges = [f"[0-9]{{1,{size - 1}}}"] if size > 1 else []
    for index, digit in enumerate(digits):
        lowest = 1 if index == 0 and size > 1 else 0
        if int(digit) > lowest:
            rest = f"[0-9]{{{size - index - 1}}}"
            ranges.append(f"{digits[:index]}[{lowest}-{int(digit) - 1}]{rest}")
    return f"0*(?:{'|'.join([*ranges, digits])})"
