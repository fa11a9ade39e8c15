"""The service for lineage: the tables before and after a table, and the statements between them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from headrace.control.context import NodeContext
from headrace.control.policy import Action, Caller, visible_owners
from headrace.errors import LineageNotFound
from headrace.model.lineage import LineageDirection
from headrace.store import lineage
from headrace.store.database import Tx
from headrace.store.lineage import Neighbour

MAX_DEPTH = 10
STATEMENTS_PER_TABLE = 500
"""Number of the newest statements of a table that a graph considers, and of streaming queries."""
_NEIGHBOURS_PER_TABLE = 5_000
_MAX_TABLES = 300
_MAX_EDGES = 2_000
_NEAREST = 3
_SHOWN = 200


class LineageSide(StrEnum):
    """Which tables of a graph are of interest."""

    UPSTREAM = "upstream"
    DOWNSTREAM = "downstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEdge:
    """What has read one table and written another one, of one job or of none."""

    source: str
    target: str
    side: LineageSide
    depth: int
    """Number of edges between the table of the graph and this edge, from 1."""
    job: str | None
    statements: int
    """Number of the statements and streaming queries that are considered."""
    last_statement: str
    """Id of the newest of them."""
    last_run: str | None
    last_at: datetime


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """The tables around a table, by edges."""

    table: str
    edges: list[LineageEdge]
    truncated: bool
    """Whether the graph has more edges."""


class LineageGraphs:
    """Graphs for all callers, served by one node."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database

    def show(
        self,
        caller: Caller,
        table: str,
        *,
        sides: Collection[LineageSide],
        depth: int,
        all_owners: bool = False,
    ) -> LineageGraph:
        """Return the graph around a table, from statements and streams that the caller may read.

        Args:
            table: Name of the table, or location of files. The session catalog and its database
                `default` can be omitted.
            depth: Largest number of edges between the table and another one.
            all_owners: Whether statements of others count, as far as the caller may read them.

        Raises:
            LineageNotFound: No statement and no stream has read or written the table.
        """
        owners = visible_owners(caller, Action.READ_CONTENT) if all_owners else caller.owners
        with self._database.read() as tx:
            key = _find_key(tx, table, owners)
            walks = [_Walk(tx, owners, side) for side in sides]
            edges = [edge for walk in walks for edge in walk.run(key, depth)]
        return LineageGraph(key, edges, truncated=any(walk.is_cut for walk in walks))


def _find_key(tx: Tx, table: str, owners: Collection[str] | None) -> str:
    """Return the key of a table. Raise LineageNotFound with the nearest names."""
    name = table.strip().casefold()
    for key in (table, name, f"spark_catalog.{name}", f"spark_catalog.default.{name}"):
        if lineage.has_table(tx, key, owners=owners):
            return key
    recent = sorted(lineage.list_recent_tables(tx, owners=owners))
    by_end = {key.rpartition(".")[2]: key for key in recent} | {key: key for key in recent}
    near = difflib.get_close_matches(name, by_end, n=_NEAREST)
    names = ", ".join(dict.fromkeys(by_end[each][:_SHOWN] for each in near))
    raise LineageNotFound(
        f"No statement or stream that you may read has read or written {table[:_SHOWN]!r}.",
        hint=f"Did you mean: {names}?" if names else None,
    )


class _Walk:
    """A walk from one table, in one direction, that visits each table once."""

    def __init__(self, tx: Tx, owners: Collection[str] | None, side: LineageSide) -> None:
        self._tx, self._owners, self._side = tx, owners, side
        self._seen: set[str] = set()
        self._edges = 0
        self.is_cut = False

    def run(self, start: str, depth: int) -> Iterator[LineageEdge]:
        """Yield the edges, those near the start first."""
        self._seen, tables = {start}, [start]
        for distance in range(1, depth + 1):
            following: dict[str, None] = {}
            for table in tables:
                for edge in self._list_edges(table, distance):
                    if self._edges == _MAX_EDGES:
                        self.is_cut = True
                        return
                    self._edges += 1
                    yield edge
                    is_upstream = self._side is LineageSide.UPSTREAM
                    following[edge.source if is_upstream else edge.target] = None
            tables = [table for table in following if self._visit(table)]

    def _visit(self, table: str) -> bool:
        if table in self._seen:
            return False
        if len(self._seen) == _MAX_TABLES:
            self.is_cut = True
            return False
        self._seen.add(table)
        return True

    def _list_edges(self, table: str, distance: int) -> list[LineageEdge]:
        is_upstream = self._side is LineageSide.UPSTREAM
        direction = LineageDirection.WRITE if is_upstream else LineageDirection.READ
        neighbours = list[Neighbour]()
        for list_neighbours in (lineage.list_neighbours, lineage.list_stream_neighbours):
            found = list_neighbours(
                self._tx,
                table,
                direction,
                owners=self._owners,
                newest=STATEMENTS_PER_TABLE,
                limit=_NEIGHBOURS_PER_TABLE,
            )
            self.is_cut = self.is_cut or len(found) == _NEIGHBOURS_PER_TABLE
            neighbours += found
        groups: dict[tuple[str, str], list[Neighbour]] = {}
        for neighbour in neighbours:
            groups.setdefault((neighbour.table_key, neighbour.job or ""), []).append(neighbour)
        edges = []
        for (other, job), group in sorted(groups.items()):
            last = max(group, key=lambda neighbour: (neighbour.at, neighbour.statement_id))
            source, target = (other, table) if is_upstream else (table, other)
            edges.append(
                LineageEdge(
                    source=source,
                    target=target,
                    side=self._side,
                    depth=distance,
                    job=job or None,
                    statements=len(group),
                    last_statement=last.statement_id,
                    last_run=last.run_id,
                    last_at=last.at,
                )
            )
        return edges
