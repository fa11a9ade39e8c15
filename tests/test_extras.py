"""The names of the packages of extras are those of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from headrace.errors import PackagesMissing
from headrace.extras import EXTRAS, find_missing, install_command, require_extra

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
_NAME = re.compile(r"[\w.-]+")


def package_name(requirement: str) -> str:
    """Return the name of the module that a requirement installs: `sse-starlette>=3`."""
    match = _NAME.match(requirement)
    assert match is not None
    return match[0].replace("-", "_")


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
    assert caught.value.hint == install_command("spark") == "pip install 'headrace[spark]'"
