"""Checks of a submitted statement that need no store."""

from __future__ import annotations

from collections import Counter

from headrace.errors import InvalidRequest, ResultLocationDenied
from headrace.files.places import check_has_no_password, is_below
from headrace.model.statement import MAX_PARAMETERS, Parameter


def check_result_location(location: str | None, allowed: list[str]) -> None:
    """Raise ResultLocationDenied unless the location is one of the allowed ones, or below one.

    Nodes read and delete the files at a result's location, with their own rights. Links are
    resolved: a link below an allowed location must not lead to another place.

    Raises InvalidLocation if the location contains a password.
    """
    if location is None:
        return
    check_has_no_password(location)
    has_dots = not {".", ".."}.isdisjoint(location.split("/"))
    if has_dots or not any(is_below(location, parent) for parent in allowed):
        raise ResultLocationDenied(
            f"result_location {location!r} is not below a location that the setting"
            f" results.allowed lists ({', '.join(allowed) or 'none'})."
        )


def check_parameters(parameters: list[Parameter]) -> None:
    """Raise InvalidRequest unless the parameters can be bound, in time linear in their number."""
    if len(parameters) > MAX_PARAMETERS:
        raise InvalidRequest(
            f"The statement has {len(parameters)} parameters. At most {MAX_PARAMETERS} are allowed."
        )
    names = [parameter.name for parameter in parameters]
    if any(name is None for name in names) and any(name is not None for name in names):
        raise InvalidRequest("Parameters must be all named or all positional.")
    counts = Counter(name for name in names if name is not None)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise InvalidRequest(f"Parameters are given twice: {', '.join(repeated)}.")
