"""Reports of drivers about the tasks of jobs, right and forged."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.control.jobs.tasks import answers
from headrace.model.job import SavepointContent
from headrace.model.job_messages import (
    CheckedJob,
    CheckedJobs,
    CheckJobs,
    DeleteStates,
    JobProblem,
    JobToCheck,
    QueryToCheck,
    RestoreSavepoint,
    SavepointTaken,
    TakeSavepoint,
    TaskDone,
    WriteManifests,
)
from headrace.model.stream_query import QuerySpec

QUERY = QueryToCheck(name="q", spec=QuerySpec(text="SAVE STREAM s TO noop", sink="noop"))
CHECK = CheckJobs(
    state_location="/s",
    jobs=[
        JobToCheck(name="a", queries=[QUERY], checkpoint="/s/c/a", savepoints=["/s/1", "/s/2"]),
        JobToCheck(name="b", queries=[QUERY]),
    ],
)
TAKE = TakeSavepoint(checkpoint="/s/c", queries=["x", "y"], savepoint="/s/3")
RESTORE = RestoreSavepoint(savepoint="/s/3", checkpoint="/s/d")


def checked(names: tuple[str, ...] = ("a", "b"), **of_last: Any) -> CheckedJobs:
    """Return the outcome of a check; the keywords describe the last job."""
    jobs = [CheckedJob(name=name) for name in names]
    return CheckedJobs(jobs=[*jobs[:-1], CheckedJob(name=names[-1], **of_last)])


def taken(*directories: str, planned: tuple[str, ...] = ()) -> SavepointTaken:
    content = SavepointContent(
        files=1,
        bytes=1,
        checksum="c",
        spark_version="4",
        is_clean=True,
        last_batches=dict.fromkeys(directories, 3),
        planned_batches=dict.fromkeys(planned, 4),
    )
    return SavepointTaken(content=content)


def test_the_outcome_of_each_task_is_accepted() -> None:
    first = CheckedJob(name="a", found_checkpoint=True, found_savepoint="/s/2", used_logs=["q"])
    problem = JobProblem(code="x", message="m", query="q")
    last = CheckedJob(name="b", problems=[problem])

    assert answers(CHECK, CheckedJobs(jobs=[first, last]))
    assert answers(TAKE, taken("x", planned=("x", "y")))
    for task in (RESTORE, WriteManifests(), DeleteStates(directories=["/s/1"])):
        assert answers(task, TaskDone())


@pytest.mark.parametrize(
    "outcome",
    [
        TaskDone(),
        taken(),
        checked(("a",)),
        checked(("a", "b", "c")),
        checked(("b", "a")),
        checked(found_checkpoint=True),
        checked(found_savepoint="/s/1"),
        checked(used_logs=["other"]),
        checked(problems=[JobProblem(code="x", message="m", query="other")]),
    ],
)
def test_a_forged_outcome_of_a_check_is_refused(outcome: Any) -> None:
    assert not answers(CHECK, outcome)


def test_forged_outcomes_of_other_tasks_are_refused() -> None:
    assert not answers(TAKE, TaskDone())
    assert not answers(TAKE, taken("x", "z"))
    assert not answers(TAKE, taken("x", planned=("z",)))
    assert not answers(RESTORE, taken())
