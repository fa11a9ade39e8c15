"""The bootstrap: what a launcher tells a driver. Its fields are in model/messages.py.

On the launcher's host it is a file, which the driver keeps without the token and looks into again.
Elsewhere it is an object in the results location that can be read once.
"""

from __future__ import annotations

from pathlib import Path

from headrace.model.messages import Bootstrap
from headrace.private_files import write_private
from headrace.storage import handoff


def read_bootstrap(file: Path) -> tuple[Bootstrap, str]:
    """Reads the file and takes the token out of it: SQL of users must not find it there.

    Raises OSError and pydantic's ValidationError; SystemExit when another has taken the token.
    """
    bootstrap = Bootstrap.model_validate_json(file.read_text())
    if bootstrap.token is None:
        raise SystemExit(f"{file} has been taken by a driver already")
    without = bootstrap.model_copy(update={"token": None})
    write_private(file, without.model_dump_json())
    return without, bootstrap.token


def read_handoff(place: str) -> tuple[Bootstrap, str]:
    """Reads the object and deletes it. Raises FileNotFoundError, ResultsUnavailable, SystemExit."""
    bootstrap = Bootstrap.model_validate_json(handoff.read_and_delete_handoff(place))
    if bootstrap.token is None:
        raise SystemExit(f"{place} has no token")
    return bootstrap.model_copy(update={"token": None}), bootstrap.token


def addresses(file: Path | None) -> list[str]:
    """The node addresses that the file names now; empty when it cannot be read."""
    if file is None:
        return []
    try:
        return Bootstrap.model_validate_json(file.read_text()).nodes
    except (OSError, ValueError):
        return []
