"""The first rows of a stored result, while its query runs.

The driver lists the parts of finished tasks in files `finished-000000.json`, `finished-000001.json`
and so on. When the query has ended, the reader compares the batches that it has read with the
manifest, and reads the remaining ones. Only the manifest says which parts belong to the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa

from headrace.errors import InvalidResult, ResultGone
from headrace.files import locations
from headrace.files.places import join
from headrace.model.result import FinishedParts
from headrace.results.manifest import read_listing
from headrace.results.reader import BatchReference, StoredRows, list_batches, read_batches
from headrace.results.schema import Schema, parse_schema

_MAX_BYTES = 8 << 20
_MAX_BATCHES = 1_000_000


def write_finished_parts(location: str, number: int, finished: FinishedParts) -> None:
    """Write one file of finished parts. Raises the file system's own errors."""
    # As for the manifest: names may contain lone surrogates.
    content = json.dumps(finished.model_dump(mode="python")).encode()
    # A private file appears with its whole content.
    locations.write(join(location, _file_name(number)), content, private=True)


class EarlyRows:
    """Reads the finished parts of a result in the order of their rows. Not thread-safe."""

    def __init__(self, location: str) -> None:
        """Create a reader; nothing is read.

        Args:
            location: Location of one attempt of a statement. The node has computed it.
        """
        self.location = location
        self._schema: Schema | None = None
        self._listed: list[BatchReference] = []
        self._read_count = 0
        self._files = 0

    @property
    def schema(self) -> Schema:
        """The columns, parsed from Spark's schema, once a part is listed."""
        assert self._schema is not None
        return self._schema

    @property
    def has_parts(self) -> bool:
        """Whether there are rows that `find_parts` has found and that were not read yet."""
        return self._read_count < len(self._listed)

    @property
    def has_read(self) -> bool:
        """Whether rows were read."""
        return self._read_count > 0

    @property
    def row_count(self) -> int:
        """Number of rows that were read."""
        return sum(reference.rows for reference in self._listed[: self._read_count])

    def find_parts(self) -> bool:
        """Return whether there are rows that were not read yet.

        Raises InvalidResult and ResultsUnavailable.
        """
        while not self.has_parts:
            finished = self._read_file(self._files)
            if finished is None:
                return False
            self._files += 1
            self._add(finished)
        return True

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the listed batches that were not read yet. Raises the errors of `Rows.chunk`."""
        references = self._listed[self._read_count :]
        for batch in read_batches(self.location, self.schema, references):
            self._read_count += 1
            yield batch

    def remaining(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the whole result that were not read yet, from its manifest.

        Raises InvalidResult if the result does not begin with the batches that were read, and the
        errors of `Rows.chunk`.
        """
        rows = StoredRows(self.schema, self.location)
        references = rows.references
        if references[: self._read_count] != self._listed[: self._read_count]:
            raise InvalidResult("The result does not begin with the parts that were listed first.")
        self._listed = references
        yield from self.batches()

    def _add(self, finished: FinishedParts) -> None:
        schema = parse_schema(finished.spark_schema)
        if self._schema is not None and schema != self._schema:
            raise InvalidResult("The finished parts have different schemas.")
        self._schema = schema
        self._listed += list_batches(finished.parts)
        if len(self._listed) > _MAX_BATCHES:
            raise InvalidResult("The result has too many parts.")

    def _read_file(self, number: int) -> FinishedParts | None:
        """Return the content of a file, or None if the driver has not written it yet."""
        try:
            return read_listing(
                self.location, _file_name(number), FinishedParts, max_bytes=_MAX_BYTES
            )
        except ResultGone:
            return None


def _file_name(number: int) -> str:
    return f"finished-{number:06d}.json"
