"""What a process that the node starts gets of the node's environment."""

from __future__ import annotations

import os


def inherited_environment() -> dict[str, str]:
    """All but the node's own settings, which hold secrets: users' code runs in a driver."""
    return {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
