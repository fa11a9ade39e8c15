"""The manifest of a stored result: its parts, and what is known of the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from pydantic import ValidationError

from headrace.errors import HeadraceError, InvalidResult, ResultGone, ResultsUnavailable
from headrace.files import locations
from headrace.files.places import join
from headrace.model.result import Disposition, FinishedParts, Manifest, ResultReport
from headrace.results.arrow_messages import read_stream
from headrace.results.batches import batch_bytes
from headrace.results.layout import build_stored_schema
from headrace.results.schema import parse_schema

_MANIFEST_NAME = "manifest.json"
_MAX_MANIFEST_BYTES = 32 << 20
_MAX_LISTING_VALUES = 3_000_000

_Listing = TypeVar("_Listing", Manifest, FinishedParts)


def read_manifest(location: str) -> Manifest:
    """Return the manifest of a stored result. Raise the errors of `read_listing`."""
    return read_listing(location, _MANIFEST_NAME, Manifest, max_bytes=_MAX_MANIFEST_BYTES)


def read_listing(location: str, name: str, model: type[_Listing], *, max_bytes: int) -> _Listing:
    """Return the content of a file in which a driver lists parts.

    Raises ResultGone if there is no such file, ResultsUnavailable if it cannot be read, and
    InvalidResult if its content is not valid.
    """
    with (
        convert_read_errors(location, name),
        locations.open_driver_file(location, name) as file,
    ):
        content: bytes = file.read(max_bytes + 1)
    if len(content) > max_bytes or content.count(b",") > _MAX_LISTING_VALUES:
        raise InvalidResult(f"{name} in {location} is too large.")
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise InvalidResult(
            f"Cannot read {name} in {location}: its content is not valid."
        ) from error


def write_manifest(location: str, manifest: Manifest) -> None:
    """Write the manifest, the last file of a result. It makes the result readable.

    Raises the file system's own errors.
    """
    # Pydantic's JSON writer refuses lone surrogates, which Spark allows in names.
    content = json.dumps(manifest.model_dump(mode="python"))
    locations.write(join(location, _MANIFEST_NAME), content.encode())


@contextmanager
def convert_read_errors(location: str, name: str) -> Iterator[None]:
    """Raise ResultGone for a missing file, and ResultsUnavailable for other read errors.

    The message of an InvalidResult names the file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise ResultGone(
            f"The files of the result were deleted before their time: {location} has no {name}.",
            hint="Submit the statement again.",
        ) from error
    except InvalidResult as error:
        raise InvalidResult(f"Cannot read {name} in {location}: {error.message}") from error
    except HeadraceError:
        raise
    except Exception as error:
        raise ResultsUnavailable(f"Cannot read {name} in {location}: {error}") from error


def check_report(report: ResultReport) -> ResultReport:
    """Return a report whose schema and inline rows are valid, with the counts of these rows.

    The row count, byte count and chunks of other results remain the claim of the driver: its rows
    are checked when they are read, and `headrace.results.reader.Rows` has their counts.

    Raises InvalidResult.
    """
    try:
        schema = parse_schema(report.spark_schema)
        build_stored_schema(schema)
    except InvalidResult:
        raise
    except HeadraceError as error:
        raise InvalidResult(error.message) from error
    if report.disposition is Disposition.MEMORY and report.chunks > report.row_count:
        raise InvalidResult("The result has more chunks than rows.")
    if report.disposition is not Disposition.INLINE:
        return report
    assert report.data is not None
    row_count = byte_count = 0
    for batch in read_stream(report.data, schema):
        row_count += batch.num_rows
        byte_count += batch_bytes(batch)
    if row_count != report.row_count:
        raise InvalidResult(f"The result has {row_count} rows, not {report.row_count}.")
    return report.model_copy(update={"byte_count": byte_count, "chunks": 1})
