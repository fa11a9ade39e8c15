"""Why runs have not ended or not succeeded, derived from the store when a user asks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headrace.control.jobs.clock_conditions import describe_unmet
from headrace.control.policy import Caller
from headrace.control.statements.service import Statements
from headrace.model.lifecycle import RunState
from headrace.model.reasons import Reason, explain_run, explain_statement
from headrace.model.run import JobRun
from headrace.model.statement import Statement
from headrace.store.database import Database
from headrace.store.jobs import jobs, runs
from headrace.store.statements import statements


class RunReasons:
    """Finds out why runs are in their states, with few queries for any number of runs."""

    def __init__(self, database: Database, service: Statements) -> None:
        self._database = database
        self._service = service

    def find_all(
        self, caller: Caller, listed: Sequence[JobRun], now: datetime
    ) -> dict[str, Reason | None]:
        """Return the reason of each run. None: it has succeeded.

        Args:
            listed: Runs that the caller may read.
            now: Time of the store.
        """
        due = [run for run in listed if not run.has_turn and run.state is RunState.DUE]
        unmet = [run for run in due if run.awaits_conditions]
        waiting = {run.job_id for run in due if not run.awaits_conditions}
        running = [run for run in listed if run.state is RunState.RUNNING]
        versions = {run.version_id for run in running if run.awaits_attempt}
        begun = [run.id for run in running if not run.awaits_attempt]
        with self._database.read() as tx:
            before = runs.find_begun(tx, waiting) if waiting else {}
            awaited = describe_unmet(tx, unmet) if unmet else {}
            specs = {
                id_: version.spec.batch
                for id_, version in (jobs.list_versions(tx, versions) if versions else {}).items()
            }
            of_runs = runs.find_statements(tx, begun) if begun else {}
            found = statements.get_all(tx, list(of_runs.values()), cut_text=True) if of_runs else {}
        reasons = self._explain_statements(caller, list(found.values()))
        explained = {}
        for run in listed:
            spec, statement = specs.get(run.version_id), found.get(of_runs.get(run.id, ""))
            explained[run.id] = explain_run(
                run,
                now,
                attempts=None if spec is None else spec.retries.max_attempts + 1,
                before=before.get(run.job_id),
                unmet=awaited.get(run.id, ""),
                statement=None if statement is None else (statement, reasons[statement.id]),
            )
        return explained

    def _explain_statements(
        self, caller: Caller, found: Sequence[Statement]
    ) -> dict[str, Reason | None]:
        waits = self._service.find_wait_reasons(caller, found) if found else {}
        return {
            each.id: explain_statement(each, waits.get(each.id, (None, None))[1]) for each in found
        }
