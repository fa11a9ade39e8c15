"""A home in a parent folder, which a user may have meant instead of `./.headrace`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from headrace.cli.config import ClientConfig
from headrace.config.home import DEFAULT_HOME, HomeLayout


def find_parent_home(config: ClientConfig) -> Path | None:
    """Return the nearest home of this user in a parent folder, if the home is the default one.

    Returns None if a flag, a variable or a file has chosen the home.
    """
    if config.source("home") != "default":
        return None
    homes = (folder / DEFAULT_HOME for folder in config.home.parent.parents)
    return next((home for home in homes if _is_own_home(home)), None)


def report_parent_home(config: ClientConfig, notice: Callable[[str], None]) -> None:
    """Print a line if a home in a parent folder has other tables than the home in use."""
    parent_home = find_parent_home(config)
    if parent_home is not None:
        notice(
            f"Using the home {config.home}. A parent folder has another home with other tables, "
            f"{parent_home}: choose one with --home or HEADRACE_HOME."
        )


def _is_own_home(home: Path) -> bool:
    """Return whether a node of this user has used a home. A folder of that name is not enough."""
    try:
        return HomeLayout.at(home).node_id_file.stat().st_uid == os.geteuid()
    except OSError:
        return False
