"""Tasks of drivers: a statement carries each, so that it is durable and survives its driver."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.jobs.outcome_check import answers
from headrace.model.failure import Failure
from headrace.model.job_messages import CheckJobs, JobOutcome, JobTask, TakeSavepoint
from headrace.model.lifecycle import STATEMENT, StatementState
from headrace.model.statement import JOB_TASK, JOB_WRITE, NewStatement, StatementSpec
from headrace.model.text import new_id
from headrace.store.database import Tx
from headrace.store.jobs import jobs
from headrace.store.statements import statements

_LOST = Failure(code="task_lost", message="The statement of the task is deleted.")
_NO_OUTCOME = Failure(
    code="invalid_report", message="The driver did not report what its task has done."
)

_WRONG_OUTCOME = Failure(
    code="invalid_report", message="The driver reported something else than what its task was."
)


@dataclass(frozen=True, slots=True)
class EndedTask:
    """The end of a task: exactly one of outcome and failure is given."""

    outcome: JobOutcome | None
    failure: Failure | None


def submit_task(tx: Tx, owner: str, session_id: str, task: JobTask, description: str) -> str:
    """Submit a task to a session, and return the id of its statement.

    Every task is safe to run again, and runs beside the other tasks of its session as queries do. A
    task that writes where others read runs again only when its first driver is gone for certain.

    Raise SessionEnded if the session accepts no more statements.

    Args:
        description: What the task does, for the list of statements.
    """
    new = NewStatement(
        id=new_id("st"),
        session_id=session_id,
        owner=owner,
        spec=StatementSpec(text=f"{JOB_TASK}: {description}"),
        is_query=True,
        command=JOB_TASK if isinstance(task, CheckJobs | TakeSavepoint) else JOB_WRITE,
    )
    statement = statements.insert(tx, new, actor=owner)
    jobs.insert_task(tx, statement.id, task)
    return statement.id


def read_end(tx: Tx, statement_id: str) -> EndedTask | None:
    """Return the end of a task, or None if it has not ended."""
    statement = statements.get(tx, statement_id)
    if statement is None:
        return EndedTask(None, _LOST)
    if statement.state not in STATEMENT.terminal:
        return None
    if statement.state is not StatementState.SUCCESS:
        return EndedTask(None, statement.failure or _describe_end(statement.state))
    task, outcome = jobs.get_task(tx, statement_id), jobs.get_outcome(tx, statement_id)
    if outcome is None:
        return EndedTask(None, _NO_OUTCOME)
    if task is None or not answers(task, outcome):
        return EndedTask(None, _WRONG_OUTCOME)
    return EndedTask(outcome, None)


def _describe_end(state: StatementState) -> Failure:
    return Failure(code=f"task_{state}", message=f"The statement of the task is {state}.")
