"""Where histories run one after the other: nodes on one store, and a session that stays warm."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import NullPool, create_engine, make_url, select
from tests.faults.cluster import Catalog, Node, drivers
from tests.faults.invariants import Rows
from tests.faults.plan import Plan
from tests.faults.points import Point
from tests.support.postgres import PostgresServer, running_server
from tests.support.processes import end

from headrace.store.tables import events, results, sessions, statements, transactions


class Lane:
    """One node on SQLite, or two that race on a PostgreSQL of their own."""

    def __init__(
        self, folder: Path, catalog: Catalog, points: list[Point], *, number: int, postgres: bool
    ) -> None:
        self.folder = folder
        self.number = number
        self.base: str | None = None
        """The session that stays from one history to the next, while it lives."""
        self.plan = Plan(folder, points)
        self._stack = ExitStack()
        self._server: PostgresServer | None = None
        store = None
        if postgres:
            self._server = self._stack.enter_context(running_server())
            store = self._server.url(self._server.new_database())
        self.nodes = [
            Node(
                folder / f"node{one}",
                self.plan,
                catalog,
                embedded=not postgres,
                store=store,
                results=str(folder / "results"),
            )
            for one in range(2 if postgres else 1)
        ]

    @property
    def postgres(self) -> bool:
        return self._server is not None

    def restart_store(self) -> None:
        """The database is away for a moment. A SQLite file cannot be."""
        if self._server is not None:
            self._server.stop()
            self._server.start()

    def whole(self) -> None:
        """Every node is up."""
        for node in self.nodes:
            node.ensure()

    def rows(self) -> Rows:
        """Everything in the store, at one moment: a session may just be failing."""
        url = make_url(self.nodes[0].store_url)
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        level = "REPEATABLE READ" if self.postgres else "AUTOCOMMIT"
        engine = create_engine(url, poolclass=NullPool, isolation_level=level)
        with engine.connect() as connection:
            if not self.postgres:
                connection.exec_driver_sql("BEGIN")
            found = [
                list(connection.execute(query).mappings())
                for query in (
                    select(events).order_by(events.c.id),
                    select(statements),
                    select(sessions),
                    select(results.c.statement_id),
                    select(transactions),
                )
            ]
        engine.dispose()
        names = ("events", "statements", "sessions", "results", "transactions")
        return Rows(**dict(zip(names, found, strict=True)))

    def close(self) -> None:
        """Ends everything."""
        self.plan.write([])
        for node in self.nodes:
            node.close()
        end({one for _, _, one in drivers(self.folder)})
        self._stack.close()
