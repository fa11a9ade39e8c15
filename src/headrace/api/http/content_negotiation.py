"""Content negotiation by the Accept header (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def preferred_media_type(accept: str, offered: Sequence[str]) -> str | None:
    """Return the offered media type with the highest quality; None if none is accepted.

    Among equals, the order of the header decides, then the order of the offer. An empty header
    accepts anything.
    """
    ranges = [_parse_range(part) for part in accept.split(",") if part.strip()]
    if not ranges:
        return offered[0]
    ranked = [
        (-quality, range_index, index)
        for index, media_type in enumerate(offered)
        for quality, range_index in [_match(media_type, ranges)]
        if quality > 0
    ]
    return offered[min(ranked)[2]] if ranked else None


def _parse_range(part: str) -> tuple[str, float]:
    """Return a media range and its quality; other parameters are ignored."""
    name, *parameters = (item.strip().lower() for item in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            return name, _parse_quality(value.strip())
    return name, 1.0


def _parse_quality(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def _match(media_type: str, ranges: Iterable[tuple[str, float]]) -> tuple[float, int]:
    """Return the quality and the index of the most specific range that matches a media type."""
    group = media_type.partition("/")[0]
    best = (-1, 0.0, 0)
    for index, (name, quality) in enumerate(ranges):
        specificity = {media_type: 2, f"{group}/*": 1, "*/*": 0}.get(name, -1)
        if specificity > best[0]:
            best = (specificity, quality, index)
    return best[1], best[2]
