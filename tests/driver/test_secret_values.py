"""Values of secrets in statements, queries and snapshots of a driver."""

from __future__ import annotations

import pytest

from headrace.driver.failures import KnownFailure
from headrace.driver.secret_values import ProviderFailed, SecretValues
from headrace.driver.streams.classify import is_permanent
from headrace.errors import SecretMisplaced
from headrace.model.failure import Failure
from headrace.model.job import JobRows, ReaderKind
from headrace.model.job_messages import (
    CheckJobs,
    CompareColumns,
    JobToCheck,
    QueryToCheck,
    ReaderToAnalyse,
    TextsToAnalyse,
    WriteManifests,
    WriterToCompare,
)
from headrace.model.messages import Assignment, FoundSecrets, FoundStreams
from headrace.model.result import ResultRequest
from headrace.model.session import EntryForm, Snapshot, SnapshotEntry
from headrace.model.stream_query import QuerySpec

SINK = "CREATE SINK db TO jdbc OPTIONS (password '{}')"
VIEW = "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (password '{}')"
REFERENCE = "${secret:pg}"


class Node:
    """A node with the secret `pg`, whose value changes with each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.is_up = True

    def find_secrets(self, names: list[str]) -> FoundSecrets:
        self.calls.append(names)
        if not self.is_up:
            failure = Failure(code="secret_unavailable", message="It does not answer.")
            return FoundSecrets(failure=failure, is_permanent=False)
        if names != ["pg"]:
            failure = Failure(code="secret_denied", message=f"{names} may not be used.")
            return FoundSecrets(failure=failure)
        return FoundSecrets(values={"pg": f"value-{len(self.calls)}"})

    def find_streams(self, names: list[str]) -> FoundStreams:
        return FoundStreams(definitions=[SINK.format(REFERENCE)] * len(names))


def make_assignment(text: str) -> Assignment:
    return Assignment(
        statement_id=f"st_{1:032}",
        text=text,
        parameters=[],
        conf={},
        result_request=ResultRequest(),
        is_query=False,
        attempt=1,
    )


def make_spec(**changes: object) -> QuerySpec:
    fields = {
        "text": f"SAVE STREAM s TO jdbc OPTIONS (password '{REFERENCE}')",
        "definitions": [SINK.format(REFERENCE)],
        "sink": "jdbc",
        "conf": {"spark.x": f"a {REFERENCE}"},
        **changes,
    }
    return QuerySpec.model_validate(fields)


def test_a_statement_gets_the_values_of_its_text_its_configuration_and_its_definitions() -> None:
    node = Node()
    assignment = make_assignment(VIEW.format(REFERENCE)).model_copy(
        update={"conf": {"spark.x": REFERENCE}, "definitions": [SINK.format(REFERENCE)]}
    )
    resolved = SecretValues(node).resolve_assignment(assignment)

    assert resolved.text == VIEW.format("value-1")
    assert resolved.conf == {"spark.x": "value-2"}
    assert resolved.definitions == [SINK.format("value-3")]
    assert assignment.text == VIEW.format(REFERENCE)


def test_a_statement_without_references_does_not_call_the_node() -> None:
    node = Node()
    assignment = make_assignment("SELECT '${other}'")

    assert SecretValues(node).resolve_assignment(assignment) == assignment
    assert node.calls == []


def test_each_start_of_a_query_gets_new_values() -> None:
    values, spec = SecretValues(Node()), make_spec()
    first, second = values.resolve_spec(spec), values.resolve_spec(spec)

    assert first.definitions == [SINK.format("value-2")]
    assert first.conf == {"spark.x": "a value-3"}
    assert "value-4" in second.text


def test_a_check_of_jobs_gets_values_and_no_other_task_does() -> None:
    query = QueryToCheck(name="q", spec=make_spec(rows=JobRows(setup=[VIEW.format(REFERENCE)])))
    check = CheckJobs(state_location="/s", jobs=[JobToCheck(name="j", queries=[query])])
    write = WriteManifests(texts={"/m": f"a: {REFERENCE}"})
    values, assignment = SecretValues(Node()), make_assignment("a description")

    checked = values.resolve_assignment(assignment.model_copy(update={"task": check})).task
    assert isinstance(checked, CheckJobs)
    rows = checked.jobs[0].queries[0].spec.rows
    assert rows is not None
    assert "value-" in rows.setup[0]
    written = values.resolve_assignment(assignment.model_copy(update={"task": write})).task
    assert written == write


def test_a_comparison_of_columns_gets_values() -> None:
    spec = make_spec(rows=JobRows(setup=[VIEW.format(REFERENCE)]))
    texts = TextsToAnalyse(setup=[VIEW.format(REFERENCE)], query=spec, conf={"a": REFERENCE})
    task = CompareColumns(
        writers=[WriterToCompare(name="w", before=[texts], after=[texts])],
        readers=[ReaderToAnalyse(kind=ReaderKind.JOB, name="r", texts=[texts])],
    )
    assignment = make_assignment("a description").model_copy(update={"task": task})
    resolved = SecretValues(Node()).resolve_assignment(assignment).task

    assert isinstance(resolved, CompareColumns)
    assert REFERENCE not in resolved.model_dump_json()
    assert resolved.readers[0].texts[0].conf["a"].startswith("value-")


def test_the_definitions_of_streams_get_values() -> None:
    found = SecretValues(Node()).find_streams(["a"])

    assert found.definitions == [SINK.format("value-1")]


def test_a_refused_secret_fails_with_the_failure_of_the_node() -> None:
    with pytest.raises(KnownFailure) as refused:
        SecretValues(Node()).resolve_spec(make_spec(conf={"spark.x": "${secret:other}"}))
    assert refused.value.failure.code == "secret_denied"
    assert is_permanent(refused.value)


def test_a_query_starts_again_when_the_provider_does_not_answer() -> None:
    node = Node()
    node.is_up = False
    with pytest.raises(ProviderFailed) as refused:
        SecretValues(node).resolve_spec(make_spec())
    assert refused.value.failure.code == "secret_unavailable"
    assert not is_permanent(refused.value)


def test_the_code_of_a_job_cannot_refer_to_a_secret() -> None:
    with pytest.raises(SecretMisplaced, match="code of a job"):
        SecretValues(Node()).resolve_spec(make_spec(rows=JobRows(code=f"x = '{REFERENCE}'")))


def test_a_snapshot_gets_values_and_lists_what_it_cannot_resolve() -> None:
    views = [
        SnapshotEntry(name="v", form=EntryForm.SQL, body=VIEW.format(REFERENCE)),
        SnapshotEntry(name="w", form=EntryForm.SQL, body=VIEW.format("${secret:other}")),
        SnapshotEntry(name="j", form=EntryForm.JAVA, body=REFERENCE),
    ]
    conf = {"spark.x": REFERENCE, "spark.y": "${secret:other}", "spark.z": "z"}
    snapshot = Snapshot(
        catalog="c", namespace=[], conf=conf, views=views, global_views=views[:1], unsaved=["u"]
    )
    restored = SecretValues(Node()).resolve_snapshot(snapshot)

    assert restored.conf == {"spark.x": "value-1", "spark.z": "z"}
    assert [view.body for view in restored.views] == [VIEW.format("value-3"), REFERENCE]
    assert [view.body for view in restored.global_views] == [VIEW.format("value-5")]
    assert restored.unsaved == [
        "u",
        "setting spark.y: ['other'] may not be used.",
        "view w: ['other'] may not be used.",
    ]
