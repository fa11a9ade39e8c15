"""`python -m headrace.cli` is `headrace`."""

from __future__ import annotations

from headrace.cli.main import run

run()
