"""What a node needs to start drivers on its own host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.config.settings import Settings
from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.metastore import Metastore
from headrace.control.launchers.local import LocalLauncher


@dataclass(frozen=True, slots=True)
class LocalParts:
    """The archives of classes, the metastore and the launcher of one host."""

    archives: ClassArchives
    metastore: Metastore | None
    """None: the catalog is in memory, or belongs to the user."""
    launcher: LocalLauncher
    working_directory: Path | None
    """Folder in which drivers and spark-submit run; None: the working directory of the node."""

    @classmethod
    def create(cls, settings: Settings, *, embedded: bool) -> LocalParts:
        """Return the parts for a home. Nothing is started or created."""
        archives = ClassArchives(settings.class_archive_folder)
        metastore = Metastore.of_settings(settings, archives)
        folder = _working_directory(settings, embedded=embedded)
        launcher = LocalLauncher(settings.layout, archives, folder)
        return cls(archives, metastore, launcher, folder)


def _working_directory(settings: Settings, *, embedded: bool) -> Path | None:
    """Return the folder in which the drivers of this host run; None: that of the node.

    Commands in any folder can start an embedded node. Relative paths in SQL must not depend on
    which of them did, so the folder that contains the home is used: `./.headrace` is the default.
    """
    return settings.layout.path.parent if embedded else None
