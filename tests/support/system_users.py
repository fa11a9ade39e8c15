"""Two users of this host, and a folder through which they may pass."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest


@contextmanager
def system_users(count: int) -> Iterator[list[pwd.struct_passwd]]:
    """Create users of this host, and delete them after the block. Skip the test without root."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("only root on Linux can create users, and processes of other users")
    with ExitStack() as stack:
        users = []
        for number in range(count):
            name = f"hr{os.getpid()}x{number}"
            subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", name], check=True)
            stack.callback(subprocess.run, ["userdel", "--remove", name], capture_output=True)
            users.append(pwd.getpwnam(name))
        yield users


@contextmanager
def passable_folder() -> Iterator[Path]:
    """Create a folder that all users may pass, as they may not pass pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-owners-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def can_run_python(user: pwd.struct_passwd, python: str) -> bool:
    """Return whether a user can run a Python of this host, and read its library."""
    command = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    # setpriv itself still finds a program with the rights of root.
    shell = ["sh", "-c", 'exec "$0" -c "import json"', python]
    run = subprocess.run([*command, *shell], check=False, capture_output=True)
    return run.returncode == 0
