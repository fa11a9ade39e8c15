"""What must hold after a run: pure functions. Each yields a sentence for every violation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.chaos_cluster.host_cluster import MAX_STARTS
from tests.faults.chaos_cluster.record import Accepted, ViewRead, Work

from headrace.model.stream_query import ADHOC_SCOPE, EndReason

Statement = Mapping[str, Any]
"""A statement as its row in the store, with `state`, `failure` and `session_id`."""


@dataclass(frozen=True, slots=True)
class RowCount:
    """The rows of one INSERT or CTAS in its table."""

    rows: int
    distinct: int


NO_ROWS = RowCount(0, 0)
_ASKED = {EndReason.STOPPED, EndReason.RESTARTED}
"""The reasons of ends that a user has requested."""


def check_accepted_are_stored(
    accepted: Iterable[Accepted],
    statements: Mapping[str, Statement],
    *,
    exhausted: Collection[str],
) -> Iterator[str]:
    """Check that no accepted statement is lost, and that faults alone made statements fail.

    Args:
        exhausted: Sessions that faults have ended (`find_exhausted`). The statements that waited in
            them have failed.
    """
    for each in accepted:
        statement = statements.get(each.id)
        if statement is None:
            yield f"the {each.work} {each.id} was accepted, but is not in the store"
            continue
        code = read_code(statement)
        if each.work is Work.FAILING_CTAS:
            if statement["state"] == "success":
                yield f"the {each.work} {each.id} is success"
        elif (
            statement["state"] != "success"
            and code != "driver_lost"
            and not (code == "session_failed" and statement["session_id"] in exhausted)
        ):
            yield f"the {each.work} {each.id} is {statement['state']}: {statement['failure']}"


def find_exhausted(
    sessions: Iterable[Mapping[str, Any]], failed_starts: Mapping[str, int]
) -> set[str]:
    """Return the failed sessions that faults can explain: each allowed start met a fault.

    Args:
        failed_starts: For each session, the faults that may have ended a start of its driver.
    """
    return {
        session["id"]
        for session in sessions
        if session["state"] == "failed"
        if failed_starts.get(session["id"], 0) >= MAX_STARTS
        if "did not start" in session["failure"].message
    }


def check_sessions(
    sessions: Iterable[Mapping[str, Any]], exhausted: Collection[str]
) -> Iterator[str]:
    """Check that no session has failed, apart from those that faults have ended."""
    for session in sessions:
        if session["state"] == "failed" and session["id"] not in exhausted:
            yield f"the session {session['id']} has failed: {session['failure']}"


def check_stream_ends(
    events: Iterable[Mapping[str, Any]],
    queries: Iterable[Mapping[str, Any]],
    succeeded: Collection[str],
) -> Iterator[str]:
    """Check that each query of a user has ended as the user has asked, and no pause by itself.

    Args:
        succeeded: The successful statements. A query may fail with its SAVE STREAM.
    """
    queries = {query["id"]: query for query in queries if query["scope"] == ADHOC_SCOPE}
    for query in queries.values():
        has_ended_as_asked = query["state"] == "stopped" and query["end_reason"] in _ASKED
        was_never_started = query["state"] == "failed" and (
            query["statement_id"] is not None and query["statement_id"] not in succeeded
        )
        if not (has_ended_as_asked or was_never_started):
            yield f"the query {query['name']} is {query['state']} ({query['end_reason']})"
    for event in events:
        query = queries.get(event["entity_id"])
        if query is None or (event["source"], event["target"]) != ("paused", "stopped"):
            continue
        if event["actor"] != query["owner"]:
            yield f"{event['actor']} has ended the pause of the query {query['name']}"


def check_deployments(
    deployments: Iterable[Mapping[str, Any]], broken: Collection[str]
) -> Iterator[str]:
    """Check that no deployment has failed, apart from those of versions that cannot run."""
    for deployment in deployments:
        state = deployment["state"]
        if state == "rejected" or (state == "failed" and deployment["id"] not in broken):
            yield f"the deployment {deployment['id']} is {state}"


def check_totals(totals: Mapping[int, int], *, digits: int, count: int) -> Iterator[str]:
    """Check that a stateful job has counted each number once, by the last digit of the numbers."""
    expected = dict.fromkeys(range(digits), count // digits)
    if dict(totals) != expected:
        yield f"the job has counted {dict(totals)}, instead of {count // digits} of each digit"


def check_at_least_once(rows: Mapping[int, int], *, count: int) -> Iterator[str]:
    """Check that a table has the numbers from 0 to `count`, each at least once."""
    yield from check_copies({"the table": dict.fromkeys(rows, 1)}, count=count)


def check_inserts(
    inserts: Iterable[Accepted],
    statements: Mapping[str, Statement],
    counts: Mapping[int, RowCount],
    *,
    expected: int,
    max_attempts: int,
) -> Iterator[str]:
    """Check that a successful INSERT has all its rows once, and any other INSERT has none.

    An INSERT is lost only with the driver of its last attempt.

    Args:
        counts: The rows in the table by the number of the INSERT.
        expected: The number of rows that an INSERT writes.
        max_attempts: The number of times that an INSERT may begin.
    """
    inserts = list(inserts)
    for insert in inserts:
        statement = statements.get(insert.id)
        if statement is None:
            continue
        count = counts.get(insert.number, NO_ROWS)
        code = read_code(statement)
        if statement["state"] == "success":
            is_right = count == RowCount(expected, expected)
        else:
            may_end = code != "driver_lost" or statement["attempts"] == max_attempts
            is_right = may_end and count == NO_ROWS
        if not is_right:
            yield (
                f"the {insert.work} {insert.id} is {statement['state']} ({code}) after"
                f" {statement['attempts']} attempts, with {count.rows} rows, {count.distinct} of"
                " them distinct"
            )
    for number in counts.keys() - {insert.number for insert in inserts}:
        yield f"the table has rows of the INSERT {number}, which was not accepted"


def check_tables(
    creations: Iterable[Accepted],
    statements: Mapping[str, Statement],
    counts: Mapping[int, RowCount],
    *,
    expected: int,
) -> Iterator[str]:
    """Check that a successful CTAS has its whole table, and any other CTAS has no table.

    Args:
        counts: The rows of each table that exists, by the number of its CTAS.
        expected: The number of rows that a CTAS writes.
    """
    creations = list(creations)
    for creation in creations:
        statement = statements.get(creation.id)
        if statement is None:
            continue
        count = counts.get(creation.number)
        if statement["state"] == "success":
            if count != RowCount(expected, expected):
                yield f"the {creation.work} {creation.id} is success, but its table has {count}"
        elif count is not None:
            yield f"the {creation.work} {creation.id} is {statement['state']}, but has a table"
    for number in counts.keys() - {creation.number for creation in creations}:
        yield f"the table of the CTAS {number} exists, which was not accepted"


def check_results(results: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Check that every node gives the same rows.

    Args:
        results: For each successful statement, its rows or the refusal of each node.
    """
    for statement_id, answers in results.items():
        if len(set(answers)) != 1 or answers[0].startswith("refused"):
            short = [answer[:200] for answer in answers]
            yield f"the nodes give different results of {statement_id}: {short}"


def find_lost(
    held: Iterable[str], statements: Iterable[Statement], sessions: Iterable[Mapping[str, Any]]
) -> set[str]:
    """Return those statements with held results whose drivers were lost afterwards."""
    epochs = {session["id"]: session["epoch"] for session in sessions}
    ids = set(held)
    return {
        each["id"]
        for each in statements
        if each["id"] in ids and each["epoch"] is not None
        if each["epoch"] < epochs[each["session_id"]]
    }


def check_lost_results(lost: Iterable[str], results: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Check that every node says that these results were lost with their drivers."""
    for statement_id in lost:
        for answer in results.get(statement_id, ()):
            if not answer.startswith("refused: result_gone") or "driver was lost" not in answer:
                yield f"the driver of {statement_id} was lost, but a node answers {answer[:200]}"


def check_query_rows(
    queries: Iterable[Accepted], results: Mapping[str, Sequence[str]], expected: Mapping[Work, int]
) -> Iterator[str]:
    """Check that the result of a query has all rows, and only those of this query.

    Args:
        results: The rows of each successful statement, a line for each row: `id,number`.
        expected: The number of rows of each kind of query.
    """
    for query in queries:
        answers = results.get(query.id)
        if answers is None:
            continue
        wanted = sorted(f"{row},{query.number}" for row in range(expected[query.work]))
        if sorted(answers[0].splitlines()) != wanted:
            yield f"the {query.work} {query.id} has other rows: {answers[0][:200]}"


def check_copies(copies: Mapping[str, Mapping[int, int]], *, count: int) -> Iterator[str]:
    """Check that each sink has the numbers from 0 to `count`, each once."""
    for sink, counts in copies.items():
        missing = sorted(set(range(count)) - counts.keys())
        repeated = sorted(number for number, times in counts.items() if times != 1)
        others = sorted(counts.keys() - set(range(count)))
        for what, numbers in (("missing", missing), ("repeated", repeated), ("other", others)):
            if numbers:
                yield f"{sink} has {len(numbers)} {what} numbers: {numbers[:10]}"


def check_view_reads(reads: Iterable[ViewRead], *, rows: int) -> Iterator[str]:
    """Check that each query has seen one whole generation, and none an older one than before."""
    newest = 0
    for read in reads:
        if read.rows != rows or read.oldest != read.newest:
            yield f"a query has seen a part of a generation of the view: {read}"
        if read.newest < newest:
            yield f"a query has seen an older generation of the view than the query before: {read}"
        newest = max(newest, read.newest)


def check_nodes(nodes: Iterable[Mapping[str, Any]], *, expected: Collection[str]) -> Iterator[str]:
    """Check that every node is up, once.

    Args:
        nodes: The nodes as the API lists them.
        expected: Addresses of the nodes.
    """
    up = [node["address"] for node in nodes if node["state"] == "up"]
    for address in expected:
        if up.count(address) != 1:
            yield f"the node {address} is up {up.count(address)} times, among {up}"


def read_code(statement: Statement) -> str | None:
    """Return the code of the error of a statement, or None."""
    failure = statement["failure"]
    return None if failure is None else str(failure.code)
