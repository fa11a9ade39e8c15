"""What must hold of a target before anything is begun; the same for every catalog."""

from __future__ import annotations

from collections.abc import Callable

from headrace.driver.ctas.base import TableDefinition, TablePath
from headrace.errors import DatabaseNotFound, LocationNotEmpty, TableAlreadyExists, TableNotFound


def check_target(
    path: TablePath,
    there: str | None,
    has_namespace: Callable[[tuple[str, ...]], bool],
    table: TableDefinition,
    *,
    ignore_if_exists: bool,
) -> bool:
    """Returns whether there is nothing to do, because the table is there and that is no error.

    `there` says what has the name: a table, a view, or nothing. Raises DatabaseNotFound,
    TableAlreadyExists and TableNotFound.
    """
    if there is None:
        if not has_namespace(path.namespace):
            raise DatabaseNotFound(f"There is no database {'.'.join(path.namespace)!r}.")
        if table.must_exist:
            raise TableNotFound(f"There is no table {path.quoted()} to replace.")
        return False
    if table.replaces and there == "table":
        return False
    if ignore_if_exists:
        return True
    raise TableAlreadyExists(f"{path.quoted()} exists already: it is a {there}.")


def location_not_empty(path: TablePath, place: str) -> LocationNotEmpty:
    """Files of others are where the table's are to be."""
    return LocationNotEmpty(
        f"The location of {path.quoted()} holds files of others, and they stay: {place}"
    )


def already_exists(path: TablePath, there: str) -> TableAlreadyExists:
    """Somebody else was faster: a table or a view has the name."""
    return TableAlreadyExists(
        f"{path.quoted()} exists already: somebody has made a {there} of that name meanwhile."
    )
