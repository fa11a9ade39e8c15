"""Profiles of the backends that tests reach, and what a driver's hosts must not have."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
"""Everything Spark opens stays on this host."""


def bare_python(folder: Path) -> str:
    """An interpreter that has what Headrace stands on, and no Headrace: its install is editable,
    and only `site` follows that."""
    program = folder / "python"
    packages = sysconfig.get_path("purelib")
    program.write_text(
        "#!/bin/sh\n"
        f'export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}"\n'
        f'exec {sys.executable} -S "$@"\n'
    )
    program.chmod(0o755)
    return str(program)


def as_settings(profiles: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Profiles as a node's environment has them."""
    return {"PROFILES": json.dumps(profiles)}
