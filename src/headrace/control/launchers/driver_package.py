"""What travels with a driver that spark-submit starts: `entry.py` and a zip of this package.

Made of the installed package, once for each state of it, into a folder of the home.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import headrace
from headrace.private_files import write_private

_ENTRY = """\
import sys

from headrace.driver.__main__ import main

sys.exit(main(sys.argv[1:]))
"""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same package gives the same bytes."""


@dataclass(frozen=True, slots=True)
class DriverPackage:
    """Two files that Spark may copy to other hosts."""

    entry: Path
    package: Path


def build_driver_package(folder: Path) -> DriverPackage:
    """The parcel in a folder, made unless it is there. Raises OSError."""
    content = _package()
    place = folder / hashlib.sha256(content).hexdigest()[:16]
    parcel = DriverPackage(entry=place / "entry.py", package=place / "headrace.zip")
    for file, wanted in ((parcel.entry, _ENTRY.encode()), (parcel.package, content)):
        if not file.exists():
            write_private(file, wanted)
    return parcel


@functools.cache
def _package() -> bytes:
    package = Path(headrace.__file__).parent
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            name = file.relative_to(package.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
