"""Files that belong to another user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_OTHER_USER = 65534


def give_to_other_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file or folder belong to another user for the rest of the test."""
    if os.geteuid() == 0:
        os.chown(path, _OTHER_USER, -1)
        return
    # Only root can give files away. Instead, this process takes the place of the other user.
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
