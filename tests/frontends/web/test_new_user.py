"""What a new user does with the pages, on real Spark, and the pictures of it for the docs.

`RECORD_IMAGES=1 pytest tests/frontends/web/test_new_user.py` writes `docs/images`.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, expect
from tests.support.chromium import watch
from tests.support.node import NodeProcess, bearer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.spark]

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
VIEWS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
YESTERDAY = "SELECT 'yesterday' AS asked, 1900 + id AS year FROM range(3)"
DAILY = """
name: daily-flights
schedule: {cron: 0 2 * * *, timezone: Europe/Zurich}
target-table: flights_by_day
write: overwrite-partitions
partition-by: [day]
metadata-columns: false
retries: {max-attempts: 0}
expect:
  - {name: on-time, condition: delay < 90, on-violation: warn}
  - {name: has-plane, condition: plane IS NOT NULL, on-violation: drop}
sql: |
  SELECT id AS flight, nullif(id % 50, 7) AS plane, id % 95 AS delay,
         if(day(:interval_start) = 30, raise_error('The file of this day is empty.'),
            date(:interval_start)) AS day
  FROM range(1000)
"""
SLOW = "SELECT count(*) FROM range(100000000000) WHERE hash(id) = 1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    process = NodeProcess(
        tmp_path_factory.mktemp("node") / "home",
        environment={"SECRET_hook": "whsec_" + base64.b64encode(bytes(32)).decode()},
        SECRETS__PROVIDER="environment",
        SECRETS__ALLOWED='{"hook": ["*"]}',
    )
    yield process
    process.close()


def sign_in(page: Page, node: NodeProcess, link: str = "") -> None:
    """Open a page, and enter the token of the node."""
    page.goto(f"{node.address}/ui/{link}")
    token = bearer(node.home)["Authorization"].removeprefix("Bearer ")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ui/statements**")


def run_sql(page: Page, text: str) -> None:
    """Replace the text of the editor, and run it."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)
    page.get_by_role("button", name="Run all").click()


def test_a_new_user_writes_a_table_stops_a_query_and_finds_a_former_result(
    chromium: Chromium, node: NodeProcess
) -> None:
    node.run(YESTERDAY)
    with chromium.new_context(viewport={"width": 1280, "height": 1000}) as context:
        page = context.new_page()
        reports = watch(page)
        sign_in(page, node)
        page.get_by_role("link", name="Editor").click()
        run_sql(
            page,
            "CREATE TABLE cities AS SELECT * FROM VALUES ('Bern', 1), ('Graz', 2) AS t (name, n);\n"
            "USE default;\n"
            "SELECT name FROM cities ORDER BY n DESC",
        )
        states = page.locator("#runs .state")
        expect(states).to_have_text(3 * [re.compile("success")], timeout=120_000)
        rows = page.get_by_role("region", name="Rows").locator("td")
        expect(rows).to_have_text(["Graz", "Bern"])

        run_sql(page, SLOW)
        expect(states.last).to_have_text("running", timeout=60_000)
        page.locator("#stop").click()
        expect(states.last).to_have_text("cancelled", timeout=60_000)

        page.get_by_role("link", name="Statements", exact=True).click()
        page.get_by_role("link", name="yesterday").click()
        expect(rows.nth(1)).to_have_text("1900")
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV", exact=True).click()
        assert download.value.path().read_text().splitlines()[1] == "yesterday,1900"
        assert reports == []


def test_every_page_of_a_real_run_has_its_picture(
    chromium: Chromium, node: NodeProcess, tmp_path: Path
) -> None:
    images = find_images(tmp_path)
    examples = tmp_path / "examples"
    shutil.copytree(ROOT / "examples" / "ticks", examples)
    subprocess.run(
        [sys.executable, "-m", "headrace.cli", "deploy", str(examples), "--yes"],
        env=node.client_environment,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=240,
    )
    session = node.session(name="flights", parallelism=1)
    planes = node.run(
        "CREATE TABLE planes AS SELECT id AS plane, concat('N', 10000 + id * 37) AS tail,"
        " 1980 + id % 40 AS built FROM range(2000)",
        session=session,
    )["id"]
    good = node.run(
        "SELECT built, count(*) AS planes, min(tail) AS first, CAST(NULL AS STRING) AS note\n"
        "FROM planes\nGROUP BY built\nORDER BY built DESC",
        session=session,
    )["id"]
    bad = node.submit("SELECT built,\n       biult + 1\nFROM planes", session=session)["id"]
    node.statement(bad, wait_timeout="60s")
    listing = node.run("LIST TABLES")["id"]
    running, waiting = (node.submit(SLOW, session=session)["id"] for _time in range(2))
    wait_until(lambda: node.statement(running)["state"] == "running", seconds=60, what="it runs")

    def find_stream() -> str | None:
        streams = node.http.get("/api/v1/streams").json()["items"]
        busy = [each for each in streams if each["last_batch"] and each["last_batch"] > 5]
        return busy[0]["id"] if busy else None

    stream = wait_until(find_stream, seconds=120, what="a stream has batches")
    links = {
        "statements": "statements",
        "statement-success": f"statements/{good}",
        "statement-failed": f"statements/{bad}",
        "statement-running": f"statements/{running}",
        "statement-waiting": f"statements/{waiting}",
        "editor": f"editor?run={planes}&run={good}",
        "sessions": "sessions",
        "session": f"sessions/{session}",
        "streams": "streams",
        "stream": f"streams/{stream}",
        "catalog": f"catalog?listing={listing}",
        "views": "views",
        "jobs": "jobs",
        "job": "jobs/tick-counts",
        "nodes": "nodes",
    }
    take_pictures(chromium, node, links, images)
    for statement in (running, waiting):
        node.http.post(f"/api/v1/statements/{statement}/cancel", json={})
        node.statement(statement, wait_timeout="60s")


def test_every_page_of_batch_jobs_and_webhooks_has_its_picture(
    chromium: Chromium, node: NodeProcess, tmp_path: Path
) -> None:
    webhook = {
        "name": "on-call",
        "url": "https://hooks.headrace.invalid/alerts",
        "secret": "${secret:hook}",
        "events": ["run.failed", "expectation.violated"],
    }
    assert node.http.post("/api/v1/webhooks", json=webhook).status_code == 201
    (tmp_path / "daily-flights.yaml").write_text(DAILY)
    subprocess.run(
        [sys.executable, "-m", "headrace.cli", "deploy", str(tmp_path), "--yes"],
        env=node.client_environment,
        stdin=subprocess.DEVNULL,
        check=True,
        timeout=240,
    )
    days = {"from": "2026-03-27T00:00:00Z", "to": "2026-04-01T00:00:00Z"}
    started = node.http.post("/api/v1/jobs/daily-flights/backfills", json=days).json()

    def list_ended() -> dict[str, str]:
        runs = node.http.get("/api/v1/runs").json()["items"]
        return {run["state"]: run["id"] for run in runs if run["ended_at"] is not None}

    wait_until(lambda: {"succeeded", "failed"} <= {*list_ended()}, seconds=120, what="runs end")
    deliveries = "/api/v1/webhooks/on-call/deliveries"
    wait_until(lambda: node.http.get(deliveries).json()["items"], what="a run has failed")
    ended = list_ended()
    links = {
        "batch-job": "jobs/daily-flights",
        "runs": "runs",
        "run-succeeded": f"runs/{ended['succeeded']}",
        "run-failed": f"runs/{ended['failed']}",
        "backfill": f"backfills/{started['id']}",
        "webhooks": "webhooks",
        "webhook": "webhooks/on-call",
    }
    take_pictures(chromium, node, links, find_images(tmp_path))


def find_images(folder: Path) -> Path:
    """Return the folder of the pictures of the docs if they are recorded, or another one."""
    return IMAGES if os.environ.get("RECORD_IMAGES") else folder


def take_pictures(
    chromium: Chromium, node: NodeProcess, links: dict[str, str], images: Path
) -> None:
    """Take pictures of the sign-in and of linked pages, in each size and colour scheme."""
    for width, scheme in VIEWS:
        with chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        ) as context:
            page = context.new_page()
            page.goto(f"{node.address}/ui/")
            take_picture(page, images / f"sign-in-{width}-{scheme}.jpg")
            sign_in(page, node)
            for name, link in links.items():
                page.goto(f"{node.address}/ui/{link}")
                if name == "editor":
                    expect(page.locator(".grid td").first).to_be_visible()
                if name == "stream":
                    expect(page.locator(".uplot canvas").first).to_be_visible()
                take_picture(page, images / f"{name}-{width}-{scheme}.jpg")


def take_picture(page: Page, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    page.screenshot(path=file, type="jpeg", quality=60)
    assert file.stat().st_size > 5_000
