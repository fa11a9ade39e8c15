"""The end of an embedded node that `headrace serve` replaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.in_process_node import make_settings, serve_node


@pytest.mark.finding("U1")
def test_sessions_and_running_statements_survive_the_replacement_of_an_embedded_node(
    tmp_path: Path,
) -> None:
    with serve_node(make_settings(tmp_path), embedded=True) as embedded:
        session, driver = embedded.start_session(name="mine")
        statement = embedded.submit(session=session)["id"]
        driver.claim()
        driver.report_start(statement)
        embedded.node.ends_drivers = False
    with serve_node(make_settings(tmp_path)) as node:
        assert node.session_state("mine") == "running"
        assert node.statement(statement)["state"] == "running"
        assert embedded.launcher.killed == []
