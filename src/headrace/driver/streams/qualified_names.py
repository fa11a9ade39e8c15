"""Streams with qualified names, such as `kafka`.`orders`, in the queries of jobs.

Spark's temporary views have names of one part. A stream with a qualified name is therefore a view
with a name of Headrace's own, which replaces the qualified name wherever a query reads it. Spark's
parser says where that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.driver.spark_version.plans import find_relations
from headrace.errors import Position
from headrace.grammar.quoting import quote_name
from headrace.grammar.text import offset_at, position_at

_PREFIX = "headrace_stream"


@dataclass(frozen=True, slots=True)
class ReplacedNames:
    """A query whose qualified names are replaced."""

    text: str
    written: str
    edits: tuple[tuple[int, int, int], ...] = ()
    """Of each replacement: start and end in `text`, and the end in the text as written."""

    def locate(self, line: int, column: int) -> Position:
        """Return the position in the text as written of a position in `text`."""
        offset = written = offset_at(self.text, Position(line, column))
        for start, end, written_end in self.edits:
            if offset < start:
                break
            written = written_end + max(0, offset - end)
        return position_at(self.written, written)


def view_of(name: str, qualifier: Sequence[str]) -> str:
    """Return the name of the view of a stream."""
    return name if not qualifier else "__".join([_PREFIX, *qualifier, name])


def replace_qualified_names(
    session: SparkSession, text: str, views: Mapping[tuple[str, ...], str]
) -> ReplacedNames:
    """Return a query that reads views instead of streams with qualified names.

    A text that Spark's parser refuses is returned as it is.

    Args:
        views: Names of the views, by the parts of the qualified name in lower case.
    """
    if not views:
        return ReplacedNames(text, text)
    parts, edits, last, size = list[str](), list[tuple[int, int, int]](), 0, 0
    for start, stop, name in find_relations(session, text):
        view = views.get(tuple(part.casefold() for part in name))
        if view is None:
            continue
        parts += [text[last:start], quote_name(view)]
        size += start - last
        edits.append((size, size + len(parts[-1]), stop + 1))
        size += len(parts[-1])
        last = stop + 1
    return ReplacedNames("".join([*parts, text[last:]]), text, tuple(edits))
