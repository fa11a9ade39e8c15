"""What a node needs to start drivers on its own host."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.metastore import Metastore
from headrace.control.launchers.local import LocalLauncher
from headrace.settings import Settings


@dataclass(frozen=True, slots=True)
class LocalParts:
    """The archives of classes, the metastore and the launcher of one host."""

    archives: ClassArchives
    metastore: Metastore | None
    """None: the catalog is in memory, or belongs to the user."""
    launcher: LocalLauncher

    @classmethod
    def create(cls, settings: Settings) -> LocalParts:
        """Return the parts for a home. Nothing is started or created."""
        archives = ClassArchives(settings.class_archive_folder)
        metastore = None
        if settings.catalog.kind == "managed":
            metastore = Metastore(
                settings.layout,
                warehouse=settings.warehouse,
                linger_seconds=settings.embedded.linger.total_seconds(),
                archives=archives,
            )
        return cls(archives, metastore, LocalLauncher(settings.layout, archives))
