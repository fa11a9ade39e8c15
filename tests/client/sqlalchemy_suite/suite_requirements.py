"""What Spark does not have, so that SQLAlchemy's suite leaves it out, with the reasons."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.provision import delete_from_all_tables
from sqlalchemy.testing.requirements import SuiteRequirements

OPEN = exclusions.open
CLOSED = exclusions.closed


@delete_from_all_tables.for_db("headrace")
def _truncate_all_tables(connection: Any, _cfg: Any, metadata: Any) -> None:
    """Empty all tables after a test. Spark's tables of files have no DELETE."""
    for table in reversed(metadata.sorted_tables):
        name = connection.dialect.identifier_preparer.format_table(table)
        connection.exec_driver_sql(f"TRUNCATE TABLE {name}")


class Requirements(SuiteRequirements):
    """Requirements of the suite, in the order of their reasons."""


# Spark has no keys, constraints, indexes, sequences and generated numbers.
_NO_KEYS = (
    "autoincrement_insert",
    "autoincrement_without_sequence",
    "check_constraint_reflection",
    "enforces_check_constraints",
    "enforces_unique_constraints",
    "fk_constraint_option_reflection_ondelete_restrict",
    "foreign_key_constraint_name_reflection",
    "foreign_key_constraint_reflection",
    "foreign_keys",
    "identity_columns",
    "implicitly_named_constraints",
    "index_reflection",
    "indexes_with_ascdesc",
    "index_ddl_if_exists",
    "inline_check_constraint_reflection",
    "named_constraints",
    "primary_key_constraint_reflection",
    "reflect_indexes_with_ascdesc",
    "self_referential_foreign_keys",
    "sequences",
    "sequences_as_server_defaults",
    "unique_constraint_reflection",
    "unique_constraints_reflect_as_index",
)
# Each statement is a transaction of its own: nothing is rolled back, and nothing is locked.
_NO_TRANSACTIONS = ("savepoints", "two_phase_transactions", "update_nowait")
# An INSERT returns no rows.
_NO_RETURNING = (
    "delete_returning",
    "empty_inserts",
    "fetch_rows_post_commit",
    "insert_returning",
    "returning",
    "sane_multi_rowcount",
    "sane_rowcount",
    "sane_rowcount_w_returning",
    "update_returning",
)
# Spark updates and deletes rows of Delta and Iceberg tables only, and the suite has none.
_NO_UPDATES = ("delete_from", "update_from", "update_where_target_in_subquery")
# Temporary views are reflected. There are no temporary tables.
_NO_TEMPORARY_TABLES = ("temp_table_names", "temp_table_reflection", "temporary_tables")
# Types: TIME is off in Spark 4.1, and texts have no length.
_NO_TYPES = (
    "time",
    "time_microseconds",
    "varchar_reflection",
    "precision_numerics_enotation_large",
)

for _name in (
    *_NO_KEYS,
    *_NO_TRANSACTIONS,
    *_NO_RETURNING,
    *_NO_UPDATES,
    *_NO_TEMPORARY_TABLES,
    *_NO_TYPES,
):
    setattr(Requirements, _name, property(lambda _self: CLOSED()))

for _name in (
    *("schemas", "schema_reflection", "views", "view_reflection", "view_column_reflection"),
    *("comment_reflection", "bound_limit_offset", "ctes", "ctes_with_values"),
    *("window_functions", "regexp_match", "datetime_timezone", "tuple_in", "intersect", "except_"),
    *("date_coerces_from_datetime", "supports_is_distinct_from", "order_by_col_from_union"),
    *(
        "parens_in_union_contained_select_w_limit_offset",
        "precision_numerics_many_significant_digits",
    ),
):
    setattr(Requirements, _name, property(lambda _self: OPEN()))
