"""Each check of a cluster run finds a planted violation."""

from __future__ import annotations

from typing import Any

from tests.faults.chaos_cluster.checks import (
    RowCount,
    check_accepted_are_stored,
    check_at_least_once,
    check_copies,
    check_deployments,
    check_inserts,
    check_lost_results,
    check_nodes,
    check_query_rows,
    check_results,
    check_sessions,
    check_stream_ends,
    check_tables,
    check_totals,
    check_view_reads,
    find_exhausted,
    find_lost,
)
from tests.faults.chaos_cluster.leftovers import find_wrong_markers, find_wrong_savepoints
from tests.faults.chaos_cluster.record import Accepted, ViewRead, Work
from tests.faults.invariants import Rows

from headrace.model.failure import Failure
from headrace.model.stream_query import EndReason

ROWS = 20
SESSION = "se_1"
WHOLE = RowCount(ROWS, ROWS)
INSERT = Accepted("st_1", Work.INSERT, 1, "INSERT")
CTAS = Accepted("st_2", Work.CTAS, 2, "CREATE TABLE")
FAILING = Accepted("st_3", Work.FAILING_CTAS, 3, "CREATE TABLE")
QUERY = Accepted("st_4", Work.QUERY, 4, "SELECT")


def make_statement(
    state: str, code: str | None = None, message: str = "a message"
) -> dict[str, Any]:
    failure = None if code is None else Failure(code=code, message=message)
    return {"state": state, "failure": failure, "session_id": SESSION, "attempts": 1}


SUCCESS = make_statement("success")
LOST = make_statement("failed", "driver_lost")
FAILED = make_statement("failed", "execution_error")


def find_wrong_insert(statement: dict[str, Any], counts: dict[int, RowCount]) -> list[str]:
    statements = {INSERT.id: statement}
    return list(check_inserts([INSERT], statements, counts, expected=ROWS, max_attempts=3))


def find_wrong_table(statement: dict[str, Any], counts: dict[int, RowCount]) -> list[str]:
    return list(check_tables([CTAS], {CTAS.id: statement}, counts, expected=ROWS))


def find_wrong_end(
    accepted: Accepted, statement: dict[str, Any] | None, exhausted: set[str] | None = None
) -> list[str]:
    statements = {} if statement is None else {accepted.id: statement}
    sessions = exhausted or set()
    return list(check_accepted_are_stored([accepted], statements, exhausted=sessions))


def test_a_lost_statement_is_a_violation() -> None:
    assert find_wrong_end(INSERT, SUCCESS) == []
    assert len(find_wrong_end(INSERT, None)) == 1


def test_only_the_loss_of_a_driver_excuses_a_failure() -> None:
    assert find_wrong_end(INSERT, LOST) == []
    assert len(find_wrong_end(INSERT, FAILED)) == 1
    assert len(find_wrong_end(INSERT, make_statement("cancelled"))) == 1


def test_a_session_may_fail_only_after_faults_have_ended_three_of_its_starts() -> None:
    failure = Failure(code="launch_failed", message="The driver did not start in 3 attempts.")
    failed = {"id": SESSION, "state": "failed", "failure": failure}
    other = failed | {"failure": Failure(code="launch_failed", message="It was too slow.")}
    dead = {"id": SESSION, "state": "dead", "failure": None}
    assert find_exhausted([failed], {SESSION: 3}) == {SESSION}
    assert find_exhausted([failed], {SESSION: 2}) == set()
    assert find_exhausted([failed], {"se_2": 3}) == set()
    assert find_exhausted([other, dead], {SESSION: 3}) == set()
    assert not list(check_sessions([failed, dead], {SESSION}))
    assert len(list(check_sessions([failed, dead], set()))) == 1


def test_a_statement_may_fail_with_such_a_session() -> None:
    failed = make_statement("failed", "session_failed")
    assert find_wrong_end(INSERT, failed, {SESSION}) == []
    assert len(find_wrong_end(INSERT, failed, {"se_2"})) == 1
    assert len(find_wrong_end(INSERT, FAILED, {SESSION})) == 1


def make_query(**fields: Any) -> dict[str, Any]:
    query = {"id": "sq_1", "name": "copy", "owner": "me", "scope": "adhoc", "statement_id": "st_1"}
    return query | {"state": "stopped", "end_reason": EndReason.STOPPED} | fields


def test_a_streaming_query_ends_only_as_its_user_has_asked() -> None:
    def find(**fields: Any) -> list[str]:
        return list(check_stream_ends([], [make_query(**fields)], {"st_1"}))

    assert find() == find(end_reason=EndReason.RESTARTED) == []
    assert find(state="failed", end_reason=None, statement_id="st_9") == []
    assert find(scope="a_job", end_reason=EndReason.JOB_CHANGED) == []
    assert len(find(end_reason=EndReason.SOURCES_ENDED)) == 1
    assert len(find(state="failed", end_reason=None)) == 1
    assert len(find(state="failed", end_reason=None, statement_id=None)) == 1
    assert len(find(state="paused", end_reason=None)) == 1


def test_only_the_user_ends_a_pause() -> None:
    def find(source: str, actor: str) -> list[str]:
        event = {"entity_id": "sq_1", "source": source, "target": "stopped", "actor": actor}
        return list(check_stream_ends([event], [make_query()], {"st_1"}))

    assert find("paused", "me") == find("stopping", "driver:se_1:1") == []
    assert len(find("paused", "driver:se_1:1")) == len(find("paused", "no_1")) == 1


def test_only_a_version_that_cannot_run_may_fail() -> None:
    def find(state: str, broken: set[str]) -> list[str]:
        return list(check_deployments([{"id": "dp_1", "state": state}], broken))

    assert find("applied", set()) == find("failed", {"dp_1"}) == []
    assert len(find("failed", set())) == len(find("rejected", {"dp_1"})) == 1


def test_a_stateful_job_counts_each_number_once() -> None:
    assert not list(check_totals({0: 2, 1: 2}, digits=2, count=4))
    for totals in ({0: 2}, {0: 2, 1: 1}, {0: 3, 1: 2}):
        assert len(list(check_totals(totals, digits=2, count=4))) == 1


def test_a_table_has_each_number_at_least_once() -> None:
    assert not list(check_at_least_once({0: 1, 1: 3}, count=2))
    assert len(list(check_at_least_once({0: 3}, count=2))) == 1
    assert len(list(check_at_least_once({0: 1, 1: 1, 2: 1}, count=2))) == 1


def make_rows(**tables: Any) -> Rows:
    empty: dict[str, Any] = {"events": [], "statements": [], "sessions": [], "results": []}
    return Rows(**(empty | tables))


def test_a_marker_names_a_query_and_no_epoch_to_come() -> None:
    rows = make_rows(stream_queries=[make_query()], sessions=[{"id": SESSION, "epoch": 3}])

    def find(query: str, epoch: int) -> list[str]:
        marker = {"query": query, "session": SESSION, "epoch": epoch}
        return list(find_wrong_markers({"checkpoint": marker}, rows))

    assert find("sq_1", 3) == []
    assert len(find("sq_2", 3)) == len(find("sq_1", 4)) == 1


def test_every_folder_of_a_savepoint_belongs_to_one() -> None:
    savepoints = [{"place": "file:/s/sp_1", "state": "verified"}]
    savepoints.append({"place": "file:/s/sp_2", "state": "pruned"})
    rows = make_rows(savepoints=savepoints)
    assert list(find_wrong_savepoints(["/s/sp_1"], rows)) == []
    assert len(list(find_wrong_savepoints(["/s/sp_1", "/s/sp_2", "/s/sp_3"], rows))) == 2


def test_a_statement_that_must_fail_does_not_succeed() -> None:
    assert find_wrong_end(FAILING, FAILED) == []
    assert len(find_wrong_end(FAILING, SUCCESS)) == 1


def test_a_successful_insert_has_each_row_once() -> None:
    assert find_wrong_insert(SUCCESS, {1: WHOLE}) == []
    for count in (RowCount(ROWS - 1, ROWS - 1), RowCount(2 * ROWS, ROWS), RowCount(ROWS, ROWS - 1)):
        assert len(find_wrong_insert(SUCCESS, {1: count})) == 1
    assert len(find_wrong_insert(SUCCESS, {})) == 1


def test_an_insert_is_lost_in_its_last_attempt_only_and_without_rows() -> None:
    lost = LOST | {"attempts": 3}
    assert find_wrong_insert(lost, {}) == []
    assert len(find_wrong_insert(LOST | {"attempts": 2}, {})) == 1
    assert len(find_wrong_insert(lost, {1: WHOLE})) == 1
    assert len(find_wrong_insert(lost, {1: RowCount(1, 1)})) == 1


def test_a_failed_insert_has_no_row() -> None:
    assert find_wrong_insert(FAILED, {}) == []
    assert len(find_wrong_insert(FAILED, {1: RowCount(1, 1)})) == 1


def test_rows_of_an_unknown_insert_are_a_violation() -> None:
    assert len(find_wrong_insert(SUCCESS, {1: WHOLE, 9: WHOLE})) == 1


def test_only_a_successful_ctas_has_a_table() -> None:
    assert find_wrong_table(SUCCESS, {2: WHOLE}) == []
    assert find_wrong_table(LOST, {}) == []
    assert len(find_wrong_table(SUCCESS, {})) == 1
    assert len(find_wrong_table(SUCCESS, {2: RowCount(10, 10)})) == 1
    assert len(find_wrong_table(LOST, {2: WHOLE})) == 1
    assert len(find_wrong_table(SUCCESS, {2: WHOLE, 9: WHOLE})) == 1


def test_every_node_gives_the_same_rows() -> None:
    assert not list(check_results({"st_1": ["1,2", "1,2", "1,2"]}))
    assert len(list(check_results({"st_1": ["1,2", "1,2", "1,3"]}))) == 1
    refusals = ["refused: result_gone"] * 3
    assert len(list(check_results({"st_1": refusals}))) == 1


def test_a_held_result_may_be_gone_only_with_its_driver() -> None:
    statement = {"id": "st_1", "session_id": SESSION, "epoch": 1}
    sessions = [{"id": SESSION, "epoch": 2}]
    assert find_lost(["st_1"], [statement], sessions) == {"st_1"}
    assert find_lost([], [statement], sessions) == set()
    assert find_lost(["st_1"], [statement | {"epoch": 2}], sessions) == set()
    gone = "refused: result_gone: the rows are gone: the driver was lost."
    assert not list(check_lost_results({"st_1"}, {"st_1": [gone, gone]}))
    assert len(list(check_lost_results({"st_1"}, {"st_1": [gone, "1,2"]}))) == 1
    expired = "refused: result_gone: the rows are deleted"
    assert len(list(check_lost_results({"st_1"}, {"st_1": [expired]}))) == 1


def test_a_query_has_its_own_rows_and_all_of_them() -> None:
    def find(rows: str) -> list[str]:
        return list(check_query_rows([QUERY], {QUERY.id: [rows]}, {Work.QUERY: 2}))

    assert find("0,4\n1,4") == find("1,4\n0,4") == []
    assert len(find("0,4")) == len(find("0,4\n1,5")) == len(find("0,4\n1,4\n1,4")) == 1


def test_a_sink_has_each_number_once() -> None:
    assert not list(check_copies({"sink": {0: 1, 1: 1}}, count=2))
    [missing] = check_copies({"sink": {0: 1}}, count=2)
    [repeated] = check_copies({"sink": {0: 1, 1: 2}}, count=2)
    [other] = check_copies({"sink": {0: 1, 1: 1, 2: 1}}, count=2)
    assert "missing" in missing
    assert "repeated" in repeated
    assert "other" in other


def test_a_reader_of_the_view_sees_whole_generations_in_their_order() -> None:
    first, second = ViewRead(10, 5, 5), ViewRead(10, 7, 7)
    assert not list(check_view_reads([first, first, second], rows=10))
    for part in (ViewRead(9, 5, 5), ViewRead(10, 5, 7), ViewRead(20, 5, 5)):
        assert len(list(check_view_reads([part], rows=10))) == 1
    assert len(list(check_view_reads([second, first], rows=10))) == 1


def test_each_node_is_up_once() -> None:
    node = {"address": "http://one", "state": "up"}
    gone = {**node, "state": "gone"}
    assert not list(check_nodes([node, gone], expected=["http://one"]))
    assert len(list(check_nodes([gone], expected=["http://one"]))) == 1
    assert len(list(check_nodes([node, node], expected=["http://one"]))) == 1
