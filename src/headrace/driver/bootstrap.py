"""The bootstrap file: what a launcher tells a driver. docs in model/messages.py."""

from __future__ import annotations

from pathlib import Path

from headrace.model.messages import Bootstrap
from headrace.private_files import write_private


def take(file: Path) -> tuple[Bootstrap, str]:
    """Reads the file and takes the token out of it: SQL of users must not find it there.

    Raises OSError and pydantic's ValidationError; SystemExit when another has taken the token.
    """
    bootstrap = Bootstrap.model_validate_json(file.read_text())
    if bootstrap.token is None:
        raise SystemExit(f"{file} has been taken by a driver already")
    without = bootstrap.model_copy(update={"token": None})
    write_private(file, without.model_dump_json())
    return without, bootstrap.token


def addresses(file: Path) -> list[str]:
    """The node addresses that the file names now; empty when it cannot be read."""
    try:
        return Bootstrap.model_validate_json(file.read_text()).nodes
    except (OSError, ValueError):
        return []
