"""Packages of clients, each in an environment of its own: their dependencies exclude each other."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make_client(name: str, *requirements: str) -> Path:
    """Return the Python of an environment with these packages, which a machine makes once."""
    subprocess.run([ROOT / "scripts" / "setup-client", name, *requirements], check=True)
    return ROOT / ".tools" / "clients" / name / "bin" / "python"
