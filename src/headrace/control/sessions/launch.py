"""Launching drivers: the launch is claimed in the store first, then the driver is started."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from headrace.control.driver_link.service import hash_token
from headrace.control.host.metastore import Metastore
from headrace.control.launchers.base import Handle, LaunchRequest, launch_name
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.sessions.service import end_session
from headrace.control.sessions.takeover import Takeovers
from headrace.errors import BackendUnreachable, HeadraceError, LaunchFailed
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.messages import Bootstrap
from headrace.model.session import Session
from headrace.settings import Profile, Settings
from headrace.store import sessions, takeovers
from headrace.store.database import Database

_LOG = logging.getLogger("headrace.launch")


class Launches:
    """Starts the drivers that this node wins the claim for."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        node_id: str,
        address: str,
        backends: LauncherRegistry,
        takeovers_: Takeovers,
        metastore: Metastore | None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._address = address
        self._backends = backends
        self._takeovers = takeovers_
        self._metastore = metastore

    def log_file(self, session_id: str) -> Path:
        """Where a session's driver writes its stdout and stderr."""
        return self._settings.home.absolute() / "logs" / f"{session_id}.log"

    def log(self, session_id: str, tail: int) -> str:
        """The last `tail` bytes of a driver's log; empty before the driver has started."""
        try:
            with self.log_file(session_id).open("rb") as stream:
                stream.seek(0, os.SEEK_END)
                stream.seek(max(0, stream.tell() - tail))
                return stream.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def adopt(self) -> None:
        """What this node was starting when it was ended: found by its name, or given up.

        To be called before anything is started.
        """
        with self._database.read() as tx:
            found = takeovers.unconfirmed_launches(tx, self._node_id)
        for session in found:
            try:
                self._adopt(session)
            except HeadraceError as error:
                # Once its lease has run out, it is looked for again.
                _LOG.error("session %s: its launch is in doubt: %s", session.id, error.message)

    def _adopt(self, session: Session) -> None:
        name = launch_name(session.id, session.epoch)
        handle = self._backends.find(name, self._settings.profile(session.profile))
        if handle is not None:
            _LOG.info("session %s: driver of epoch %d found again", session.id, session.epoch)
            with self._database.write() as tx:
                sessions.set_handle(tx, session.id, session.epoch, handle)
        elif session.state is not SessionState.RUNNING:
            self._takeovers.declare_lost(
                session.id, session.epoch, "its node ended before it was started"
            )

    def start_pending(self) -> None:
        """Claims and starts every session that needs a driver and has none."""
        with self._database.read() as tx:
            pending = sessions.launchable(tx, 100)
        for session in pending:
            try:
                profile = self._settings.profile(session.profile)
            except HeadraceError as error:
                self._refused(session.id, session.epoch, error)
            else:
                self._start(session, profile)

    def _start(self, session: Session, profile: Profile) -> None:
        token = secrets.token_urlsafe(32)
        with self._database.write() as tx:
            epoch = takeovers.claim_launch(
                tx,
                session.id,
                node=self._node_id,
                seconds=profile.start_timeout.total_seconds(),
                token_hash=hash_token(token),
            )
        if epoch is None:
            return
        try:
            handle = self._backends.start(self._request(session, epoch, token, profile))
        except BackendUnreachable as error:
            # It may have been started all the same.
            self._takeovers.declare_lost(session.id, epoch, error.message.rstrip("."))
        except (HeadraceError, OSError) as error:
            self._refused(session.id, epoch, error)
        else:
            self._started(session.id, epoch, handle)

    def _started(self, session_id: str, epoch: int, handle: Handle) -> None:
        _LOG.info("session %s: driver of epoch %d started: %s", session_id, epoch, handle)
        with self._database.write() as tx:
            kept = sessions.set_handle(tx, session_id, epoch, handle)
        if not kept:
            # Somebody has lost patience meanwhile: it may not even say hello.
            self._backends.kill(handle)

    def _refused(self, session_id: str, epoch: int, error: Exception) -> None:
        known = error if isinstance(error, HeadraceError) else LaunchFailed(str(error))
        _LOG.error("session %s: its driver could not be started: %s", session_id, known.message)
        with self._database.write() as tx:
            end_session(tx, session_id, Failure.of(known), actor=self._node_id, epoch=epoch)

    def _request(self, session: Session, epoch: int, token: str, profile: Profile) -> LaunchRequest:
        name = launch_name(session.id, epoch)
        lease = self._settings.lease
        catalog = self._metastore.ensure() if self._metastore else {}
        bootstrap = Bootstrap(
            session_id=session.id,
            epoch=epoch,
            token=token,
            nodes=[self._address],
            conf=_conf(session, name, self._settings, catalog, profile),
            catalog=session.catalog,
            database=session.database,
            parallelism=session.parallelism,
            warm=session.warm,
            results=self._settings.results_location,
            inline_limit=self._settings.results.inline_limit,
            chunk_limit=self._settings.results.chunk_limit,
            lease_seconds=lease.duration.total_seconds(),
            renew_seconds=lease.renew.total_seconds(),
            orphan_seconds=lease.orphan.total_seconds(),
            hold=str(self._metastore.users_lock) if self._metastore else None,
        )
        return LaunchRequest(
            name=name, bootstrap=bootstrap, profile=profile, log=self.log_file(session.id)
        )


def _conf(
    session: Session, name: str, settings: Settings, catalog: dict[str, str], profile: Profile
) -> dict[str, str]:
    """Defaults, then the profile's, then the session's own; identity last, for nobody to change."""
    added = {
        "spark.jars": session.jars,
        "spark.files": session.files,
        "spark.submit.pyFiles": session.py_files,
    }
    return {
        "spark.master": profile.master,
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": settings.warehouse,
        "spark.sql.scripting.enabled": "true",
        **({"spark.scheduler.mode": "FAIR"} if session.parallelism > 1 else {}),
        **catalog,
        **profile.conf,
        **{key: ",".join(places) for key, places in added.items() if places},
        **session.conf,
        "spark.app.name": name,
        "spark.headrace.session.id": session.id,
    }
