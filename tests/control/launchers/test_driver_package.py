"""Tests of the zip with the driver's code."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from headrace.control.launchers.remote_artifacts import build_driver_package


def test_the_driver_can_be_imported_from_the_zip_alone(tmp_path: Path) -> None:
    driver_package = build_driver_package(tmp_path)
    zip_path = str(driver_package.package)
    program = f"import sys; sys.path.insert(0, {zip_path!r}); import headrace.driver"
    completed = subprocess.run(
        [sys.executable, "-I", "-c", f"{program}; print(headrace.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.startswith(zip_path)


def test_the_zip_holds_the_java_source_that_the_driver_compiles(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_driver_package(tmp_path).package) as package:
        source = package.read("headrace/driver/spark_version/SharedTableCommitProtocol.java")
    assert b"class SharedTableCommitProtocol" in source


def test_the_same_code_is_written_once(tmp_path: Path) -> None:
    driver_package = build_driver_package(tmp_path)
    written = driver_package.package.stat()
    assert build_driver_package(tmp_path) == driver_package
    assert driver_package.package.stat().st_ino == written.st_ino
