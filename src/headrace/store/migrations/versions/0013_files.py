"""Files that start runs of jobs: watches of locations, and the files that runs have used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
oldest_code = "0003"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_INSTANT = sa.DateTime(timezone=True).with_variant(sa.BigInteger(), "sqlite")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "file_watches",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("is_paused", sa.Boolean, nullable=False),
        sa.Column("node_id", _ID),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("problem", sa.Text),
        sa.PrimaryKeyConstraint("job_id", name="file_watches_key"),
        _refer("file_watches", "job_id", "jobs.id"),
    )
    op.create_table(
        "used_files",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("path_key", _ID, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.Text, nullable=False),
        sa.Column("file_id", sa.Text),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("used_at", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "path_key", name="used_files_key"),
        _refer("used_files", "job_id", "jobs.id"),
    )
    op.create_table(
        "run_files",
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("files", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="run_files_key"),
        _refer("run_files", "run_id", "runs.id"),
    )


def _refer(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    name = f"{table}_{column}_exists"
    return sa.ForeignKeyConstraint([column], [target], name=name, ondelete="CASCADE")
