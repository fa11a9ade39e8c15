"""Places in the file of a manifest of positions in its query."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from headrace.deploy.yaml_values import YamlScalar, YamlValue
from headrace.errors import Position
from headrace.grammar.text import offset_at
from headrace.model.deployment import QueryPlace
from headrace.variables import replace_variables


def list_query_places(
    value: YamlValue | None, path: str, variables: Mapping[str, str]
) -> list[QueryPlace]:
    """Return where the parts of a text stand in a file, in order.

    Return no part of a text that another file contains, or that is no scalar of YAML.
    """
    if not isinstance(value, YamlScalar) or value.source is None or value.place.path != path:
        return []
    replaced = replace_variables(value.written, variables)
    return [
        QueryPlace(offset=replaced.offset_of(begin), line=line + 1, column=column + 1)
        for begin, _length, line, column in value.source.find_parts(value.written)
    ]


def find_query_place(
    places: Sequence[QueryPlace], text: str, position: Position
) -> Position | None:
    """Return the place in the file of a position in the text; None if the places do not say."""
    offset = offset_at(text, position)
    index = bisect_right(places, offset, key=lambda place: place.offset) - 1
    if index < 0:
        return None
    found = places[index]
    return Position(found.line, found.column + offset - found.offset)
