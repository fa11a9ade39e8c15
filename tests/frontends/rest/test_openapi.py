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


def test_the_openapi_document_lists_every_operation(node: InProcessNode) -> None:
    schema = node.http.get("/api/v1/openapi.json").json()
    calls = {
        f"{method.upper()} {path}"
        for path, methods in schema["paths"].items()
        for method in methods
    }
    assert calls == {
        "POST /api/v1/sessions",
        "GET /api/v1/sessions",
        "GET /api/v1/sessions/{session}",
        "DELETE /api/v1/sessions/{session}",
        "GET /api/v1/sessions/{session}/log",
        "POST /api/v1/statements",
        "GET /api/v1/streams",
        "GET /api/v1/streams/{stream}",
        "POST /api/v1/streams/{stream}/{action}",
        "GET /api/v1/recovery",
        "POST /api/v1/recovery",
        "GET /api/v1/transactions",
        "GET /api/v1/transactions/{transaction}",
        "GET /api/v1/statements",
        "GET /api/v1/statements/{statement_id}",
        "GET /api/v1/statements/{statement_id}/result",
        "POST /api/v1/statements/{statement_id}/cancel",
        "POST /api/v1/deployments",
        "GET /api/v1/deployments",
        "GET /api/v1/deployments/{deployment}",
        "POST /api/v1/deployments/{deployment}/apply",
        "GET /api/v1/jobs",
        "GET /api/v1/jobs/{name}",
        "DELETE /api/v1/jobs/{name}",
        "GET /api/v1/jobs/{name}/versions",
        "POST /api/v1/jobs/{name}/stop",
        "POST /api/v1/jobs/{name}/start",
        "POST /api/v1/jobs/{name}/savepoint",
        "POST /api/v1/jobs/{name}/rollback",
        "GET /api/v1/events",
        "GET /api/v1/nodes",
        "POST /api/v1/nodes/{node_id}/drain",
        "POST /api/v1/nodes/{node_id}/gone",
        "POST /api/v1/history/purge",
        "GET /health",
        "GET /metrics",
        "GET /ready",
        "POST /_plugins/_async_query",
        "GET /_plugins/_async_query/{query_id}",
        "DELETE /_plugins/_async_query/{query_id}",
        "GET /",
        "HEAD /",
    }
