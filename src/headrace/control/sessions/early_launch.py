"""The early launch of an embedded node: its first driver starts before the store is open.

A command that starts a node waits for the first driver, and the JVM of the driver takes most of
that time. The node knows everything that the driver needs before it has opened the store: it
chooses the session's id, the token and its own address itself. The driver reports only when Spark
is up. By then the node has written the session and the launch to the store.

The bootstrap file is the record of the launch until then. A driver whose node dies before the
session is in the store gets no answer, or the answer of the next node that its lease is lost, and
ends itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.config.profiles import Profile
from headrace.config.settings import Settings
from headrace.control.host.class_archive import ClassArchives
from headrace.control.host.metastore import Metastore
from headrace.control.launchers.base import Handle, LauncherHost
from headrace.control.launchers.local import LocalLauncher
from headrace.control.secret_values import Secrets
from headrace.control.sessions.launch_request import DriverSecrets, build_launch_request
from headrace.control.sessions.opening import new_pool_session
from headrace.errors import HeadraceError
from headrace.model.session import DriverLease, NewSession


@dataclass(frozen=True, slots=True)
class LocalParts:
    """The archives of classes, the metastore and the launcher of one host."""

    archives: ClassArchives
    metastore: Metastore | None
    """None: the catalog is in memory, or belongs to the user."""
    host: LauncherHost
    launcher: LocalLauncher

    @classmethod
    def create(cls, settings: Settings, *, embedded: bool) -> LocalParts:
        """Return the parts for a home. Nothing is started or created."""
        archives = ClassArchives(settings.class_archive_folder)
        metastore = Metastore.of_settings(settings, archives)
        folder = _working_directory(settings, embedded=embedded)
        host = LauncherHost.of_settings(settings, archives, folder)
        return cls(archives, metastore, host, LocalLauncher(host))


def _working_directory(settings: Settings, *, embedded: bool) -> Path | None:
    """Return the folder in which the drivers of this host run; None: that of the node.

    Commands in any folder can start an embedded node. Relative paths in SQL must not depend on
    which of them did, so the folder that contains the home is used: `./.headrace` is the default.
    """
    return settings.layout.path.parent if embedded else None


_UNKNOWN_OWNER = ""
"""The store is not open yet. `Launches.adopt_early` sets the owner."""
_LOG = logging.getLogger("headrace.launch")
_FIRST_EPOCH = 1
_JVM_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyLaunch:
    """A driver that has started for a pool session that is not in the store yet."""

    session: NewSession
    profile: Profile
    driver_secrets: DriverSecrets
    handle: Handle
    parts: LocalParts
    secrets: dict[str, str] = field(repr=False)
    """Values of the secrets of the profile, by name."""
    epoch: int = _FIRST_EPOCH

    @property
    def lease(self) -> DriverLease:
        """Session and epoch of the driver."""
        return DriverLease(self.session.id, self.epoch)

    def wait_for_jvm(self) -> None:
        """Wait until the JVM of the driver is up, at most two seconds.

        JVM and driver use two processors until then, and the imports of the node would slow them
        down. Spark itself then starts on one processor, beside the imports.
        """
        self.parts.launcher.wait_for_jvm(self.handle, _JVM_SECONDS)

    def kill(self) -> None:
        """Kill the driver."""
        self.parts.launcher.kill(self.handle)


def launch_early(settings: Settings, parts: LocalParts, *, address: str) -> EarlyLaunch | None:
    """Start the driver of the pool session of the one user of an embedded node.

    Args:
        address: Address of the node.

    Returns None if the drivers of the default profile are not processes of this host, if they run
    as their owners, who are not known yet, or if the driver cannot be started. The launch of the
    first statement then reports the reason.
    """
    session = new_pool_session(settings, _UNKNOWN_OWNER)
    profile = settings.profile(session.spec.profile)
    if profile.backend != parts.launcher.backend or profile.run_as != "node":
        return None
    driver_secrets = DriverSecrets.create(settings, profile)
    try:
        settings.layout.create()
        request = build_launch_request(
            settings,
            parts.metastore,
            session=session,
            epoch=_FIRST_EPOCH,
            driver_secrets=driver_secrets,
            profile=profile,
            addresses=[address],
            secret_values=Secrets(settings),
            owners=frozenset(),
        )
        # A user waits for the start of this driver. Its session stays slower for some time.
        handle = parts.launcher.start(replace(request, optimize_later=True))
    except (HeadraceError, OSError) as error:
        _LOG.warning("the first driver could not be started early: %s", error)
        return None
    return EarlyLaunch(
        session=session,
        profile=profile,
        driver_secrets=driver_secrets,
        handle=handle,
        parts=parts,
        secrets=request.bootstrap.secrets or {},
    )
