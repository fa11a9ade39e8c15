"""Functions that lock a row: PostgreSQL keeps other writers away until the transaction ends."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event

import headrace.store
from headrace.model.session import DriverLease
from headrace.store.database import Database
from headrace.store.statements.limits import Counted

pytestmark = pytest.mark.postgres

ARGUMENTS: dict[str, Any] = {
    "session_ids": ["no_such_id"],
    "job_ids": ["no_such_id"],
    "epoch": 1,
    "limit": 1,
    "counted": Counted.WAITING,
    "lease": DriverLease("no_such_id", 1),
}
"""Values of parameters that are not the id of a row."""


@contextmanager
def recorded(connection: Connection) -> Iterator[list[str]]:
    """Yield the SQL statements of a connection meanwhile."""
    statements: list[str] = []

    def record(*values: Any) -> None:
        statements.append(values[2])

    event.listen(connection, "before_cursor_execute", record)
    yield statements
    event.remove(connection, "before_cursor_execute", record)


def list_locks() -> list[Callable[..., Any]]:
    """Return the functions of the store whose name says that they lock something."""
    modules = pkgutil.walk_packages(headrace.store.__path__, "headrace.store.")
    found = [
        function
        for module in modules
        if "migrations" not in module.name
        for name, function in inspect.getmembers(
            importlib.import_module(module.name), inspect.isfunction
        )
        if (name == "lock" or name.startswith("lock_")) and function.__module__ == module.name
    ]
    assert len(found) > 10
    return found


def test_each_lock_is_one_of_the_database(postgres_url: str) -> None:
    database = Database.open(postgres_url)
    without = []
    for lock in list_locks():
        parameters = list(inspect.signature(lock).parameters)[1:]
        with database.write("test") as tx, recorded(tx.connection) as statements:
            lock(tx, **{name: ARGUMENTS.get(name, "no_such_id") for name in parameters})
        locks = ("FOR UPDATE", "FOR NO KEY UPDATE", "LOCK TABLE")
        if not any(each in statement for each in locks for statement in statements):
            without.append(f"{lock.__module__}.{lock.__name__}")
    database.close()
    assert without == []
