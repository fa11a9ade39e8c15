"""Launching of drivers: a node claims the launch in the store first, then starts the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from headrace.config.profiles import Profile
from headrace.control.backend_pools import BackendPace, BackendPools
from headrace.control.context import NodeContext
from headrace.control.host.metastore import Metastore
from headrace.control.host.process_identity import this_host
from headrace.control.launchers.base import Handle, launch_name
from headrace.control.launchers.registry import LauncherRegistry
from headrace.control.limits import describe_owner, find_weights
from headrace.control.periodic_tasks import isolate_errors
from headrace.control.sessions.driver_owner import (
    fill_templates,
    find_acting_owner,
    results_of,
)
from headrace.control.sessions.early_launch import EarlyLaunch
from headrace.control.sessions.ending import fail_session
from headrace.control.sessions.launch_request import (
    DriverSecrets,
    build_launch_request,
    hash_token,
)
from headrace.control.sessions.opening import choose_pool_session
from headrace.control.sessions.takeover import Takeovers
from headrace.errors import (
    BackendUnreachable,
    HeadraceError,
    InvalidSetting,
    LaunchFailed,
    TooManySessions,
)
from headrace.model.failure import Failure
from headrace.model.lifecycle import SessionState
from headrace.model.session import DriverLease, NewSession, Session
from headrace.model.text import clean_message
from headrace.store import nodes
from headrace.store.database import Tx
from headrace.store.notifications import LAUNCH
from headrace.store.sessions import sessions, takeovers

_LOG = logging.getLogger("headrace.launch")
_BATCH = 100
_THREADS = 8
"""Largest number of drivers that a node starts at once on one backend."""


class Launches:
    """Starts the drivers whose launch this node claims.

    Backend calls run in threads, so that a slow backend delays nothing else.
    """

    def __init__(
        self,
        context: NodeContext,
        *,
        launchers: LauncherRegistry,
        takeovers: Takeovers,
        metastore: Metastore | None,
        profiles: Mapping[str, Profile],
        is_draining: Callable[[], bool],
        observe_failed_start: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the threads when they are needed.

        Args:
            profiles: Profiles whose drivers this node can start.
            is_draining: Returns whether the node begins nothing new.
            observe_failed_start: Called for each driver that could not be started.
        """
        self._context = context
        self._database = context.database
        self._settings = context.settings
        self._node_id = context.node_id
        self._launchers = launchers
        self._takeovers = takeovers
        self._metastore = metastore
        self._profiles = profiles
        self._is_draining = is_draining
        self._observe_failed_start = observe_failed_start
        self._pools = BackendPools("launch", threads=_THREADS)
        self._pace = BackendPace(context.database, context.settings)

    @property
    def has_work(self) -> bool:
        """Whether a driver is being started."""
        return self._pools.has_work

    def stop(self) -> None:
        """Wait for the starts that are in progress."""
        self._pools.stop()

    def adopt_unconfirmed(self) -> None:
        """Adopt the drivers that this node was starting when it last ended, or declare them lost.

        Call this before the node starts anything.
        """
        with self._database.read() as tx:
            unconfirmed = takeovers.unconfirmed_launches(tx, self._node_id)
        for session in unconfirmed:
            profile = self._profiles.get(session.spec.profile)
            if profile is not None:
                self._pools.submit(
                    profile.backend, session.id, partial(self._adopt, session, profile)
                )

    def _adopt(self, session: Session, profile: Profile) -> None:
        lease = DriverLease(session.id, session.epoch)
        try:
            self._pace.wait(profile.backend)
            handle = self._launchers.find(
                launch_name(lease), fill_templates(profile, session.owner), session.host
            )
        except HeadraceError as error:
            # When the lease expires, a takeover looks for the driver again.
            _LOG.error(
                "session %s: cannot find out whether its driver was started: %s",
                session.id,
                error.message,
            )
            return
        if handle is not None:
            _LOG.info("session %s: found the driver of epoch %d", session.id, session.epoch)
            self._takeovers.adopt(lease, handle)
        elif session.state is not SessionState.RUNNING:
            self._takeovers.declare_lost(lease, "the node ended before it started the driver")

    def start_pending(self) -> None:
        """Claim and start the sessions that need a driver, as far as threads are free.

        A session with a profile that only other nodes have is left to them. If no node has the
        profile, the session fails.
        """
        if self._is_draining():
            return
        for backend in {profile.backend for profile in self._profiles.values()}:
            self._start_on(backend)
        with self._database.read() as tx:
            foreign = sessions.launchable(tx, _BATCH, other_than=self._profiles)
            offered = nodes.offered_profiles(tx, self._context.lease_seconds) if foreign else set()
        for session in foreign:
            if session.spec.profile not in offered:
                with isolate_errors(f"session {session.id} could not be failed"):
                    lease = DriverLease(session.id, session.epoch)
                    self._fail(lease, _unknown_profile(session.spec.profile, offered))

    def _start_on(self, backend: str) -> None:
        free = self._pools.count_free(backend)
        if not free:
            return
        names = [name for name, profile in self._profiles.items() if profile.backend == backend]
        # Sessions whose start waits for a thread are launchable until they are claimed.
        pending = self._list_in_turn(names)
        for session in [each for each in pending if not self._pools.is_busy(each.id)][:free]:
            profile = self._profiles[session.spec.profile]
            self._pools.submit(backend, session.id, partial(self._start_next, session, profile))

    def _list_in_turn(self, profiles: Collection[str]) -> list[Session]:
        with self._database.read() as tx:
            if not self._settings.limits.has_weights:
                return sessions.launchable(tx, _THREADS, profiles=profiles)
            owners = sessions.list_launching_owners(tx, profiles)
            weights = find_weights(tx, self._settings, owners)
            pending = sessions.launchable(tx, _THREADS, profiles=profiles, weights=weights)
        # An owner that came after the weights were read takes its turn at the next look.
        return [session for session in pending if session.owner in owners]

    def _start_next(self, session: Session, profile: Profile) -> None:
        self._start(session, profile)
        # More sessions may wait for this thread.
        self._database.notifications.publish([LAUNCH])

    def _start(self, session: Session, profile: Profile) -> None:
        driver_secrets = DriverSecrets.create(self._settings, profile)
        with self._database.write("launch.claim") as tx:
            epoch = self._claim(tx, session, profile, driver_secrets)
            addresses = nodes.addresses(tx)
            owners = self._context.secrets.list_owners(tx, session.owner)
        if epoch is None:
            return
        lease = DriverLease(session.id, epoch)
        try:
            with self._database.read() as tx:
                acting = find_acting_owner(tx, self._settings, session.owner, profile)
            request = build_launch_request(
                self._settings,
                self._metastore,
                session=session,
                epoch=epoch,
                driver_secrets=driver_secrets,
                profile=fill_templates(profile, session.owner),
                acting=acting,
                # The driver calls this node first, and the others if this node ends.
                addresses=[self._context.address, *addresses],
                secret_values=self._context.secrets,
                owners=owners,
            )
            handle = self._launchers.start(request)
        except BackendUnreachable as error:
            # The backend may have started the driver all the same.
            self._takeovers.declare_lost(lease, error.message.rstrip("."))
        except (HeadraceError, OSError) as error:
            self._fail(lease, error)
        else:
            self._confirm(lease, handle)

    def _claim(
        self,
        tx: Tx,
        session: Session | NewSession,
        profile: Profile,
        driver_secrets: DriverSecrets,
    ) -> int | None:
        """Claim a launch and return the new epoch, or None if another node was first.

        The claim fails too if the session has another owner by now: the driver must not start for
        the one that was read.
        """
        return takeovers.claim_launch(
            tx,
            session.id,
            owner=session.owner,
            node=self._node_id,
            host=this_host().to_record(),
            seconds=profile.start_timeout.total_seconds(),
            token_hash=hash_token(driver_secrets.token),
            results_location=results_of(self._settings, session.owner, profile),
            flight=driver_secrets.flight,
        )

    def adopt_early(self, early: EarlyLaunch, *, owner: str) -> None:
        """Open the pool session of a driver that was started before the store was open.

        The early driver is killed if the owner has an open pool session already, if a warm driver
        serves it, or if a limit of sessions is reached. The statement then reports the limit.
        """
        settings, session = self._settings, replace(early.session, owner=owner)
        is_current = False
        with suppress(TooManySessions), self._database.write("launch.early") as tx:
            is_current = (
                choose_pool_session(tx, settings, describe_owner(tx, settings, owner), session)
                == session.id
                and self._claim(tx, session, early.profile, early.driver_secrets) == early.epoch
                and sessions.set_handle(tx, early.lease, early.handle)
            )
        if is_current:
            self._context.secrets.remember(session.id, early.secrets)
            _LOG.info("session %s: its driver has started early: %s", session.id, early.handle)
        else:
            early.kill()

    def _confirm(self, lease: DriverLease, handle: Handle) -> None:
        _LOG.info(
            "session %s: driver of epoch %d started: %s", lease.session_id, lease.epoch, handle
        )
        with self._database.write("launch.confirm") as tx:
            is_current = sessions.set_handle(tx, lease, handle)
        if not is_current:
            # A takeover has superseded the epoch meanwhile, so the driver could not even say hello.
            self._launchers.kill(handle)

    def _fail(self, lease: DriverLease, error: Exception) -> None:
        self._observe_failed_start()
        failure = error if isinstance(error, HeadraceError) else LaunchFailed(str(error))
        # A backend can quote the configuration.
        message = self._context.secrets.known_of(lease.session_id).mask_text(failure.message)
        _LOG.error("session %s: its driver could not be started: %s", lease.session_id, message)
        if failure.hint:
            # The record of a failure has no field for the hint, and the user needs it.
            message = f"{message} Fix: {failure.hint}"
        record = Failure.of(failure).model_copy(update={"message": clean_message(message)})
        with self._database.write("launch.fail") as tx:
            fail_session(
                tx,
                lease.session_id,
                record,
                actor=self._node_id,
                epoch=lease.epoch,
            )


def _unknown_profile(name: str, offered: Collection[str]) -> InvalidSetting:
    return InvalidSetting(
        f"No node has the profile {name!r}. Profiles: {', '.join(sorted(offered))}.",
        hint="Add the profile to the settings of a node, or choose another profile.",
    )
