"""Checks of the locations in the options of streams and sinks."""

from __future__ import annotations

from headrace.errors import InvalidLocation
from headrace.files.places import check_has_no_password
from headrace.grammar.clauses import Options
from headrace.grammar.text import find_position
from headrace.model.stream_providers import CHECKPOINT_OPTION

_LOCATIONS = {"path", CHECKPOINT_OPTION.lower()}


def check_locations(text: str, options: Options) -> None:
    """Raise InvalidLocation, with the position of the option, if a location has a password."""
    for key, value in options:
        if key.lower() not in _LOCATIONS:
            continue
        try:
            check_has_no_password(value)
        except InvalidLocation as error:
            raise InvalidLocation(
                error.message, position=find_position(text, key), hint=error.hint
            ) from None
