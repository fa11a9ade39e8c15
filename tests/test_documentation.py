"""The documentation names only files, settings and codes that exist, and what the code does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import click
import pytest

from headrace.cli.main import headrace
from headrace.cli.support.options import parse_pairs
from headrace.cli.support.session_option import SessionOption
from headrace.driver.ctas.catalogs import load_implementations
from headrace.driver.spark_version import written_rows
from headrace.model.lifecycle import StreamAction, StreamState
from headrace.model.statement import WaitCode
from headrace.model.stream_query import Answer, EndReason, StreamQuery, Wanted, answer_action

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


def test_the_pages_that_the_code_names_exist() -> None:
    sources = sorted((ROOT / "src").rglob("*.py"))
    names = {
        (str(file), name)
        for file in sources
        for name in re.findall(r"(?<![\w./])docs/[\w./-]+\.md", file.read_text())
    }

    assert [(file, name) for file, name in sorted(names) if not (ROOT / name).exists()] == []


def section(page: str, heading: str) -> str:
    """Return the text below a heading of a page, up to the next heading of its level."""
    level = heading.partition(" ")[0]
    text = (ROOT / page).read_text()
    return re.split(rf"^{level} ", text[text.index(f"\n{heading}\n") + 1 :], flags=re.MULTILINE)[1]


def first_column(text: str) -> list[str]:
    """Return the names in code spans of the first column of the tables of a text."""
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_guide_lists_every_reason_for_which_a_statement_waits() -> None:
    table = section("docs/guides/sessions.md", "## Why a statement waits")

    assert [name for name in first_column(table) if name != "code"] == list(WaitCode)


def test_the_page_of_lifecycles_lists_every_end_of_a_streaming_query() -> None:
    table = section("docs/explanation/lifecycles.md", "## Stream")

    assert set(EndReason) <= set(first_column(table))


STOPPING_QUERIES = {
    " for a stop": (Wanted.STOPPED, EndReason.STOPPED),
    " for a pause": (Wanted.PAUSED, None),
    ", a pause that was taken back": (Wanted.RUNNING, None),
    " for a restart": (Wanted.RESTARTED, EndReason.RESTARTED),
    " because its session, job or view ends": (Wanted.STOPPED, EndReason.SESSION_CLOSED),
}
"""Rows of the table of actions on a query that is `stopping`."""


def test_the_table_of_actions_on_streaming_queries_is_true() -> None:
    guide = section("docs/guides/streams.md", "## Watch and control a query")
    rows = re.findall(r"^\| (`[a-z_]+`.*?) \| (.*?) \| (.*?) \|$", guide, re.MULTILINE)
    described = set()
    for states, acting, in_force in rows:
        names, _, situation = states.rpartition("`")
        for state in re.findall(r"\w+", names):
            wanted, reason = STOPPING_QUERIES.get(situation, (Wanted.RUNNING, None))
            query = cast(
                "StreamQuery",
                SimpleNamespace(state=StreamState(state), wanted=wanted, end_reason=reason),
            )
            answers = {action: answer_action(query, action) for action in StreamAction}
            for cell, answer in ((acting, Answer.ACTS), (in_force, Answer.IN_FORCE)):
                shown = set(re.findall(r"`(\w+)`", cell))
                assert shown == {a for a in answers if answers[a] is answer}, states
            described.add((state, situation))

    assert {state for state, _ in described} == set(StreamState)
    assert {situation for _, situation in described} == {"", *STOPPING_QUERIES}


STATEMENTS_ALONE = {
    "LoadData": "LOAD DATA",
    "InsertIntoDir": "of a directory",
    "TruncateTable": "TRUNCATE TABLE",
    "TruncatePartition": "TRUNCATE TABLE",
    "AddPartitions": "ALTER TABLE … ADD PARTITION",
    "DropPartitions": "ALTER TABLE … DROP PARTITION",
    "RenamePartitions": "ALTER TABLE … PARTITION … RENAME TO PARTITION",
    "SetTableLocation": "ALTER TABLE … SET LOCATION",
    "DropTable": "DROP TABLE",
    "RenameTable": "ALTER TABLE … RENAME",
}
ATOMIC_STATEMENTS = {
    "InsertIntoStatement": "INSERT",
    "LoadData": "LOAD DATA",
    "DeleteFromTable": "DELETE",
    "UpdateTable": "UPDATE",
    "MergeIntoTable": "MERGE",
}
ATOMIC_CATALOGS = {
    "IcebergCatalog": "Iceberg",
    "DeltaCatalog": "Delta",
    "JdbcCatalog": "PostgreSQL",
}


def test_the_guide_names_every_statement_that_has_a_table_to_itself() -> None:
    guide = (ROOT / "docs/guides/concurrent-writes.md").read_text()

    assert set(written_rows._EXCLUSIVE) == set(STATEMENTS_ALONE)
    assert [words for words in STATEMENTS_ALONE.values() if words not in guide] == []


def test_the_guide_names_every_atomic_statement_and_catalog() -> None:
    table = section("docs/guides/atomic-tables.md", "## Change rows atomically")
    catalogs = {implementation.__name__ for implementation in load_implementations().values()}

    assert set(written_rows._DML) == set(ATOMIC_STATEMENTS)
    assert catalogs == set(ATOMIC_CATALOGS)
    names = [*ATOMIC_STATEMENTS.values(), *ATOMIC_CATALOGS.values()]
    assert [name for name in names if name not in table] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_says_that_an_insert_is_not_atomic_as_a_rule(page: Path) -> None:
    """The rule has exceptions, which only the guide to atomic tables lists."""
    denied = re.compile(r"An? `?INSERT`?[^.|]*(is not|never) (atomic|repeated)")

    assert denied.findall(page.read_text()) == []


def test_the_codes_of_troubleshooting_exist_with_the_status_that_the_page_gives() -> None:
    guide = (ROOT / "docs/guides/troubleshooting.md").read_text()
    reference = (ROOT / "docs/reference/errors.md").read_text()
    codes = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", reference, re.MULTILINE))
    other_codes = re.findall(r"`(\w+)`", section("docs/reference/errors.md", "## Other codes"))
    named = re.findall(r"`([a-z]+_[a-z_]+)`(?: \((\d{3})\))?", "\n".join(first_cells(guide)))

    assert named
    assert [code for code, _ in named if code not in {*codes, *other_codes}] == []
    assert [code for code, status in named if status and codes[code] != status] == []


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)


_REFERENCE = (ROOT / "docs/reference/settings.md").read_text()
_KEYS = set(re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", _REFERENCE, re.MULTILINE))
_DEFAULTS = dict(
    re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \| [^|]+ \| `([^|`]+)` \|", _REFERENCE, re.MULTILINE)
)
_PYTHON_MODULES = {"http.client"}
_UNITS = {
    **dict.fromkeys(("s", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    "KiB": 2**10,
    "MiB": 2**20,
    "": 1,
}


def amount(text: str) -> int:
    """Return a duration in seconds, a size in bytes, or a number: `5 s`, `256 MiB`, `10,000`."""
    number, unit = re.fullmatch(r"([\d,]+) ?(\w*)", text).groups()  # type: ignore[union-attr]
    return int(number.replace(",", "")) * _UNITS[unit]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_on_a_page_exist(page: Path) -> None:
    sections = "|".join(sorted({key.partition(".")[0] for key in _KEYS}))
    if page.name == "CHANGELOG.md":
        pytest.skip("it names settings of earlier versions")
    named = re.findall(rf"`((?:{sections})\.[a-z_]+)`", page.read_text())

    files = re.compile(r".*\.(toml|ya?ml|json|md|py|log|db|lock)")
    known = _KEYS | _PYTHON_MODULES
    assert [key for key in named if key not in known and not files.fullmatch(key)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_defaults_of_settings_on_a_page_are_true(page: Path) -> None:
    """A page writes a default after the name of the setting: `lease.renew` (5 s)."""
    if page.name == "CHANGELOG.md":
        pytest.skip("it names settings of earlier versions")
    written = re.findall(r"`([a-z_]+\.[a-z_]+)` \(([\d,]+(?: \w+)?)\)", page.read_text())

    wrong = [
        (key, text, _DEFAULTS[key])
        for key, text in written
        if amount(text) != amount(_DEFAULTS[key])
    ]
    assert wrong == []


def test_the_terminal_of_the_readme_is_a_part_of_the_recording() -> None:
    readme = (ROOT / "README.md").read_text()
    recording = (ROOT / "docs/tutorial/recording.txt").read_text()
    terminal = readme.split("```text\n")[1].partition("```")[0]

    assert terminal.startswith("$ ")
    assert terminal in recording


def shell_commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command `headrace …` in the examples of a page."""
    for block in re.findall(
        r"^```(?:sh|bash)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE
    ):
        for words in split_commands(block):
            if words[0] == "headrace" and words[1] != "--version":
                yield words[1:]


def split_commands(block: str) -> Iterator[list[str]]:
    """Yield the words of each command of a shell script. Comments and redirections are left out.

    The commands of `$(…)` count as commands of their own.
    """
    script = re.sub(r"(^|\s)#.*", "", block).replace("$(", "\n")
    lexer = shlex.shlex(script, posix=True, punctuation_chars="\n();<>|&")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    words: list[str] = []
    redirects = False
    for token in [*lexer, "\n"]:
        if set(token) <= set("\n();|&"):
            if words:
                yield words
            words, redirects = [], False
        elif set(token) <= set("<>"):
            redirects = True
        elif not redirects:
            words.append(token)


def find_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words such as `session new` select, and the following words."""
    command: click.Command | None = headrace
    while isinstance(command, click.Group):
        _, command, words = command.resolve_command(click.Context(command), words)
    assert command is not None
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_program_accepts_the_commands_of_a_page(page: Path) -> None:
    for command, words in map(find_command, shell_commands(page)):
        given = command.make_context(command.name, words).params
        if "create" in given:
            conf = parse_pairs(given["conf"], "--conf")
            SessionOption(
                given["session"], create=given["create"], profile=given["profile"], conf=conf
            )


def test_the_make_targets_on_a_page_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (str(page.relative_to(ROOT)), target)
        for page in PAGES
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }

    assert [(page, target) for page, target in sorted(named) if target not in targets] == []
