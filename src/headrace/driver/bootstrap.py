"""Builds the bootstrap, which holds the session, the token and the node addresses of a driver.

On the launcher's host, the bootstrap is a file. On other hosts, it is a handoff object in the
results location, which can be read once. `model/messages.py` describes the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.driver.bootstrap_file import take_bootstrap
from headrace.model.messages import Bootstrap


def read_bootstrap(file: Path) -> tuple[Bootstrap, str]:
    """Read the bootstrap file, remove its secrets, and return the bootstrap and the token.

    Raises OSError and ValueError if the file cannot be read, and SystemExit if it has no token any
    more.
    """
    return build_bootstrap(take_bootstrap(file))


def build_bootstrap(fields: Mapping[str, Any]) -> tuple[Bootstrap, str]:
    """Return the bootstrap without the token, and the token. Raises pydantic's ValidationError."""
    bootstrap = Bootstrap.model_validate(fields)
    assert bootstrap.token is not None
    return bootstrap.model_copy(update={"token": None}), bootstrap.token


def read_handoff(location: str) -> tuple[Bootstrap, str]:
    """Read and delete the handoff object, and return the bootstrap and the token.

    Raises FileNotFoundError if the object was read before, ResultsUnavailable if the results
    location cannot be reached, and SystemExit if the object has no token.
    """
    # Most drivers do not need the libraries of storage to start.
    from headrace.storage import handoff  # noqa: PLC0415

    bootstrap = Bootstrap.model_validate_json(handoff.read_and_delete_handoff(location))
    if bootstrap.token is None:
        raise SystemExit(f"The bootstrap in {location} has no token.")
    return bootstrap.model_copy(update={"token": None}), bootstrap.token
