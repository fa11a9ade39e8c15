"""A driver owns the files of its results: whatever it writes there, reads are refused or safe."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.hostile.target import Target
from tests.support.made_results import Columns, stored_result

pytestmark = pytest.mark.finding("S4")

Forge = Callable[[Path, Path], object]
"""Changes the files of a stored result. The arguments are its directory and the bait."""


COLUMNS = [("n", "long"), ("s", "string")]
MANY_VOIDS = [("v", {"type": "array", "elementType": "void", "containsNull": True})]
PART = "part-00000.arrow"
_OFFSETS = struct.pack("<iii", 0, 1, 3)


def forge_manifest(**changes: Any) -> Forge:
    """Return a forgery that changes the manifest."""

    def forge(place: Path, _bait: Path) -> None:
        manifest = json.loads((place / "manifest.json").read_text())
        (place / "manifest.json").write_text(json.dumps({**manifest, **changes}))

    return forge


def forge_part(**changes: Any) -> Forge:
    """Return a forgery that changes how the manifest describes the part."""
    return forge_manifest(parts=[{"name": PART, "rows": [2], "bytes": [27], **changes}])


def replace_in_part(old: bytes, new: bytes) -> Forge:
    def forge(place: Path, _bait: Path) -> None:
        content = (place / PART).read_bytes()
        assert old in content
        (place / PART).write_bytes(content.replace(old, new))

    return forge


def replace_part(write: Callable[[Path], object]) -> Forge:
    return lambda place, _bait: write(place / PART)


def write_batch(batch: pa.RecordBatch, **options: Any) -> Forge:
    """Return a forgery whose part has this batch."""

    def write(path: Path) -> None:
        write_options = pa.ipc.IpcWriteOptions(**options)
        with pa.ipc.new_file(str(path), batch.schema, options=write_options) as file:
            file.write_batch(batch)

    return replace_part(write)


def link(name: str) -> Forge:
    """Return a forgery that replaces a file by a link to the file of another result."""

    def forge(place: Path, bait: Path) -> None:
        (place / name).unlink()
        (place / name).symlink_to(bait / "result" / name)

    return forge


def make_pipe(name: str) -> Forge:
    def forge(place: Path, _bait: Path) -> None:
        (place / name).unlink()
        os.mkfifo(place / name)

    return forge


def link_directory(place: Path, bait: Path) -> None:
    shutil.rmtree(place)
    place.symlink_to(bait / "result")


_SAME = pa.record_batch([pa.array([1, 2]), pa.array(["a", "bc"])], names=["_0", "_1"])
_OTHER = pa.record_batch([pa.array([1, 2]), pa.array([1, 2])], names=["_0", "_1"])
_VOIDS = pa.ListArray.from_arrays(pa.array([0, 2**25], pa.int32()), pa.nulls(2**25))

FORGED_CONTENT: dict[str, Forge] = {
    "absolute name": lambda place, bait: forge_part(name=f"{bait}/result/{PART}")(place, bait),
    "name of a parent": forge_part(name=f"../../bait/result/{PART}"),
    "rows above a bigint": forge_part(rows=[2**63]),
    "more rows than the batch": forge_part(rows=[2**62]),
    "one row more": forge_part(rows=[3]),
    "more batches": forge_part(rows=[1] * 9, bytes=[0] * 9),
    "another number of sizes": forge_part(bytes=[]),
    "chunk limit": forge_manifest(chunk_limit=-1),
    "no manifest": lambda place, _bait: (place / "manifest.json").write_text("[]"),
    "empty part": replace_part(lambda path: path.write_bytes(b"")),
    "no Arrow": replace_part(lambda path: path.write_bytes(b"\xff" * 4096)),
    "truncated": replace_part(lambda path: path.write_bytes(path.read_bytes()[:-40])),
    "offsets": replace_in_part(_OFFSETS, struct.pack("<iii", 0, 1, 2**30)),
    "offsets that fall": replace_in_part(_OFFSETS, struct.pack("<iii", 3, 1, 3)),
    "compressed": write_batch(_SAME, compression="zstd"),
    "another type": write_batch(_OTHER),
    "values without bytes": write_batch(pa.record_batch([_VOIDS], names=["_0"])),
}
FORGED_FILES: dict[str, Forge] = {
    "missing part": replace_part(Path.unlink),
    "link to a manifest": link("manifest.json"),
    "pipe for a manifest": make_pipe("manifest.json"),
    "link to a part": link(PART),
    "pipe for a part": make_pipe(PART),
    "link to a directory": link_directory,
}


def read_forged_result(
    target: Target, forge: Forge | None, columns: Columns, rows: list[list[Any]]
) -> set[int]:
    """Return the statuses of reads in all formats after a driver has forged a stored result.

    The driver owns the directory of its result and replaces its files.
    """
    target.top_up()
    session_id = target.attacker.bootstrap.session_id
    for statement_id in target.claimed:
        target.attacker._client.post(
            "/ended", json={"statement_id": statement_id, "state": "failed"}
        )
    target.submit(session=session_id)
    assignment = target.attacker.claim()
    statement_id, place = assignment.statement_id, Path(str(assignment.result_location))
    report = stored_result(place, columns, [rows], chunk_limit=1)
    if forge is not None:
        forge(place, target.bait)
    assert target.attacker.succeed(statement_id, report).applied
    path = f"/api/v1/statements/{statement_id}/result"
    formats = ("json", "arrow", "arrow_file", "csv", "parquet")
    return {target.http.get(path, params={"format": name}).status_code for name in formats}


ROWS = [[1, "a"], [2, "bc"]]


def test_a_stored_result_is_read_unless_its_files_are_forged(target: Target) -> None:
    assert read_forged_result(target, None, COLUMNS, ROWS) == {200}
    assert read_forged_result(target, None, MANY_VOIDS, [[[None]]]) == {200}


@pytest.mark.parametrize("name", FORGED_CONTENT)
def test_forged_content_of_a_result_is_refused(target: Target, name: str) -> None:
    columns, rows = (COLUMNS, ROWS) if "values" not in name else (MANY_VOIDS, [[[None]]])
    assert read_forged_result(target, FORGED_CONTENT[name], columns, rows) == {502}


@pytest.mark.parametrize("name", FORGED_FILES)
def test_forged_files_of_a_result_are_not_followed(target: Target, name: str) -> None:
    assert read_forged_result(target, FORGED_FILES[name], COLUMNS, ROWS) <= {410, 503}
