"""The names of the packages of extras are those of pyproject.toml."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.config.extras import EXTRAS, find_missing, install_command, require_extra
from headrace.errors import PackagesMissing

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
_NAME = re.compile(r"[\w.-]+")
_MODULES = {"grpcio": "grpc", "python_ldap": "ldap"}
"""Modules whose names are not those of their packages."""


def package_name(requirement: str) -> str:
    """Return the name of the module that a requirement installs: `sse-starlette>=3`."""
    match = _NAME.match(requirement)
    assert match is not None
    name = match[0].replace("-", "_")
    return _MODULES.get(name, name)


def test_the_extras_name_the_packages_of_the_project() -> None:
    declared = {
        extra: {package_name(requirement) for requirement in requirements}
        for extra, requirements in PROJECT["optional-dependencies"].items()
        if extra != "all"
    }

    assert {extra: set(modules) for extra, modules in EXTRAS.items()} == declared


def test_installed_packages_are_found_without_an_import() -> None:
    assert find_missing("server") == []
    require_extra("spark", "A driver")


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(EXTRAS, "spark", ("pyarrow", "no_such_package", "no_such.module"))
    with pytest.raises(PackagesMissing) as caught:
        require_extra("spark", "A driver")

    assert caught.value.message == (
        "A driver needs packages that are not installed: no_such_package, no_such.module."
    )
    assert caught.value.hint == install_command("spark")
    assert "[spark]" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "requirement"),
    [
        (None, "headrace[all]"),
        ("file://{folder}/h-1.whl", "{folder}/h-1.whl[all]"),
        ("file://{folder}/a%20b/h-1.whl", "{folder}/a b/h-1.whl[all]"),
        ("file://{folder}/gone/h-1.whl", "h-1.whl[all]"),
        ("file://{folder}", "{folder}[all]"),
        ("https://example/h-1.whl", "headrace[all] @ https://example/h-1.whl"),
    ],
)
def test_an_extra_is_installed_from_where_headrace_was_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str | None, requirement: str
) -> None:
    """An index may have no package of this name, or the package of another project."""
    (tmp_path / "h-1.whl").touch()
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "h-1.whl").touch()
    record = url and json.dumps({"url": url.format(folder=tmp_path)})
    installed = SimpleNamespace(read_text=lambda _name: record)
    monkeypatch.setattr(metadata, "distribution", lambda _name: installed)

    words = shlex.split(install_command("all"))

    assert words == ["pip", "install", requirement.format(folder=tmp_path)]


def test_no_message_names_the_package_of_an_index() -> None:
    sources = sorted((Path(__file__).parents[1] / "src").rglob("*.py"))

    assert [str(file) for file in sources if "pip install 'headrace" in file.read_text()] == []
