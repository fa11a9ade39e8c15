"""The progress bar and the log of an operation: they show the state, and end by themselves."""

from __future__ import annotations

import time

import pytest
from tests.support.hiveserver2 import THRIFT, Connect, HiveClient, HiveNode, id_of

from headrace.frontends.hiveserver2 import calls
from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.statement import Progress

STATES = THRIFT.TOperationState
IN_PROGRESS, COMPLETE, NOT_AVAILABLE = range(3)


def make_progress(**changes: int) -> Progress:
    return Progress(**{**dict.fromkeys(Progress.model_fields, 0), **changes})


def drain(client: HiveClient, operation: object) -> list[str]:
    """Read the log as PyHive and Beeline do: until nothing is new."""
    lines: list[str] = []
    while part := client.fetch_log(operation):
        lines += part
        assert len(lines) < 100
    return lines


def read_bar(client: HiveClient, operation: object) -> object:
    status = client.call("GetOperationStatus", operationHandle=operation, getProgressUpdate=True)
    assert status.status.statusCode == 0
    return status.progressUpdateResponse


def test_the_bar_counts_stages_and_tasks_until_the_end(server: HiveNode, connect: Connect) -> None:
    client = connect()
    operation = client.execute("SELECT n FROM t").operationHandle
    bar = read_bar(client, operation)
    assert (bar.status, bar.progressedPercentage) == (IN_PROGRESS, 0.0)
    driver = server.driver_of(operation)
    server.claim(operation)
    driver.report_start(id_of(operation))
    progress = make_progress(
        jobs=1, stages_done=1, stages_total=3, tasks_done=5, tasks_total=20, tasks_active=2
    )
    driver.report_progress({id_of(operation): progress})
    bar = read_bar(client, operation)
    # Beeline formats nine columns, and fails if there are fewer.
    assert len(bar.headerNames) == 9
    assert bar.rows == [["1/3", "1", "RUNNING", "20", "5", "2", "13", "0", ""]]
    assert (bar.status, bar.progressedPercentage) == (IN_PROGRESS, 0.25)
    assert bar.footerSummary == "STAGES: 1/3"
    assert abs(bar.startTime / 1000 - time.time()) < 60
    driver.succeed(id_of(operation))
    bar = read_bar(client, operation)
    assert (bar.status, bar.progressedPercentage) == (COMPLETE, 1.0)
    # Hive's driver 2.3 asks again for each row: Beeline does not show the bar again.
    assert read_bar(client, operation).status == NOT_AVAILABLE
    # A client that does not ask for it gets none.
    assert client.status(operation).progressUpdateResponse is None


@pytest.mark.parametrize("version", [0, 5, 9])
def test_the_log_says_what_is_new_and_then_nothing(
    server: HiveNode, connect: Connect, version: int
) -> None:
    client = connect(version=version)
    operation = client.execute("SELECT n FROM t").operationHandle
    if version < 5:
        response = client.fetch(operation, fetchType=1)
        assert response.results.rows[0].colVals[0].stringVal.value.startswith("INFO")
        return
    begin = drain(client, operation)
    assert begin[0].startswith(f"INFO  : Statement {id_of(operation)}")
    assert any("waits" in line for line in begin)
    driver = server.driver_of(operation)
    server.claim(operation)
    driver.report_start(id_of(operation))
    for done in (1, 2):
        driver.report_progress(
            {id_of(operation): make_progress(stages_total=2, tasks_total=4, tasks_done=done)}
        )
        expected = f"INFO  : 0 of 2 stages, {done} of 4 tasks, 0 rows read"
        assert drain(client, operation) == [expected]
    driver.succeed(id_of(operation), note="Four tasks were enough.")
    end = drain(client, operation)
    assert end[-2:] == ["INFO  : It has ended: success", "INFO  : Four tasks were enough."]
    assert drain(client, operation) == []
    # It stays until the operation is closed, and can be read again.
    first = THRIFT.TFetchOrientation.FETCH_FIRST
    assert client.fetch_log(operation, orientation=first)[-2:] == end[-2:]
    assert drain(client, operation) == []


def test_the_log_of_a_failure_has_its_text(server: HiveNode, connect: Connect) -> None:
    client = connect()
    operation = client.execute("SELECT nope").operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    failure = Failure(code="analysis_error", message="No column.", condition="UNRESOLVED_COLUMN")
    driver.report_end(id_of(operation), StatementState.FAILED, failure=failure)
    assert drain(client, operation)[-1] == "ERROR : [UNRESOLVED_COLUMN] No column."
    assert read_bar(client, operation).status == NOT_AVAILABLE


def test_the_log_waits_for_nothing(
    server: HiveNode, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hold in ("_HOLD_SECONDS", "_HOLD_WITH_PROGRESS"):
        monkeypatch.setattr(calls, hold, 10.0)
    client = connect()
    operation = client.execute("SELECT 1").operationHandle
    driver = server.driver_of(operation)
    server.claim(operation)
    driver.report_start(id_of(operation))
    begin = time.monotonic()
    for _number in range(5):
        client.fetch_log(operation)
    # A wait in each call would take 50 s.
    assert time.monotonic() - begin < 30
    monkeypatch.undo()
    assert client.status(operation).operationState == STATES.RUNNING_STATE
    driver.succeed(id_of(operation))


def test_a_call_for_metadata_has_an_empty_log(server: HiveNode, connect: Connect) -> None:
    del server
    client = connect()
    response = client.call("GetTableTypes", sessionHandle=client.session)
    assert drain(client, response.operationHandle) == []
    assert client.status(response.operationHandle).operationState == STATES.FINISHED_STATE


def test_the_log_of_another_owner_is_not_read(server: HiveNode, connect: Connect) -> None:
    del server
    operation = connect("ada").execute("SELECT 1").operationHandle
    refused = connect("bob").fetch(operation, fetchType=1).status
    assert refused.statusCode == THRIFT.TStatusCode.ERROR_STATUS
    assert "statement_not_found" in refused.errorMessage
