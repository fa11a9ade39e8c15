"""How much a `CREATE TABLE … AS SELECT` has to be atomic: a setting of session or statement."""

from __future__ import annotations

from enum import StrEnum

from headrace.errors import InvalidSetting

KEY = "headrace.ctas.atomicity"


class Atomicity(StrEnum):
    AUTO = "auto"  # where that can be
    REQUIRE = "require"  # or not at all
    OFF = "off"  # as plain Spark

    @classmethod
    def of(cls, value: str) -> Atomicity:
        """Raises InvalidSetting for what is none."""
        try:
            return cls(value.lower())
        except ValueError as error:
            raise InvalidSetting(f"{KEY} is {value!r}: it may be {', '.join(cls)}.") from error
