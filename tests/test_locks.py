"""requirements/*.lock follow pyproject.toml: run `make lock` where these fail."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = ["server", "postgres", "spark"]
SETS = {
    "demo": (RUN, ["build", "demo"]),
    "test": ([*RUN, "emr"], ["build", "demo", "dev"]),
    "bench": ([*RUN, "emr"], ["build", "demo", "dev", "bench"]),
    "java": (["java"], []),
    "ldap": (["ldap"], []),
}
JARS = sorted((ROOT / "requirements").glob("*.jars"))
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))


def locked_versions(name: str) -> dict[str, Version]:
    """Return the version that a lock pins for this platform, by package."""
    pins = re.findall(
        r"^([\w.-]+)==(\S+)(?: ; (.*?))? \\$",
        (ROOT / "requirements" / f"{name}.lock").read_text(),
        re.MULTILINE,
    )
    return {
        canonicalize_name(package): Version(version)
        for package, version, marker in pins
        if not marker or Marker(marker).evaluate()
    }


def requirements(extras: list[str], groups: list[str]) -> list[Requirement]:
    project = PROJECT["project"]
    texts = [*project["dependencies"]]
    for extra in extras:
        texts += project["optional-dependencies"][extra]
    for group in groups:
        texts += [entry for entry in PROJECT["dependency-groups"][group] if isinstance(entry, str)]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("name", SETS)
def test_a_lock_pins_every_requirement_of_pyproject(name: str) -> None:
    versions = locked_versions(name)

    for requirement in requirements(*SETS[name]):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not in {name}.lock: run `make lock`"
        assert version in requirement.specifier, f"{requirement}, locked at {version}: `make lock`"


@pytest.mark.parametrize(("small", "large"), [("demo", "test"), ("test", "bench")])
def test_each_lock_contains_the_smaller_one(small: str, large: str) -> None:
    assert locked_versions(small).items() <= locked_versions(large).items()


@pytest.mark.parametrize("file", LOCKS, ids=lambda file: file.stem)
def test_a_lock_names_no_host_and_has_a_hash_for_every_package(file: Path) -> None:
    text = file.read_text()

    assert "://" not in text
    pins = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]
    assert pins
    assert [pin for pin in pins if "--hash=sha256:" not in pin] == []


@pytest.mark.parametrize("file", JARS, ids=lambda file: file.stem)
def test_a_list_of_jars_names_each_by_version_and_checksum(file: Path) -> None:
    lines = file.read_text().splitlines()[1:]

    assert lines
    for line in lines:
        assert re.fullmatch(r"[\w.-]+:[\w.-]+:jar:[\w.:-]+ sha256:[0-9a-f]{64}", line)
