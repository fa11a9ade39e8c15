"""The scrape configuration, the alerts and the dashboard of `deploy/`, against a real node."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from tests.support.in_process_node import InProcessNode

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTS = PROMETHEUS / "headrace-alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "headrace.json"
GUIDE = ROOT / "docs" / "guides" / "monitoring.md"
TESTS = Path(__file__).with_name("headrace-alerts-tests.yml")
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"

_OF_PROMETHEUS = {"job", "instance", "le", "up"}
_METRIC = re.compile(r"\b(headrace_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


def alerts() -> list[dict[str, Any]]:
    return [rule for group in load(ALERTS)["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    """Yield the expressions of the alerts and of the dashboard."""
    for rule in alerts():
        yield rule["expr"]
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


@pytest.fixture
def labels(node: InProcessNode) -> dict[str, set[str]]:
    """Return the labels of each sample that a node returns, by the name of the sample.

    A metric without samples has those that the reference lists, which is generated from a node.
    """
    session_id, driver = node.start_session()
    node.submit(session=session_id)
    driver.succeed(driver.claim().statement_id)
    found: dict[str, set[str]] = {}
    documented = {
        name: set(re.findall(r"`([a-z]+)`", cell))
        for name, cell in re.findall(
            r"\| `([a-z_]+)` \| [a-z]+ \| ([^|]*) \|", REFERENCE.read_text()
        )
    }
    for family in text_string_to_metric_families(node.http.get("/metrics").text):
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
        for suffix in suffixes.get(family.type, [""]):
            found[family.name + suffix] = documented.get(
                family.name + suffix, documented.get(family.name, set())
            )
        for sample in family.samples:
            found[sample.name] = set(sample.labels)
    return found


def test_alerts_and_dashboard_use_metrics_and_labels_that_a_node_has(
    labels: dict[str, set[str]],
) -> None:
    for expression in expressions():
        used: set[str] = set()
        for name, matchers in _METRIC.findall(expression):
            assert name in labels, expression
            used |= labels[name]
            for label in re.findall(r"([a-z_]+)\s*[=!]", matchers or ""):
                assert label in labels[name] | _OF_PROMETHEUS, expression
        for grouping in _GROUPING.findall(expression):
            for label in grouping.split(","):
                assert label.strip() in used | _OF_PROMETHEUS, expression


def test_the_guide_says_what_to_do_about_each_alert() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))
    assert re.findall(r"^\| `(Headrace\w+)`", GUIDE.read_text(), re.MULTILINE) == names
    for rule in alerts():
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in {"critical", "warning"}
    tested = {test["alert_rule_test"][0]["alertname"] for test in load(TESTS)["tests"]}
    assert tested == set(names)


def test_panels_do_not_overlap() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _y in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def promtool(*arguments: str, folder: Path, text: str | None = None) -> str:
    """Run promtool in a folder; return its output. Fail the test if it is missing or complains."""
    program = shutil.which("promtool") or shutil.which(str(ROOT / ".tools" / "promtool"))
    if program is None:
        pytest.fail("promtool was not found. Run scripts/setup-prometheus.")
    run = subprocess.run(
        [program, *arguments],
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout + run.stderr


@pytest.mark.promtool
def test_promtool_accepts_the_configuration_with_its_alerts(tmp_path: Path) -> None:
    for file in PROMETHEUS.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "headrace-token").write_text("secret\n")
    assert f"{len(alerts())} rules found" in promtool(
        "check", "config", "prometheus.yml", folder=tmp_path
    )


@pytest.mark.promtool
def test_each_alert_fires_when_it_should_and_is_silent_otherwise(tmp_path: Path) -> None:
    rules = load(ALERTS)
    # promtool would compare the texts too.
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    YAML().dump(rules, tmp_path / ALERTS.name)
    shutil.copy(TESTS, tmp_path)
    promtool("test", "rules", TESTS.name, folder=tmp_path)


@pytest.mark.promtool
def test_promtool_accepts_the_metrics_of_a_node(node: InProcessNode, tmp_path: Path) -> None:
    metrics = node.http.get("/metrics").text
    assert promtool("check", "metrics", folder=tmp_path, text=metrics) == ""
