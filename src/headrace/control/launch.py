"""Launching drivers: the launch is claimed in the store first, then the driver is started."""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path

from headrace.control.launchers.backends import Backends
from headrace.control.launchers.contract import LaunchRequest
from headrace.control.link import hash_token
from headrace.control.metastore import Metastore
from headrace.control.sessions import end_session
from headrace.errors import HeadraceError, LaunchFailed
from headrace.model.failure import Failure
from headrace.model.messages import Bootstrap
from headrace.model.session import Session
from headrace.settings import Profile, Settings
from headrace.store import sessions
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
        backends: Backends,
        metastore: Metastore | None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._address = address
        self._backends = backends
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

    def start_pending(self) -> None:
        """Claims and starts every session that has no driver yet."""
        with self._database.read() as tx:
            pending = sessions.launchable(tx, 100)
        for session in pending:
            self._start(session)

    def _start(self, session: Session) -> None:
        profile = self._settings.profile(session.profile)
        token = secrets.token_urlsafe(32)
        with self._database.write() as tx:
            epoch = sessions.claim_launch(
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
        except (HeadraceError, OSError) as error:
            self._refused(session, error)
            return
        _LOG.info("session %s: driver of epoch %d started: %s", session.id, epoch, handle)
        with self._database.write() as tx:
            sessions.set_handle(tx, session.id, epoch, handle)

    def _refused(self, session: Session, error: Exception) -> None:
        known = error if isinstance(error, HeadraceError) else LaunchFailed(str(error))
        _LOG.error("session %s: its driver could not be started: %s", session.id, known.message)
        with self._database.write() as tx:
            end_session(tx, session.id, Failure.of(known), who=self._node_id)

    def _request(self, session: Session, epoch: int, token: str, profile: Profile) -> LaunchRequest:
        name = f"headrace-{session.id}-{epoch}"
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
        **catalog,
        **profile.conf,
        **{key: ",".join(places) for key, places in added.items() if places},
        **session.conf,
        "spark.app.name": name,
        "spark.headrace.session.id": session.id,
    }
