"""The start of a process: imports without garbage collection, and without pandas on a node."""

from __future__ import annotations

import gc
import subprocess
import sys

from headrace.config.process_start import pause_garbage_collection, resume_garbage_collection

_NODE = """
import sys
from headrace.config.extras import find_missing
from headrace.config.process_start import hide_pandas
hide_pandas()
import pyarrow as pa
print(pa.array([1, None]).null_count, "pandas" in sys.modules, find_missing("spark"))
try:
    import pandas
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_process_hides_pandas_from_pyarrow_and_still_finds_it_for_its_drivers() -> None:
    output = subprocess.run(
        [sys.executable, "-c", _NODE], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines() == ["1 False []", "pandas is hidden in this process."]


def test_garbage_collection_pauses_and_resumes() -> None:
    try:
        pause_garbage_collection()
        assert not gc.isenabled()
    finally:
        resume_garbage_collection()
        frozen = gc.get_freeze_count()
        gc.unfreeze()
    assert gc.isenabled()
    assert frozen > 0
