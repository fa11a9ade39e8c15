"""Results written with Spark and read as a node reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.files import find_matching

from headrace.driver.output import OutputOptions, write_result
from headrace.model.result import Disposition, ResultInfo, ResultReport
from headrace.results.manifest import check_report
from headrace.results.reader import Rows, open_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Writer:
    """Writes each result to a folder of its own below one root, and reads it back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.location = ""
        """Location of the last result."""
        self._count = 0

    def make_options(self, **changes: Any) -> OutputOptions:
        """Return the default options with changes, and a new location."""
        self._count += 1
        defaults = {
            "disposition": Disposition.AUTO,
            "row_limit": None,
            "byte_limit": None,
            "location": str(self.root / f"result-{self._count}"),
            "inline_limit": 256 * 1024,
            "chunk_limit": 8 * 1024 * 1024,
        }
        options = OutputOptions(**{**defaults, **changes})
        self.location = options.location
        return options

    def write(self, frame: DataFrame, **changes: Any) -> tuple[ResultReport, Rows]:
        report = write_result(frame, self.make_options(**changes))
        return report, read_rows(report, self.location)

    def list_files(self) -> list[Path]:
        """Return all files below the root."""
        return [path for path in find_matching(self.root, "*") if path.is_file()]


def read_rows(report: ResultReport, location: str | None = None) -> Rows:
    """Return the rows as a node reads them: from the JSON of the report and the location."""
    received = ResultReport.model_validate_json(report.model_dump_json())
    received = check_report(received)
    described = received.model_dump(exclude={"data", "port"})
    info = ResultInfo(**described, location=location, expires_at=datetime.now(UTC))
    return open_rows(info, received.data)
