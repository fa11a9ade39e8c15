"""Temporary folders of the drivers on this host: one folder `<launch name>` for each driver.

Spark, Hive, Derby and Python put their temporary files there. Otherwise they would use the system's
folder for temporary files, under names that other users can predict, and a killed driver would
leave its files there for ever.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from headrace.control.worker_pool import WorkerPool
from headrace.errors import ResultsUnavailable
from headrace.files.private_files import create_private_folder

_LOG = logging.getLogger("headrace.launch")
_DELETE_SECONDS = 10.0
_DELETE_THREADS = 4


class TemporaryFolders:
    """The folders of all launches, below one folder of the home."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._deletions = WorkerPool(
            "temporary-folders", threads=_DELETE_THREADS, seconds=_DELETE_SECONDS, storage="home"
        )

    def path(self, name: str) -> Path:
        """Return the path of the folder of a launch, which need not exist."""
        return self._folder / name

    def create(self, name: str) -> None:
        """Create the folder of a launch, for its owner only. Raises OSError."""
        create_private_folder(self.path(name))

    def remove(self, name: str) -> None:
        """Delete the folder of a launch. Files that cannot be deleted remain.

        The folder may hold all shuffle files of a driver. The call returns after at most 10 s, and
        a longer deletion continues in its thread.
        """
        try:
            self._deletions.call(shutil.rmtree, self.path(name), ignore_errors=True)
        except ResultsUnavailable:
            _LOG.warning("the deletion of the temporary files of %s takes long", name)

    def names(self) -> list[str]:
        """Return the names of the launches that have a folder."""
        if not self._folder.is_dir():
            return []
        return sorted(folder.name for folder in self._folder.iterdir())

    def environment(
        self,
        name: str,
        inherited: Mapping[str, str],
        profile: Mapping[str, str],
        jvm_options: Iterable[str] = (),
    ) -> dict[str, str]:
        """Return an environment whose Python and JVMs use the folder of a launch.

        Args:
            inherited: Variables that the driver inherits from the node.
            profile: Variables of the profile, which override all others.
            jvm_options: Further options of the driver's JVM, which those of the profile override.
        """
        folder = self.path(name)
        # Unlike spark.driver.extraJavaOptions, the variable reaches spark-submit in every mode.
        own_options = [
            f"-Djava.io.tmpdir={folder}",
            f"-Dderby.stream.error.file={folder / 'derby.log'}",
            *jvm_options,
        ]
        environment = {**inherited, "TMPDIR": str(folder), **profile}
        further_options = environment.get("SPARK_SUBMIT_OPTS", "")
        options = " ".join([*map(_quote, own_options), further_options]).strip()
        return {**environment, "SPARK_SUBMIT_OPTS": options}

    def spark_conf(self, name: str) -> dict[str, str]:
        """Return the configuration that makes Spark's block manager use the folder of a launch."""
        return {"spark.local.dir": str(self.path(name))}


def _quote(option: str) -> str:
    """Return an option in the syntax of CommandBuilderUtils.parseOptionString, Spark's parser."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
