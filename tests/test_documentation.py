"""The documentation names only files and headings that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_FOLDERS = ("benchmarks", "deploy", "docs", "examples", "requirements", "scripts", "src", "tests")


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def broken_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in headings(file)):
            yield target


def missing_files(page: Path) -> Iterator[str]:
    """Yield the paths in code spans that do not exist, such as `tests/conftest.py`."""
    for name in re.findall(rf"`((?:{'|'.join(_FOLDERS)})/[\w./-]*)`", page.read_text()):
        if not (ROOT / name).exists():
            yield name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_of_a_page_exist(page: Path) -> None:
    assert list(broken_links(page)) == []
    assert list(missing_files(page)) == []


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = (
        page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs")
    )

    assert [
        str(page) for page in pages if page.name != "README.md" and f"({page})" not in index
    ] == []


@pytest.mark.finding("U18")
@pytest.mark.parametrize(
    ("page", "commands"),
    [
        ("guides/install-and-run-as-a-service.md", ["pip install", "Dockerfile", "systemctl"]),
        ("guides/load-data.md", ["USING csv", "CREATE TABLE", "inferSchema"]),
        ("guides/troubleshooting.md", ["headrace doctor", "headrace session log"]),
        ("reference/http.md", ["/statements/{statement_id}/result", "wait_timeout"]),
        ("tutorial/first-hour.md", ["pip install", "headrace sql", "headrace shell"]),
    ],
)
def test_the_tasks_of_the_first_hour_have_a_page(page: str, commands: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert [command for command in commands if command not in text] == []


def test_the_map_of_the_code_lists_every_package() -> None:
    tree = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {file.parent for file in (ROOT / "src" / "headrace").rglob("__init__.py")}

    missing = [str(folder) for folder in packages if f"{folder.name}/" not in tree]
    assert missing == []


def test_the_pages_that_the_code_names_exist() -> None:
    sources = sorted((ROOT / "src").rglob("*.py"))
    names = {
        (str(file), name)
        for file in sources
        for name in re.findall(r"(?<![\w./])docs/[\w./-]+\.md", file.read_text())
    }

    assert [(file, name) for file, name in sorted(names) if not (ROOT / name).exists()] == []
