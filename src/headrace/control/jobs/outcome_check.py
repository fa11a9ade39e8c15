"""The comparison of what a driver reports about a task with the task itself.

Users' code runs in a driver, so that its report is a claim: it may name only what the task names.
"""

from __future__ import annotations

from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    JobOutcome,
    JobTask,
    JobToCheck,
    SavepointTaken,
    TakeSavepoint,
    TaskDone,
)


def answers(task: JobTask, outcome: JobOutcome) -> bool:
    """Return whether an outcome is one that this task can have."""
    if isinstance(task, TakeSavepoint):
        if not isinstance(outcome, SavepointTaken):
            return False
        return set(outcome.content.last_batches) <= set(task.queries)
    if isinstance(task, CheckJobs):
        return isinstance(outcome, CheckedJobs) and _answers_check(task, outcome)
    return isinstance(outcome, TaskDone)


def _answers_check(task: CheckJobs, outcome: CheckedJobs) -> bool:
    if [job.name for job in task.jobs] != [job.name for job in outcome.jobs]:
        return False
    return all(map(_answers_job, task.jobs, outcome.jobs))


def _answers_job(job: JobToCheck, checked: CheckedJob) -> bool:
    queries = {query.name for query in job.queries}
    named = {*checked.summaries, *checked.used_logs}
    named |= {problem.query for problem in checked.problems if problem.query}
    has_checkpoint = job.checkpoint is not None
    place = checked.found_savepoint
    return (
        named <= queries
        and (has_checkpoint or not checked.found_checkpoint)
        and (place is None or place in job.savepoints)
    )
