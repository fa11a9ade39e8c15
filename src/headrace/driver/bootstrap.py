"""Builds the bootstrap, which holds the session, the token and the node addresses of a driver.

On the launcher's host, the bootstrap is a file. On other hosts, it is a handoff object in the
results location, which can be read once. `model/messages.py` describes the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.model.messages import Bootstrap


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
    from headrace.files import handoff  # noqa: PLC0415

    fields: dict[str, Any] = json.loads(handoff.read_and_delete_handoff(location))
    if fields.get("token") is None:
        raise SystemExit(f"The bootstrap in {location} has no token.")
    return build_bootstrap(fields)
