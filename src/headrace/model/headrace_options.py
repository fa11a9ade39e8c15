"""Headrace's own options of sessions, statements and streaming queries: one description each.

`conf` of sessions, statements and profiles, `spark-properties` of manifests, SQL `SET` and the
OPTIONS of streaming queries all check keys and values against these descriptions.
docs/reference/options.md is generated from them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

from headrace.errors import InvalidSetting
from headrace.text.durations import LONGEST_DURATION, UNITS, parse_duration

E = TypeVar("E", bound=StrEnum)


T_co = TypeVar("T_co", covariant=True)


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


T = TypeVar("T")

OWN_PREFIXES = ("headrace.", "spark.headrace.", "pstl.retry.", "spark.pstl.retry.")
"""Beginnings of the keys that only Headrace reads. The seed of streams has the spelling `pstl`."""
_MAX_COUNT = 2**31 - 1


class Atomicity(StrEnum):
    """Whether a statement that writes rows must be atomic."""

    AUTO = "auto"  # atomic where the catalog allows it
    REQUIRE = "require"  # refuse the statement where it cannot be atomic
    OFF = "off"  # as plain Spark does it


class Trigger(StrEnum):
    """When a CTAS over a stream ends."""

    AVAILABLE_NOW = "available now"  # after the rows that are available at the start
    ONCE = "once"  # the same, in one batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[T_co]):
    """The description of one option."""

    conf_keys: tuple[str, ...]
    """Keys in `conf` and SET, the preferred one first."""
    query_keys: tuple[str, ...] = ()
    """Keys in the OPTIONS of streams, the preferred one first. Upper and lower case are equal."""
    type: ValueType[T_co]
    default: T_co
    default_text: str
    doc: str
    """What the option means."""

    @property
    def key(self) -> str:
        """The preferred key in `conf` and SET."""
        return self.conf_keys[0]

    def parse(self, text: str, key: str | None = None) -> T_co:
        """Return the value of a text.

        Args:
            key: The key that the user has written. Default: the preferred key.

        Raises:
            InvalidSetting: The text is not a value of the option.
        """
        if not self.type.matches(text):
            raise InvalidSetting(
                f"{key or self.key} is {text!r}. Allowed values: {self.type.allowed}."
            )
        return self.type.convert(text)

    def read(self, conf: Mapping[str, str]) -> T_co:
        """Return the value in a configuration, otherwise the default. Raises InvalidSetting."""
        return self.read_query({}, conf)

    def read_query(self, options: Mapping[str, str], conf: Mapping[str, str]) -> T_co:
        """Return the value for a streaming query, otherwise that of its session.

        Args:
            options: Options of the query, by key in lower case.
            conf: Configuration of the session.

        Raises:
            InvalidSetting: The value is not allowed, or two spellings have different values.
        """
        given = self._find(options, conf)
        return self.default if given is None else self.parse(given[1], given[0])

    def written_key(self, options: Mapping[str, str], conf: Mapping[str, str]) -> str:
        """Return the key as the user has written it, otherwise the preferred one."""
        given = self._find(options, conf)
        return (*self.query_keys, self.key)[0] if given is None else given[0]

    def _find(self, options: Mapping[str, str], conf: Mapping[str, str]) -> tuple[str, str] | None:
        """Return key and value, or None if the option is given nowhere."""
        in_conf = _find_spelling(conf, self.conf_keys)
        return _find_spelling(options, self.query_keys) or in_conf


def _find_spelling(values: Mapping[str, str], keys: Sequence[str]) -> tuple[str, str] | None:
    given = [(key, values[key]) for key in keys if key in values]
    if len({value for _, value in given}) > 1:
        written = " and ".join(f"{key} = {value!r}" for key, value in given)
        raise InvalidSetting(
            f"Two spellings of one option have different values: {written}. Remove one of them."
        )
    return given[0] if given else None


def _retry(name: str, value: ValueType[T], default: T, default_text: str, doc: str) -> Option[T]:
    """Return the description of an option of the retry policy, in both spellings."""
    keys = (f"headrace.retry.{name}", f"pstl.retry.{name}")
    return Option(
        conf_keys=tuple(f"spark.{key}" for key in keys),
        query_keys=keys,
        type=value,
        default=default,
        default_text=default_text,
        doc=doc,
    )


CTAS_ATOMICITY = Option(
    conf_keys=("headrace.ctas.atomicity",),
    type=choice(Atomicity),
    default=Atomicity.AUTO,
    default_text="auto",
    doc="Whether a CREATE TABLE … AS SELECT must be atomic. `require` refuses a statement that"
    " cannot be; `off` runs it as plain Spark.",
)
WRITES_ATOMICITY = Option(
    conf_keys=("headrace.writes.atomicity",),
    type=choice(Atomicity),
    default=Atomicity.AUTO,
    default_text="auto",
    doc="Whether a statement that changes the rows of a table must be atomic. Values as above.",
)
CTAS_TRIGGER: Option[Trigger | None] = Option(
    conf_keys=("headrace.ctas.trigger",),
    type=choice(Trigger),
    default=None,
    default_text="none",
    doc="When a CREATE TABLE … AS SELECT over a stream ends: after the rows that are available at"
    " its start, in several batches or in one. Without a value, such a statement is refused.",
)
RETRY_ENABLED = _retry(
    "enabled", boolean(), True, "true", "Whether a failed streaming query is started again."
)
RETRY_MAX_ATTEMPTS = _retry(
    "max.attempts",
    count(_MAX_COUNT),
    _MAX_COUNT,
    str(_MAX_COUNT),
    "Largest number of successive failures after which the query is started again.",
)
RETRY_MIN_BACKOFF = _retry(
    "min.backoff", duration(), timedelta(seconds=1), "1s", "Delay after the first failure."
)
RETRY_MAX_BACKOFF = _retry(
    "max.backoff", duration(), timedelta(hours=1), "1h", "Longest delay before the random share."
)
RETRY_RANDOM_FACTOR = _retry(
    "random.factor",
    share(),
    0.0,
    "0",
    "Largest share of the delay that is added at random, so that queries do not start together.",
)
RETRY_HEALTHY_PERIOD: Option[timedelta | None] = _retry(
    "healthy.period",
    duration(),
    None,
    "the larger of 1m and the last delay",
    "How long a run must last, and commit a batch, to end a series of failures.",
)
RETRY_POISON_ATTEMPTS = _retry(
    "poison.attempts",
    count(_MAX_COUNT),
    3,
    "3",
    "Number of successive failures in one batch after which the error names the batch.",
)

OPTIONS: tuple[Option[object], ...] = (
    CTAS_ATOMICITY,
    WRITES_ATOMICITY,
    CTAS_TRIGGER,
    RETRY_ENABLED,
    RETRY_MAX_ATTEMPTS,
    RETRY_MIN_BACKOFF,
    RETRY_MAX_BACKOFF,
    RETRY_RANDOM_FACTOR,
    RETRY_HEALTHY_PERIOD,
    RETRY_POISON_ATTEMPTS,
)
"""All options."""
CONF_OPTIONS: Mapping[str, Option[object]] = {
    key: option for option in OPTIONS for key in option.conf_keys
}
"""Options by each of their keys in `conf` and SET."""
QUERY_OPTIONS: Mapping[str, Option[object]] = {
    key: option for option in OPTIONS for key in option.query_keys
}
"""Options by each of their keys in the OPTIONS of streams."""


def is_own_key(key: str) -> bool:
    """Return whether a key of a configuration is one that only Headrace reads."""
    return key.lower().startswith(OWN_PREFIXES)


def check_conf_option(key: str, text: str) -> None:
    """Check a key of a configuration that only Headrace reads, with its value.

    Raises InvalidSetting for an unknown key, and for a value that is not allowed.
    """
    option = CONF_OPTIONS.get(key)
    if option is None:
        raise InvalidSetting(describe_unknown(key, CONF_OPTIONS))
    option.parse(text, key)


def describe_unknown(key: str, options: Mapping[str, Option[object]]) -> str:
    """Return the message for a key that is no option."""
    lowered = key.lower()
    near = [lowered] if lowered in options else difflib.get_close_matches(lowered, options, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return f"{key} is not an option of Headrace.{meant} Options: {list_keys(options)}."


def list_keys(options: Mapping[str, Option[object]]) -> str:
    """Return the keys of options for a message, without the spellings of the seed."""
    return ", ".join(sorted(key for key in options if "pstl." not in key))
