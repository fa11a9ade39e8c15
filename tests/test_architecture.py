"""The rules of the architecture that can be measured: packages, imports, names, docstrings."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "headrace"
SOURCES = sorted(PACKAGE.rglob("*.py"))

PACKAGES = {
    "cli",
    "cli.load",
    "cli.output",
    "cli.shell",
    "cli.support",
    "client",
    "config",
    "control",
    "control.driver_link",
    "control.host",
    "control.identity",
    "control.jobs",
    "control.outbox",
    "control.runs",
    "control.launchers",
    "control.sessions",
    "control.statements",
    "control.streams",
    "control.views",
    "deploy",
    "driver",
    "driver.ctas",
    "driver.jobs",
    "driver.output",
    "driver.spark_version",
    "driver.streams",
    "driver.views",
    "driver.writes",
    "errors",
    "files",
    "frontends",
    "frontends.http",
    "frontends.flight_sql",
    "frontends.hiveserver2",
    "frontends.livy",
    "frontends.web",
    "frontends.opensearch",
    "frontends.rest",
    "frontends.rest.routes",
    "grammar",
    "model",
    "results",
    "results.formats",
    "store",
    "store.identity",
    "store.jobs",
    "store.sessions",
    "store.statements",
    "store.streams",
    "text",
}
# Words of the former dialect of this code, with their replacements in house.md.
FORMER_WORDS = re.compile(
    r"\b(told|untold|mend|spares?|nobody|somebody|condemn|bury|retake|thaw)\b", re.IGNORECASE
)
FORMER_NAMES = {
    *("overtime", "duties", "duty", "holding", "Postmark", "stuck", "Locals", "metastore_keeper"),
    *("parcel", "Parcel", "travelling", "Baggage", "one_use", "pieces", "spread", "gather"),
    *("course", "Course", "ctas_hook", "published_table", "thaw", "bring_back"),
    *("Taken", "Given", "Speakers", "chosen_session", "Complaints", "condemn", "condemned"),
    *("bury", "retake", "in_vain", "last_exception", "untold", "spares", "landed", "in_hand"),
    *("TableWriteTurns", "WriteTurn", "wait_for_turn"),
    *("ClearLeftovers", "Leftovers", "LeftoverWrite", "clear_leftovers"),
}

# First words of a function's docstring that are no verb in the imperative.
NOT_A_VERB = {
    *("The", "A", "An", "This", "These", "Those", "That", "It", "Its", "One", "Whether", "What"),
    *("Where", "How", "Who", "Which", "Whose", "When", "While", "As", "All", "Every", "Each"),
    *("Nothing", "Everything", "None", "No", "Not", "Only", "Also", "Some", "In", "On", "For"),
}


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_packages_are_those_of_the_architecture() -> None:
    packages = {
        ".".join(file.parent.relative_to(PACKAGE).parts)
        for file in SOURCES
        if file.name == "__init__.py" and file.parent != PACKAGE
    }
    modules = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}

    assert packages == PACKAGES
    assert modules == set()


_SPARK_INTERNALS = {
    *("_jvm", "_jsparkSession", "_jsc", "_jdf", "_jsq", "_jc", "_jrdd", "_gateway"),
    *("Py4JBridge", "compile_java", "plan_class_name", "java_gateway"),
}
"""Private members of PySpark, and the room's own access to the JVM."""
_JAVA_CLASS = re.compile(r"\b(org\.apache|scala|io\.delta)\.|\bjava\.[a-z]+\.[A-Z]")


def test_one_package_of_the_driver_depends_on_the_version_of_spark() -> None:
    outside = [
        file for file in SOURCES if "driver" in file.parts and "spark_version" not in file.parts
    ]
    named = [
        f"{_path(file)}: {name}"
        for file in outside
        for name in _names(ast.parse(file.read_text()))
        if name in _SPARK_INTERNALS or _JAVA_CLASS.search(name)
    ]

    assert outside
    assert named == []


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names and texts of a module, without its docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (part for name in node.names for part in name.name.split("."))
            yield from (getattr(node, "module", None) or "").split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_architecture_md_lists_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    tree = page[page.index("## Packages") : page.index("## Allowed imports")]
    missing = [
        name
        for name in sorted(PACKAGES)
        if not re.search(rf"\b{re.escape(name.rpartition('.')[2])}(/|\.py)", tree)
    ]

    assert missing == []


def test_the_tree_of_architecture_md_names_existing_modules_only() -> None:
    assert sorted(_modules_of_the_tree() - {_path(file) for file in SOURCES}) == []


def test_the_tree_of_architecture_md_names_every_module_of_nodes_and_drivers() -> None:
    """A module of `model` or `cli` has a name that says what it holds."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    missing = [
        _path(file)
        for file in SOURCES
        if _path(file.parent)
        in {"frontends", "config", "control", "driver", "errors", "files", "text"}
        and not file.stem.startswith("__")
        and f" {file.name} " not in page
        and f"`{file.name}`" not in page
    ]

    assert missing == []


def _modules_of_the_tree() -> set[str]:
    """Return the paths of the modules that the tree of ARCHITECTURE.md names."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    tree = page[page.index("src/headrace/\n") : page.index("Outside `src/`")]
    modules, folders = set(), [""]
    for margin, name in re.findall(r"^([│ ]*[├└]── )([\w.]+/?)", tree, re.MULTILINE):
        folders = folders[: len(margin) // 4]
        if name.endswith("/"):
            folders.append(f"{folders[-1]}{name}")
        elif name.endswith(".py"):
            modules.add(f"{folders[-1]}{name}")
    return modules


def _path(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def test_imports_follow_the_contracts() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr


def test_no_package_has_an_import_cycle() -> None:
    imports = {_module_name(file): _imported_modules(file) for file in SOURCES}
    graph = TopologicalSorter(
        {module: targets & set(imports) for module, targets in imports.items()}
    )

    graph.prepare()  # raises CycleError


def test_no_module_is_a_collection_of_utilities() -> None:
    assert [file for file in SOURCES if file.stem in {"utils", "util", "helpers", "common"}] == []


NAMES_OF_PEP_249 = {("Connection", "client/dbapi.py"), ("Cursor", "client/dbapi.py")}


def test_a_class_name_names_one_class() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                place = str(file.relative_to(PACKAGE))
                if (node.name, place) not in NAMES_OF_PEP_249:
                    places[node.name].append(place)

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{function.lineno} {function.name}: {docstring.splitlines()[0]}"
        for file in SOURCES
        for function in functions(file)
        if (docstring := ast.get_docstring(function)) and not _is_property(function)
        if docstring.split()[0].strip(".,:;") in NOT_A_VERB
    ]

    assert wrong == []


def test_no_word_of_the_former_dialect_is_left() -> None:
    files = [
        *SOURCES,
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    ]
    hits = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if FORMER_WORDS.search(line)
    ]

    assert hits == []


def test_no_former_name_is_left() -> None:
    hits = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in SOURCES
        for name in sorted(_identifiers(file) & FORMER_NAMES)
    ]

    assert hits == []


def _module_name(file: Path) -> str:
    parts = ["headrace", *file.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _module_names() -> frozenset[str]:
    return frozenset(map(_module_name, SOURCES))


def _imported_modules(file: Path) -> set[str]:
    names = _module_names()
    targets = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                targets.add(target if target in names else node.module)
    return targets


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {getattr(item, "id", getattr(item, "attr", "")) for item in function.decorator_list}
    return not names.isdisjoint({"property", "cached_property", "setter"})


def _identifiers(file: Path) -> set[str]:
    names = {file.stem}
    for node in ast.walk(ast.parse(file.read_text())):
        for field in ("name", "id", "attr", "arg"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.add(value)
    return names
