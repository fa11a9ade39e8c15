"""Graphs of tables, from the lineage of statements."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode
from tests.support.lineage import save_lineage
from tests.support.node_client import Json

from headrace.control import lineage


@pytest.fixture
def chain(node: InProcessNode) -> dict[str, str]:
    """Store `raw` → `clean` → `daily` → `report`, and a cycle from `daily` to `clean`."""
    pairs = [("raw", "clean"), ("clean", "daily"), ("daily", "report"), ("daily", "clean")]
    return {
        f"{source} {target}": save_lineage(node.database, source, target, owner=LOCAL_OWNER)
        for source, target in pairs
    }


def show(node: InProcessNode, table: str, **query: Any) -> Json:
    answer = node.http.get("/api/v1/lineage", params={"table": table, **query})
    return dict(answer.json())


def edges(graph: Json, side: str) -> list[tuple[int, str, str]]:
    return [
        (edge["depth"], edge["source"].split(".")[-1], edge["target"].split(".")[-1])
        for edge in graph["edges"]
        if edge["side"] == side
    ]


def test_a_graph_has_the_tables_on_both_sides_and_ends_at_a_cycle(
    node: InProcessNode, chain: dict[str, str]
) -> None:
    graph = show(node, "daily", depth=10)
    assert graph["table"] == "spark_catalog.default.daily"
    assert not graph["truncated"]
    assert edges(graph, "upstream") == [
        (1, "clean", "daily"),
        (2, "daily", "clean"),
        (2, "raw", "clean"),
    ]
    assert edges(graph, "downstream") == [
        (1, "daily", "clean"),
        (1, "daily", "report"),
        (2, "clean", "daily"),
    ]
    assert graph["edges"][0]["last_statement"] == chain["clean daily"]


@pytest.mark.usefixtures("chain")
def test_a_graph_has_one_side_and_as_many_steps_as_its_caller_wants(node: InProcessNode) -> None:
    graph = show(node, "report", direction="upstream", depth=2)
    assert edges(graph, "upstream") == [(1, "daily", "report"), (2, "clean", "daily")]
    assert edges(show(node, "report", direction="downstream"), "downstream") == []


@pytest.mark.usefixtures("chain")
@pytest.mark.parametrize("name", ["Daily", "default.daily", "SPARK_CATALOG.default.daily"])
def test_a_table_is_found_by_each_of_its_names(node: InProcessNode, name: str) -> None:
    assert show(node, name)["table"] == "spark_catalog.default.daily"


@pytest.mark.usefixtures("chain")
def test_an_unknown_table_is_an_error_that_names_the_nearest_ones(node: InProcessNode) -> None:
    save_lineage(node.database, "dayly", "other", owner="eve")
    problem = show(node, "dailly")
    assert (problem["code"], problem["status"]) == ("lineage_not_found", 404)
    assert problem["hint"] == "Did you mean: spark_catalog.default.daily?"
    assert "hint" not in show(node, "zzzzzzzz")


def test_statements_of_others_are_only_shown_to_those_who_may_read_them(
    node: InProcessNode,
) -> None:
    save_lineage(node.database, "secret", "theirs", owner="eve")
    assert show(node, "theirs")["code"] == "lineage_not_found"
    # The user of the node is its administrator.
    assert edges(show(node, "theirs", all_owners=True), "upstream") == [(1, "secret", "theirs")]


@pytest.mark.parametrize(
    "query",
    [{"depth": 0}, {"depth": 11}, {"depth": "x"}, {"direction": "sideways"}, {"table": ""}],
    ids=str,
)
def test_a_bad_query_is_refused(node: InProcessNode, query: dict[str, Any]) -> None:
    answer = node.http.get("/api/v1/lineage", params={"table": "t", **query})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


def test_a_graph_is_bounded_and_says_so(
    node: InProcessNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lineage, "_MAX_EDGES", 2)
    for number in range(3):
        save_lineage(node.database, f"source_{number}", "target", owner=LOCAL_OWNER)
    graph = show(node, "target")
    assert (len(graph["edges"]), graph["truncated"]) == (2, True)
