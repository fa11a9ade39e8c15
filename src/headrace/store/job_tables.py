"""The tables of jobs: versions, deployments, savepoints, and the work of nodes. See tables.py."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, Integer, Table, Text

from headrace.model.deployment import ChangeRecord, DeploymentPlan, JobAction, VersionSpec
from headrace.model.failure import Failure
from headrace.model.job import JobDecision, SavepointContent
from headrace.model.job_messages import JobOutcome, JobTask
from headrace.model.lifecycle import (
    ChangeStep,
    DeploymentState,
    JobState,
    OperationState,
    SavepointState,
)
from headrace.store.clock import Instant
from headrace.store.columns import Document, enum_type, id_type
from headrace.store.tables import ENDED, LIVE, metadata

jobs = Table(
    "jobs",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("name_key", Text, nullable=False),
    Column("state", enum_type(JobState, check="known_state"), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("state_location", Text, nullable=False),
    # The identity of its place.
    Column("state_place", Text),
    Column("version_id", id_type()),
    Column("run", Text),
    Column("change_id", id_type()),
    Column("failure", Document(Failure)),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ended_at", Instant),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'deleted')", name="ended"),
    Index(
        "jobs_live_name", "owner", "name_key", unique=True, sqlite_where=LIVE, postgresql_where=LIVE
    ),
    # Two jobs of one name would write to the same directories.
    Index(
        "jobs_live_state_place",
        "state_place",
        "name_key",
        unique=True,
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    ),
    Index("jobs_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

job_versions = Table(
    "job_versions",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("job_id", id_type(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("query_id", Text, nullable=False),
    Column("query_created_at", Instant, nullable=False),
    Column("spec", Document(VersionSpec), nullable=False),
    Column("decision", enum_type(JobDecision, length=32), nullable=False),
    Column("reason", Text, nullable=False),
    Column("from_state", Text),
    Column("last_run", Text),
    Column("outcome", Text),
    Column("deployment_id", id_type(), nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("job_versions_by_job", "job_id", "revision", unique=True),
)

deployments = Table(
    "deployments",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("action", enum_type(JobAction), nullable=False),
    Column("state", enum_type(DeploymentState, check="known_state"), nullable=False),
    Column("plan", Document(DeploymentPlan), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("applied_at", Instant),
    Column("ended_at", Instant),
    CheckConstraint(
        "(ended_at IS NOT NULL) = (state IN ('rejected', 'applied', 'failed', 'expired'))",
        name="ended_with_state",
    ),
    Index("deployments_by_owner", "owner", "id"),
    Index("deployments_live", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("deployments_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

job_changes = Table(
    "job_changes",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("deployment_id", id_type(), nullable=False),
    Column("job_id", id_type(), nullable=False),
    Column("owner", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("step", enum_type(ChangeStep, check="known_step"), nullable=False),
    Column("record", Document(ChangeRecord), nullable=False),
    Column("failure", Document(Failure)),
    Column("created_at", Instant, nullable=False),
    Column("stepped_at", Instant, nullable=False),
    Column("ended_at", Instant),
    CheckConstraint("(ended_at IS NOT NULL) = (step IN ('applied', 'failed'))", name="ended"),
    Index("job_changes_by_deployment", "deployment_id", "id"),
    Index("job_changes_by_job", "job_id", "id"),
)

savepoints = Table(
    "savepoints",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("job_id", id_type(), nullable=False),
    Column("version", Integer, nullable=False),
    Column("run", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("state", enum_type(SavepointState, check="known_state"), nullable=False),
    Column("content", Document(SavepointContent)),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'pruned')", name="ended"),
    Index("savepoints_by_job", "job_id", "id"),
)

# Long work of a node. A node claims an operation; another one adopts it when the lease has expired.
operations = Table(
    "operations",
    metadata,
    Column("id", id_type(), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("ref", id_type(), nullable=False),
    Column("state", enum_type(OperationState, check="known_state"), nullable=False),
    Column("node_id", id_type()),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("lease_until", Instant),
    Column("created_at", Instant, nullable=False),
    Column("ended_at", Instant),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'done')", name="ended"),
    Index("operations_live", "id", sqlite_where=LIVE, postgresql_where=LIVE),
    Index("operations_ended", "ended_at", sqlite_where=ENDED, postgresql_where=ENDED),
)

# The tasks of drivers, each with the statement that carries it.
job_tasks = Table(
    "job_tasks",
    metadata,
    Column("statement_id", id_type(), primary_key=True),
    Column("task", Document(JobTask), nullable=False),
    Column("outcome", Document(JobOutcome)),
)
