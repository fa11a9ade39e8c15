"""`headrace init`: a project of files that no command has to change, and that overwrites none."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.cli.conftest import RunHeadrace

from headrace.cli import deploy
from headrace.cli.init import write_project
from headrace.config.settings import Settings
from headrace.control.jobs.drafts import PlanRequest, SourceText, read_drafts

FILES = [
    ".github/workflows/headrace.yml",
    "README.md",
    "definitions.sql",
    "job-template.yaml",
    "jobs/even-ticks.yaml",
    "jobs/load-orders.yaml",
    "jobs/report-revenue.yaml",
    "jobs/tick-log.yaml",
]


def _list(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_the_manifests_are_valid_and_of_each_kind(tmp_path: Path) -> None:
    assert write_project(tmp_path / "new" / "project") == FILES
    folder = tmp_path / "new" / "project"
    files = deploy.read_files([str(folder)], template=None, definitions=[])
    drafts, notes = read_drafts(
        PlanRequest(
            manifests=[SourceText(**file) for file in files["manifests"]],
            template=SourceText(**files["template"]),
            definitions=[SourceText(**file) for file in files["definitions"]],
        ),
        Settings(),
    )

    kinds = {
        draft.name: (
            draft.spec.batch is not None,
            {"sql", "code", "script"} & set(draft.spec.written),
        )
        for draft in drafts
    }
    assert kinds == {
        "even-ticks": (False, {"code"}),
        "load-orders": (True, {"sql"}),
        "report-revenue": (True, {"script"}),
        "tick-log": (False, {"sql"}),
    }
    assert (notes, [draft.notes for draft in drafts if draft.notes]) == ([], [])


def test_the_workflow_plans_a_pull_request_and_deploys_main(tmp_path: Path) -> None:
    write_project(tmp_path)
    workflow = YAML(typ="safe").load((tmp_path / FILES[0]).read_text())

    assert set(workflow["on"]) == {"pull_request", "push"}
    assert workflow["on"]["push"] == {"branches": ["main"]}
    steps = {
        step["if"]: step["run"] for step in workflow["jobs"]["deploy"]["steps"] if "if" in step
    }
    assert steps == {
        "github.event_name == 'pull_request'": "headrace deploy . --plan --refuse-breaking",
        "github.event_name == 'push'": "headrace deploy . --yes",
    }


def test_a_folder_gets_what_it_lacks_and_nothing_twice(
    headrace: RunHeadrace, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n")
    first = headrace("init", "project")
    assert (first.returncode, "8 files written" in first.stderr) == (0, True), first.stderr
    (folder / "README.md").unlink()
    again = headrace("init", "project")

    assert "1 file written. Next: headrace deploy project --plan" in again.stderr
    assert _list(folder) == sorted([*FILES, ".git/config"])


@pytest.mark.parametrize("name", ["notes.txt", "README.md", "jobs/own.yaml"])
def test_a_folder_with_other_files_is_refused_and_stays(
    headrace: RunHeadrace, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "project" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    refused = headrace("init", "project")

    assert refused.returncode == 2
    assert f"project is not empty: it has {name}." in refused.stderr
    assert (_list(tmp_path / "project"), file.read_text()) == ([name], "mine")


def test_a_file_in_place_of_the_folder_is_refused(headrace: RunHeadrace, tmp_path: Path) -> None:
    (tmp_path / "project").write_text("mine")
    refused = headrace("init", "project")

    assert refused.returncode == 2
    assert "project cannot be written: Not a directory." in refused.stderr
    assert (tmp_path / "project").read_text() == "mine"
