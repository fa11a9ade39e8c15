"""A lane: nodes on one store that play scenarios one after the other, with a warm session."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import NullPool, create_engine, make_url, select
from tests.faults.cluster import Catalog, ChaosNode, find_drivers
from tests.faults.invariants import Rows
from tests.faults.plan import Plan
from tests.faults.points import Point
from tests.support.postgres import PostgresServer, running_server
from tests.support.processes import end

from headrace.store.tables import events, results, sessions, statements, transactions


class ChaosLane:
    """One node on SQLite, or two nodes that race on a PostgreSQL server of their own."""

    def __init__(
        self, folder: Path, catalog: Catalog, points: list[Point], *, number: int, postgres: bool
    ) -> None:
        self.folder = folder
        self.number = number
        self.base: str | None = None
        """The session that serves one scenario after the other while it lives."""
        self.plan = Plan(folder, points)
        self._stack = ExitStack()
        self._server: PostgresServer | None = None
        store = None
        if postgres:
            self._server = self._stack.enter_context(running_server())
            store = self._server.url(self._server.new_database())
        self.nodes = [
            ChaosNode(
                folder / f"node{index}",
                self.plan,
                catalog,
                embedded=not postgres,
                store=store,
                results=str(folder / "results"),
            )
            for index in range(2 if postgres else 1)
        ]

    @property
    def postgres(self) -> bool:
        return self._server is not None

    def restart_store(self) -> None:
        """Stop and start PostgreSQL. On SQLite, do nothing."""
        if self._server is not None:
            self._server.stop()
            self._server.start()

    def ensure_nodes(self) -> None:
        """Start every node that has ended."""
        for node in self.nodes:
            node.ensure()

    def read_rows(self) -> Rows:
        """Return all rows of the store, from one snapshot."""
        url = make_url(self.nodes[0].store_url)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        level = "REPEATABLE READ" if self.postgres else "AUTOCOMMIT"
        engine = create_engine(url, poolclass=NullPool, isolation_level=level)
        with engine.connect() as connection:
            if not self.postgres:
                connection.exec_driver_sql("BEGIN")
            tables = {
                name: list(connection.execute(query).mappings())
                for name, query in {
                    "events": select(events).order_by(events.c.id),
                    "statements": select(statements),
                    "sessions": select(sessions),
                    "results": select(results.c.statement_id),
                    "transactions": select(transactions),
                }.items()
            }
        engine.dispose()
        return Rows(**tables)

    def close(self) -> None:
        """End all nodes, drivers and the PostgreSQL server."""
        self.plan.write([])
        for node in self.nodes:
            node.close()
        end({driver.process for driver in find_drivers(self.folder)})
        self._stack.close()
