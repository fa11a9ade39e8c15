"""The driver's code as two files, for drivers on hosts without Headrace: `entry.py` and a zip.

The zip holds the installed package. Its folder is named after its content, so that nodes of
different versions can share a home.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.files.private_files import write_private

_ENTRY = """\
import sys

from headrace.driver.__main__ import main

sys.exit(main(sys.argv[1:]))
"""
_ZIP_TIMESTAMP = (1980, 1, 1, 0, 0, 0)
"""Time of all entries in the zip, so that equal packages give equal bytes."""


@dataclass(frozen=True, slots=True)
class DriverPackage:
    """Paths of the files that Spark copies to the host of the driver."""

    entry: Path
    """Python program that starts the driver."""
    package: Path
    """Zip of the package `headrace`."""


def build_driver_package(folder: Path) -> DriverPackage:
    """Write the files below a folder, unless they exist, and return their paths. Raises OSError."""
    content = _zip_installed_package()
    version_folder = folder / hashlib.sha256(content).hexdigest()[:16]
    files = DriverPackage(
        entry=version_folder / "entry.py", package=version_folder / "headrace.zip"
    )
    for file, file_content in ((files.entry, _ENTRY.encode()), (files.package, content)):
        if not file.exists():
            write_private(file, file_content)
    return files


@functools.cache
def _zip_installed_package() -> bytes:
    package = Path(headrace.__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted([*package.rglob("*.py"), *package.rglob("*.java")]):
            entry = zipfile.ZipInfo(file.relative_to(package.parent).as_posix(), _ZIP_TIMESTAMP)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
