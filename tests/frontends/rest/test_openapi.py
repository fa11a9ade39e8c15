"""The API matches its OpenAPI document."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.auto_reply import AutoReplyLauncher
from tests.support.in_process_node import InProcessNode, make_settings, serve_node
from tests.support.made_results import inline_result

from headrace.model.failure import Failure
from headrace.model.lifecycle import StatementState
from headrace.model.messages import Assignment

CONFIG = Path(__file__).with_name("schemathesis.toml")
TOKEN = "secret"


def reply(assignment: Assignment) -> dict[str, Any]:
    """Fail long statements, and return one row for all others."""
    if len(assignment.text) > 20:
        failure = Failure(code="spark_error", message="too long", line=1, column=1)
        return {"state": StatementState.FAILED, "failure": failure}
    result = inline_result([("n", "long"), ("s", "string")], [[1, assignment.text]])
    return {"state": StatementState.SUCCESS, "result": result}


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.matrix), "postgresql"])
def node_with_token(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[InProcessNode]:
    """Serve a node with a token, whose drivers answer by themselves, on each kind of store."""
    is_sqlite = request.param == "sqlite"
    store = {} if is_sqlite else {"url": request.getfixturevalue("postgres_url")}
    settings = make_settings(tmp_path, token=TOKEN, store=store)
    with serve_node(settings, AutoReplyLauncher(reply)) as node:
        yield node


@pytest.mark.finding("S15")
def test_every_response_matches_the_openapi_document(
    node_with_token: InProcessNode, tmp_path: Path
) -> None:
    """Schemathesis sends requests that the schema allows or forbids, and checks every response."""
    process = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
            *("run", f"{node_with_token.address}/api/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {TOKEN}"),
            *("--max-examples", "12", "--seed", "1", "--continue-on-failure"),
            *("--request-timeout", "20", "--warnings", "off"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    # Schemathesis tries every operation that the document has.
    selected = re.search(r"Selected: (\d+)/(\d+)", process.stdout)
    assert selected is not None, process.stdout
    assert selected[1] == selected[2], process.stdout
    assert f"Tested: {selected[2]}" in process.stdout, process.stdout
