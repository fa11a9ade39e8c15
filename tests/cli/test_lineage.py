"""`headrace lineage`, with a node."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import RunHeadrace
from tests.support.identities import LOCAL_OWNER
from tests.support.in_process_node import InProcessNode, StartNode
from tests.support.lineage import save_lineage


@pytest.fixture
def server(start_node: StartNode) -> InProcessNode:
    return start_node()


@pytest.fixture
def environment(environment: dict[str, str], server: InProcessNode) -> dict[str, str]:
    return {**environment, "HEADRACE_SERVER": server.address}


def test_the_lineage_of_a_table_is_shown(headrace: RunHeadrace, server: InProcessNode) -> None:
    save_lineage(server.database, "raw", "clean", owner=LOCAL_OWNER)
    save_lineage(server.database, "clean", "daily", owner=LOCAL_OWNER)
    lines = headrace("lineage", "clean").stdout.splitlines()
    assert [line.split(",")[:4] for line in lines] == [
        ["side", "depth", "source", "target"],
        ["upstream", "1", "spark_catalog.default.raw", "spark_catalog.default.clean"],
        ["downstream", "1", "spark_catalog.default.clean", "spark_catalog.default.daily"],
    ]
    shown = headrace("lineage", "daily", "--upstream", "--depth", "1", "-o", "json").stdout
    assert [edge["source"] for edge in json.loads(shown)["edges"]] == [
        "spark_catalog.default.clean"
    ]


def test_the_lineage_of_an_unknown_table_is_an_error(
    headrace: RunHeadrace, server: InProcessNode
) -> None:
    save_lineage(server.database, "raw", "clean", owner=LOCAL_OWNER)
    refused = headrace("lineage", "clena")
    assert refused.returncode != 0
    assert "Did you mean: spark_catalog.default.clean?" in refused.stderr
