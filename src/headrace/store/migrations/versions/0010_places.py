"""Checkpoints and state locations are compared by the identities of their places."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
oldest_code = "0004"

_LIVE = sa.text("ended_at IS NULL")
_CLIENTS_OF_S3 = ("s3", "s3n")


def upgrade() -> None:
    """Give the locations of earlier versions the form of identities; add that of a job.

    Links are not resolved: a location that contains one has its identity from the next start on.
    """
    op.add_column("jobs", sa.Column("state_place", sa.Text))
    op.execute("UPDATE jobs SET state_place = state_location")
    for table, column in (("stream_queries", "checkpoint"), ("jobs", "state_place")):
        op.execute(
            f"UPDATE {table} SET {column} = 'file:' || {column} WHERE {column} LIKE '/%'"  # noqa: S608
        )
        for scheme in _CLIENTS_OF_S3:
            _rename_scheme(table, column, scheme)
    op.drop_index("jobs_live_place", table_name="jobs")
    op.create_index(
        "jobs_live_state_place",
        "jobs",
        ["state_place", "name_key"],
        unique=True,
        sqlite_where=_LIVE,
        postgresql_where=_LIVE,
    )


def _rename_scheme(table: str, column: str, scheme: str) -> None:
    """Change a scheme to s3a, unless another row has that location already."""
    renamed = f"'s3a' || substr({column}, {len(scheme) + 1})"
    others = f"SELECT 1 FROM {table} AS other WHERE other.{column} = "  # noqa: S608
    op.execute(
        f"UPDATE {table} SET {column} = {renamed} WHERE {column} LIKE '{scheme}://%'"  # noqa: S608
        f" AND NOT EXISTS ({others}'s3a' || substr({table}.{column}, {len(scheme) + 1}))"
    )
