"""Entry point of `python -m headrace.cli`, which is the same program as `headrace`."""

from __future__ import annotations

from headrace.cli.main import run

run()
