"""Options of statements that write tables, in the configuration of a session or statement."""

from __future__ import annotations

from enum import StrEnum

from headrace.errors import InvalidSetting

ATOMICITY_KEY = "headrace.ctas.atomicity"
WRITES_ATOMICITY_KEY = "headrace.writes.atomicity"
TRIGGER_KEY = "headrace.ctas.trigger"


class Atomicity(StrEnum):
    """Whether a statement that writes rows must be atomic."""

    AUTO = "auto"  # atomic where the catalog allows it
    REQUIRE = "require"  # refuse the statement where it cannot be atomic
    OFF = "off"  # as plain Spark does it

    @classmethod
    def parse(cls, value: str, key: str = ATOMICITY_KEY) -> Atomicity:
        """Return the member with this value, in any case. Raise InvalidSetting for any other."""
        try:
            return cls(value.lower())
        except ValueError as error:
            raise _invalid(key, value, cls) from error


class Trigger(StrEnum):
    """When a CTAS over a stream ends."""

    AVAILABLE_NOW = "available now"  # after the rows that are available at the start
    ONCE = "once"  # the same, in one batch

    @classmethod
    def parse(cls, value: str) -> Trigger:
        """Return the member with this value, in any case. Raise InvalidSetting for any other."""
        try:
            return cls(" ".join(value.lower().split()))
        except ValueError as error:
            raise _invalid(TRIGGER_KEY, value, cls) from error


def _invalid(key: str, value: str, allowed: type[StrEnum]) -> InvalidSetting:
    return InvalidSetting(f"{key} is {value!r}. Allowed values: {', '.join(allowed)}.")
