"""Processes and files of another user of this host, for drivers that run as their owners.

Only a node that runs as root can start them. The program `setpriv` changes the user: the process
has the user's groups, no capabilities, and cannot get new privileges, for example by `sudo`.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headrace.config.home import HomeLayout
from headrace.errors import LaunchFailed
from headrace.files.private_files import create_private_folder

_ROOT = 0
_NOBODY = 65534
_OF_NODE = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_CACHE_HOME"),
        *("HADOOP_USER_NAME", "KRB5CCNAME", "KUBECONFIG"),
    }
)
"""Variables that name the user of the node, or lead to its files and credentials."""
_HIDE_PROCESSES = 'mount -t proc -o nosuid,nodev,noexec,hidepid=invisible proc /proc && exec "$@"'
_SECONDS = 10


def find_missing_requirement() -> str | None:
    """Return why this process cannot start processes of other users, or None if it can."""
    if os.geteuid() != _ROOT:
        return "a node that runs as root"
    return None if shutil.which("setpriv") else "the program setpriv (util-linux)"


@functools.cache
def can_hide_processes() -> bool:
    """Return whether a process of another user can be kept from seeing other processes.

    The process then gets a /proc of its own with `hidepid` (Linux 5.8). A container usually may not
    mount file systems.
    """
    try:
        return _succeeds(_hide(["true"]))
    except (OSError, subprocess.TimeoutExpired):
        return False


def _hide(command: Sequence[str]) -> list[str]:
    shell = ["/bin/sh", "-c", _HIDE_PROCESSES, "sh"]
    return ["unshare", "--mount", "--propagation", "slave", "--", *shell, *command]


def _succeeds(command: Sequence[str]) -> bool:
    return not subprocess.run(
        command, check=False, capture_output=True, timeout=_SECONDS
    ).returncode


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A user of this host who is neither root nor a system account."""

    name: str
    uid: int
    gid: int
    home: Path

    @classmethod
    def find(cls, name: str, *, smallest_uid: int) -> Self:
        """Return the user with a name.

        Raises LaunchFailed if the host has no such user, or drivers must not run as this user.
        """
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise LaunchFailed(
                f"The driver cannot run as {name!r}: this host has no such user.",
                hint="Create the user on the host of the node, or map the owner to another one with"
                " auth.system_users.",
            ) from None
        is_system = entry.pw_uid < smallest_uid or entry.pw_uid in {_ROOT, _NOBODY}
        # Some directories find a name in any case of its letters.
        if is_system or entry.pw_gid == _ROOT or entry.pw_name != name:
            raise LaunchFailed(
                f"The driver cannot run as {name!r} (uid {entry.pw_uid}, gid {entry.pw_gid}): it"
                " must not run as root, in root's group, or with a uid below"
                f" {smallest_uid} (auth.system_users.smallest_uid).",
                hint="Map the owner to another user with auth.system_users.",
            )
        return cls(name, entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs as this user.

        The process keeps its id. Where the host permits it, the processes of other users are hidden
        from it.
        """
        as_user = [
            "setpriv",
            *(f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups", "--no-new-privs"),
            *("--bounding-set=-all", "--inh-caps=-all", "--", *command),
        ]
        return _hide(as_user) if can_hide_processes() else as_user

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of the node without what belongs to the node's own user."""
        of_user = {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name}
        return {**{name: inherited[name] for name in inherited if name not in _OF_NODE}, **of_user}

    def check_access(self, paths: Iterable[Path | str]) -> None:
        """Raise LaunchFailed unless this user can read the files, and search the folders."""
        for path in paths:
            test = "-x" if Path(path).is_dir() else "-r"
            if not _succeeds(self.command(["test", test, str(path)])):
                raise LaunchFailed(
                    f"The driver cannot run as {self.name!r}, because this user cannot reach"
                    f" {path}.",
                    hint="Each folder above it must let other users pass (mode 0711 or 0755), and"
                    " Java, Python and the packages must be readable for them.",
                )

    def give(self, path: Path) -> None:
        """Make this user the owner of a file or folder, whose parent folder belongs to root."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def create_folder(self, folder: Path) -> None:
        """Create a folder that only this user can read, in a folder where all users may pass.

        Raises LaunchFailed if the folder exists and belongs to another user, and OSError.
        """
        create_private_folder(folder.parent)
        _let_pass(folder.parent)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            status = folder.lstat()
            if status.st_uid != self.uid or not folder.is_dir() or folder.is_symlink():
                raise LaunchFailed(
                    f"The driver cannot run as {self.name!r}, because {folder} belongs to the user"
                    f" with the uid {status.st_uid}.",
                    hint=f"If the files are those of the owner: chown -R {self.name} {folder}",
                ) from None
            return
        self.give(folder)


def open_home(layout: HomeLayout, folders: Iterable[Path]) -> None:
    """Let other users pass through a home to their folders, without listing what the home has.

    Raises OSError.
    """
    above = {parent for folder in folders for parent in folder.parents}
    passed = {path for path in above if path.is_relative_to(layout.path)}
    passed |= {layout.path, layout.drivers, layout.temporary}
    create_private_folder(layout.path)
    for entry in layout.path.iterdir():
        status = entry.lstat()
        # A store or a log of a node with another umask.
        if status.st_uid == os.geteuid() and status.st_mode & 0o066 and not entry.is_symlink():
            entry.chmod(0o700 if entry.is_dir() else 0o600)
    for folder in passed:
        create_private_folder(folder)
        _let_pass(folder)


def _let_pass(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o011 != 0o011:
        folder.chmod(status.st_mode & 0o777 | 0o011)
