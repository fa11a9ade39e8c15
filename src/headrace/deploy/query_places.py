"""Places in the file of a manifest of positions in its query."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from headrace.deploy.variables import ReplacedText, replace_variables
from headrace.deploy.yaml_values import YamlScalar, YamlValue
from headrace.errors import Position
from headrace.grammar.text import offset_at, position_at
from headrace.model.deployment import QueryPlace


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


def list_statement_places(
    text: str, replaced: ReplacedText, start: int, end: int
) -> list[QueryPlace]:
    """Return where the parts of a statement stand in a file.

    Args:
        text: The file as written.
        replaced: The file with the values of variables.
        start: Offset of the statement in `replaced`.
        end: Offset of its end.
    """
    lines = [at + 1 for at in range(start, end) if replaced.text[at] == "\n"]
    breaks = {start, *lines, *(at for at in replaced.value_ends if start < at < end)}
    places = []
    for at in sorted(breaks):
        position = position_at(text, replaced.written_offset(at))
        places.append(QueryPlace(offset=at - start, line=position.line, column=position.column))
    return places


def list_part_places(places: Sequence[QueryPlace], start: int, end: int) -> list[QueryPlace]:
    """Return where the part of a text from `start` to `end` stands, with offsets from its start."""
    parts = []
    before = [place for place in places if place.offset <= start]
    if before:
        column = before[-1].column + start - before[-1].offset
        parts.append(QueryPlace(offset=0, line=before[-1].line, column=column))
    inside = (place for place in places if start < place.offset < end)
    parts += [place.model_copy(update={"offset": place.offset - start}) for place in inside]
    return parts


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
