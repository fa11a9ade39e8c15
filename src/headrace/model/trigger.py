"""What ends the stream that a CTAS reads: a setting of session or statement."""

from __future__ import annotations

from enum import StrEnum

from headrace.errors import InvalidSetting

KEY = "headrace.ctas.trigger"


class Trigger(StrEnum):
    AVAILABLE_NOW = "available now"  # all that is there when it starts
    ONCE = "once"  # the same, in one batch

    @classmethod
    def of(cls, value: str) -> Trigger:
        """Raises InvalidSetting for what is none."""
        try:
            return cls(" ".join(value.lower().split()))
        except ValueError as error:
            raise InvalidSetting(f"{KEY} is {value!r}: it may be {', '.join(cls)}.") from error
