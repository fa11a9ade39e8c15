"""Content negotiation: which of the media types on offer an Accept header likes best (RFC 9110)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def preferred_media_type(accept: str, offered: Sequence[str]) -> str | None:
    """The offered type of the highest quality, or None when none is accepted.

    Of equals, the one that the header names first, then the one that is offered first. An empty
    header accepts anything.
    """
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    if not ranges:
        return offered[0]
    ranked = [
        (-quality, place, number)
        for number, kind in enumerate(offered)
        for quality, place in [_judged(kind, ranges)]
        if quality > 0
    ]
    return offered[min(ranked)[2]] if ranked else None


def _range(part: str) -> tuple[str, float]:
    """A media range and its quality; parameters other than `q` do not matter here."""
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _quality(value.strip())
    return name, 1.0


def _quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def _judged(kind: str, ranges: Iterable[tuple[str, float]]) -> tuple[float, int]:
    """The quality that the most specific range gives a type, and where that range stands."""
    group = kind.partition("/")[0]
    best = (-1, 0.0, 0)
    for place, (name, quality) in enumerate(ranges):
        specific = {kind: 2, f"{group}/*": 1, "*/*": 0}.get(name, -1)
        if specific > best[0]:
            best = (specific, quality, place)
    return best[1], best[2]
