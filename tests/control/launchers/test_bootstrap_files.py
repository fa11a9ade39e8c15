"""Files of drivers that run as other users, which may put anything into their folders."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.control.launchers import bootstrap_files
from headrace.control.launchers.bootstrap_files import BootstrapFiles, TemporaryFolders


def test_a_file_that_is_too_large_for_a_bootstrap_is_not_read(tmp_path: Path) -> None:
    own = tmp_path / "headrace-se_1-1"
    own.mkdir()
    with (own / "headrace-se_1-1.json").open("wb") as file:
        file.truncate(300 * 2**30)  # it has holes, and takes no space
    BootstrapFiles(tmp_path).announce(["http://a"])
    assert (own / "headrace-se_1-1.json").stat().st_size == 300 * 2**30


def test_folders_below_folders_are_deleted_to_any_depth(tmp_path: Path) -> None:
    folder = tmp_path / "headrace-se_1-1"
    folder.mkdir()
    place = os.open(folder, os.O_RDONLY)
    for _number in range(1500):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    TemporaryFolders(tmp_path).remove(folder.name)
    assert not folder.exists()
    assert outside.exists()


def test_a_folder_that_cannot_be_deleted_raises_nothing(tmp_path: Path) -> None:
    bootstrap_files.delete_tree(tmp_path / "missing")
    bootstrap_files.delete_tree(Path("/proc/self/fd"))
