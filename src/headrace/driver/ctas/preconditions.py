"""Checks of a CTAS target that are the same for every catalog, and their errors."""

from __future__ import annotations

from collections.abc import Callable

from headrace.driver.ctas.base import TableDefinition
from headrace.driver.spark_version.catalogs import RelationKind, TablePath
from headrace.errors import (
    CatalogError,
    DatabaseNotFound,
    InvalidTableName,
    LocationNotEmpty,
    TableAlreadyExists,
    TableNotFound,
)


def check_target(
    path: TablePath,
    existing: RelationKind | None,
    has_namespace: Callable[[tuple[str, ...]], bool],
    table: TableDefinition,
    *,
    ignore_if_exists: bool,
    missing_database: type[DatabaseNotFound] = DatabaseNotFound,
) -> bool:
    """Check that the target can be created or replaced.

    Each error has the condition and the SQLSTATE with which Spark itself refuses the statement.

    Args:
        existing: Kind of the relation that has the name at present. None if the name is free.
        missing_database: Class of the error if the database does not exist.

    Returns:
        Whether nothing needs to be done, because the table exists and IF NOT EXISTS was given.

    Raises DatabaseNotFound, TableAlreadyExists and TableNotFound.
    """
    if existing is None:
        if not has_namespace(path.namespace):
            raise missing_database(f"Database {'.'.join(path.namespace)!r} does not exist.")
        if table.must_exist:
            raise TableNotFound(
                f"Table {path.sql_name} does not exist and cannot be replaced. Use CREATE OR"
                " REPLACE TABLE to create it."
            )
        return False
    if table.replaces and existing == "table":
        return False
    if ignore_if_exists:
        return True
    raise TableAlreadyExists(f"{path.sql_name} already exists: it is a {existing}.")


def invalid_name_error(path: TablePath) -> InvalidTableName:
    """Return the error for a name that Spark refuses, but only when the rows are written."""
    return InvalidTableName(
        f"{path.table!r} is not a valid name for a table of {path.catalog}. A name consists of"
        " letters without accents, digits and underscores."
    )


def location_not_empty_error(
    path: TablePath, location: str, *, is_external: bool
) -> LocationNotEmpty:
    """Return the error for a location that contains files of another table or user.

    Args:
        is_external: Whether the statement names the location.
    """
    error = LocationNotEmpty(
        f"The location of table {path.sql_name} is not empty: {location}. Its files were not"
        " changed. Choose an empty location or remove the files."
    )
    if is_external:
        # DataWritingCommand.assertEmptyRootPath
        error.condition, error.sqlstate = "_LEGACY_ERROR_TEMP_1241", None
    return error


def table_exists_error(path: TablePath, existing: RelationKind) -> TableAlreadyExists:
    """Return the error for a table or view that appeared while the statement ran."""
    return TableAlreadyExists(
        f"{path.sql_name} already exists: another writer created a {existing} of that name while"
        " the statement ran."
    )


def staged_table_missing_error(path: TablePath, staged: TablePath) -> CatalogError:
    """Return the error for a staged table that disappeared before it was published."""
    return CatalogError(
        f"The rows of table {path.sql_name} are lost: the staged table {staged.sql_name} was"
        " dropped before it could be published. Run the statement again."
    )
