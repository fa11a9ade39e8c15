"""The expiry of plans that were not applied in time."""

from __future__ import annotations

from headrace.control.context import NodeContext
from headrace.store.jobs import job_changes


class PlanExpiry:
    """Ends old plans. Several nodes may do so at the same time."""

    def __init__(self, context: NodeContext) -> None:
        self._database = context.database
        self._actor = context.node_id
        self._seconds = context.settings.jobs.plan_retention.total_seconds()

    def run(self) -> None:
        """Expire the plans whose time is over."""
        with self._database.read() as tx:
            if not job_changes.has_old_plan(tx, self._seconds):
                return
        with self._database.write("jobs.expire_plans") as tx:
            job_changes.expire_plans(tx, self._seconds, actor=self._actor)
