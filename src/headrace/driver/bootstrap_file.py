"""The bootstrap file of a driver. `model/messages.py` describes its fields.

The driver removes the secrets from the file, and later reads new node addresses from it. This
module imports nothing large: a driver reads the file before it imports anything else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.files.private_files import write_private

_SECRETS = ("token", "flight_secret")


def take_bootstrap(file: Path) -> dict[str, Any]:
    """Read the bootstrap file, and remove the secrets from it. Return all fields.

    Users' SQL can read the file later. Raises OSError and ValueError if the file cannot be read,
    and SystemExit if it has no token any more.
    """
    fields: dict[str, Any] = json.loads(file.read_text())
    if fields.get("token") is None:
        raise SystemExit(f"Another driver has already read the token in {file}.")
    write_private(file, json.dumps(fields | dict.fromkeys(_SECRETS)))
    return fields


def read_addresses(file: Path | None) -> list[str]:
    """Return the node addresses in the bootstrap file; empty if there is no readable file."""
    if file is None:
        return []
    try:
        addresses = json.loads(file.read_text())["nodes"]
        return [str(address) for address in addresses]
    except (OSError, ValueError, LookupError, TypeError):
        return []
