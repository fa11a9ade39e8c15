"""Reads the bootstrap, which holds the session, the token and the node addresses of a driver.

On the launcher's host, the bootstrap is a file. The driver removes the secrets from the file, and
later reads new node addresses from it. On other hosts, the bootstrap is a handoff object in the
results location, which can be read once. `model/messages.py` describes the fields.
"""

from __future__ import annotations

from pathlib import Path

from headrace.model.messages import Bootstrap
from headrace.private_files import write_private
from headrace.storage import handoff


def read_bootstrap(file: Path) -> tuple[Bootstrap, str]:
    """Read the bootstrap file, remove the secrets, and return the bootstrap and the token.

    The secrets are removed because users' SQL can read the file. Raises OSError and pydantic's
    ValidationError if the file cannot be read, and SystemExit if it has no token any more.
    """
    bootstrap = Bootstrap.model_validate_json(file.read_text())
    if bootstrap.token is None:
        raise SystemExit(f"Another driver has already read the token in {file}.")
    without_token = bootstrap.model_copy(update={"token": None})
    without_secrets = without_token.model_copy(update={"flight_secret": None})
    write_private(file, without_secrets.model_dump_json())
    return without_token, bootstrap.token


def read_handoff(location: str) -> tuple[Bootstrap, str]:
    """Read and delete the handoff object, and return the bootstrap and the token.

    Raises FileNotFoundError if the object was read before, ResultsUnavailable if the results
    location cannot be reached, and SystemExit if the object has no token.
    """
    bootstrap = Bootstrap.model_validate_json(handoff.read_and_delete_handoff(location))
    if bootstrap.token is None:
        raise SystemExit(f"The bootstrap in {location} has no token.")
    return bootstrap.model_copy(update={"token": None}), bootstrap.token


def read_addresses(file: Path | None) -> list[str]:
    """Return the node addresses in the bootstrap file; empty if there is no readable file."""
    if file is None:
        return []
    try:
        return Bootstrap.model_validate_json(file.read_text()).nodes
    except (OSError, ValueError):
        return []
