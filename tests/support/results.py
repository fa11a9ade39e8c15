"""Results written with Spark and read back as a node reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.driver.output import OutputOptions, write_result
from headrace.model.result import Disposition, ResultInfo, ResultReport
from headrace.results.reader import Rows, open_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Writer:
    """Writes results below one directory and reads them back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._count = 0

    def spec(self, **asked: Any) -> OutputOptions:
        self._count += 1
        settings = {
            "disposition": Disposition.AUTO,
            "row_limit": None,
            "byte_limit": None,
            "location": str(self.root / f"result-{self._count}"),
            "inline_limit": 256 * 1024,
            "chunk_limit": 8 * 1024 * 1024,
        }
        return OutputOptions(**{**settings, **asked})

    def write(self, frame: DataFrame, **asked: Any) -> tuple[ResultReport, Rows]:
        report = write_result(frame, self.spec(**asked))
        return report, rows_of(report)

    def left(self) -> list[Path]:
        """The files below the directory."""
        return [path for path in self.root.rglob("*") if path.is_file()]


def rows_of(report: ResultReport) -> Rows:
    """The rows as a node reads them, from what the report says and nothing else."""
    kept = ResultReport.model_validate_json(report.model_dump_json())
    info = ResultInfo(**kept.model_dump(exclude={"data"}), expires_at=datetime.now(UTC))
    return open_rows(info, kept.data)
