"""Two real nodes over the store in memory, without threads, sockets and processes.

The parts that are replaced: the store's file, the threads, the clock of the host, and the backend,
whose drivers are those of the world.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.model_explorer.driver import SESSION
from tests.model_explorer.state import NodeState, Operation
from tests.model_explorer.steps import Steps
from tests.model_explorer.store import MemoryStore
from tests.support.in_process_node import make_settings

from headrace.config.profiles import Profile
from headrace.control import periodic_tasks
from headrace.control.backend_pools import BackendPools
from headrace.control.launchers.base import DriverExit, DriverStatus, Handle, LaunchRequest
from headrace.control.node import Node
from headrace.control.sessions import launch_request
from headrace.model.messages import LINK_VERSION
from headrace.model.session import DriverLease
from headrace.store import nodes
from headrace.store.database import Database
from headrace.store.streams import stream_transitions
from headrace.store.streams import views as store_views

_TASKS = {"takeovers", "launches"}
_CONSTANT = {"_interval", "_lease_seconds"}


class HiddenError(BaseException):
    """A periodic task has failed, and a node would only log the error."""


class Backend:
    """Calls that nodes make to the backend. The world decides what they do."""

    def start(self, node: int, epoch: int) -> None:
        raise NotImplementedError

    def kill(self, epoch: int) -> None:
        raise NotImplementedError

    def is_alive(self, epoch: int) -> bool:
        raise NotImplementedError

    def take_exits(self, node: int) -> list[int]:
        raise NotImplementedError


class WorldLauncher:
    """The launcher of one node."""

    backend = "local"

    def __init__(self, number: int, steps: Steps, backend: Backend) -> None:
        self._number = number
        self._steps = steps
        self._backend = backend

    def start(self, request: LaunchRequest) -> Handle:
        epoch = request.bootstrap.epoch
        self._steps.call("start", lambda: self._backend.start(self._number, epoch))
        return handle_of(epoch)

    def find(self, name: str, _profile: Profile) -> Handle | None:
        epoch = int(name.rpartition("-")[2])
        alive = self._steps.call("find", lambda: self._backend.is_alive(epoch))
        return handle_of(epoch) if alive else None

    def poll(self, handle: Handle) -> DriverStatus:
        alive = self._steps.call("poll", lambda: self._backend.is_alive(handle["epoch"]))
        return DriverStatus(alive=alive, message="it runs" if alive else "exit status 1")

    def kill(self, handle: Handle) -> None:
        self._steps.call("kill", lambda: self._backend.kill(handle["epoch"]))

    def exits(self) -> list[DriverExit]:
        return [
            DriverExit(lease=DriverLease(SESSION, epoch), reason="exit status 1")
            for epoch in self._backend.take_exits(self._number)
        ]

    def watch(self, lease: DriverLease, handle: Handle) -> None:
        """Do nothing: the end of a driver reaches the node that started it."""

    def announce(self, addresses: list[str]) -> None:
        """Do nothing: the drivers know both nodes."""


class RealNode:
    """A node whose parts run when the explorer calls them."""

    def __init__(self, number: int, node: Node, store: MemoryStore) -> None:
        self.number = number
        self._node = node
        self._store = store
        self._tasks: Any
        self.link = node.driver_link
        self.settings = node.context.settings
        self.pools = [node._takeovers._pools, node._launches._pools]
        self.operations: tuple[Operation, ...] = ()
        """Work that waits or runs in its pools."""
        self._reset()

    def start(self) -> None:
        """Register the node and begin with the memory of a new process."""
        self._reset()
        node, context = self._node, self._node.context
        with self._store.write("node.register") as tx:
            nodes.register(
                tx,
                context.node_id,
                address=context.address,
                version="1",
                link_version=LINK_VERSION,
                seconds=context.lease_seconds,
                profiles=sorted(node._profiles),
                backends=node._launchers.backends,
            )

    def sweep(self) -> None:
        self._tasks._sweep()

    def renew(self) -> None:
        """Renew the node's lease, as the thread of NodeLease does."""
        context = self._node.context
        with self._store.write("node.renew") as tx:
            nodes.renew(tx, context.node_id, context.lease_seconds)

    def load(self, state: NodeState) -> None:
        """Give the node the memory of a state."""
        self.operations = state.operations
        for name, value in state.memory:
            if name.startswith("cell:"):
                self._cells()[name.removeprefix("cell:")].cell_contents = value
            else:
                setattr(self._tasks, name, value)

    def memory(self) -> tuple[tuple[str, Any], ...]:
        """Return the fields of the node's periodic tasks that change."""
        fields = {
            name: value
            for name, value in vars(self._tasks).items()
            if isinstance(value, bool | float) and name not in _CONSTANT
        }
        cells = {
            f"cell:{name}": cell.cell_contents
            for name, cell in self._cells().items()
            if isinstance(cell.cell_contents, bool)
        }
        return tuple(sorted({**fields, **cells}.items()))

    def _reset(self) -> None:
        self._tasks = self._node._make_tasks()
        self._tasks._tasks = [task for task in self._tasks._tasks if task.name in _TASKS]

    def _cells(self) -> dict[str, Any]:
        on_return = self._tasks._on_return
        return dict(zip(on_return.__code__.co_freevars, on_return.__closure__ or (), strict=True))


_SUBMIT, _IS_BUSY = BackendPools.submit, BackendPools.is_busy


@contextmanager
def open_nodes(store: MemoryStore, steps: Steps, backend: Backend) -> Iterator[list[RealNode]]:
    """Yield two nodes that have not started."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        patch = stack.enter_context
        both: list[RealNode] = []
        pools = WorldPools(both, steps)
        patch(mock.patch.object(Database, "open", return_value=store))
        patch(mock.patch.object(periodic_tasks, "read_boot_clock", store.read_clock))
        patch(mock.patch.object(periodic_tasks._LOG, "exception", _raise_hidden_error))
        patch(mock.patch.object(store_views, "new_id", _as_method(store.make_id)))
        patch(mock.patch.object(stream_transitions, "new_id", _as_method(store.make_id)))
        patch(mock.patch.object(launch_request.secrets, "token_urlsafe", return_value="token"))
        patch(mock.patch.object(BackendPools, "submit", _as_method(pools.submit)))
        patch(mock.patch.object(BackendPools, "is_busy", _as_method(pools.is_busy)))
        for number in range(2):
            home = folder / f"node{number}"
            home.mkdir()
            settings = make_settings(home, lease={"duration": "15s", "renew": "5s"})
            settings.layout.node_id_file.write_text(f"no_{number}")
            node = Node(
                settings,
                address=f"http://node{number}",
                embedded=False,
                launchers=[WorldLauncher(number, steps, backend)],
            )
            both.append(RealNode(number, node, store))
        yield both


class WorldPools:
    """Stands for the pools of both nodes: their work becomes operations of the world."""

    def __init__(self, nodes: list[RealNode], steps: Steps) -> None:
        self._nodes = nodes
        self._steps = steps

    def submit(
        self, pool: BackendPools, backend: str, session_id: str, act: Callable[[], None]
    ) -> None:
        owner = self._find(pool)
        if owner is None:
            _SUBMIT(pool, backend, session_id, act)
        elif not self._steps.is_replaying:
            node, number = owner
            node.operations += (Operation(number, session_id, act, _describe(act)),)

    def is_busy(self, pool: BackendPools, session_id: str) -> bool:
        owner = self._find(pool)
        if owner is None:
            return _IS_BUSY(pool, session_id)
        node, number = owner
        return any((each.pool, each.session_id) == (number, session_id) for each in node.operations)

    def _find(self, pool: BackendPools) -> tuple[RealNode, int] | None:
        """Return the node of a pool, and the number of the pool in this node.

        Return None for a pool of another node in this process: other tests share a node.
        """
        for node in self._nodes:
            if pool in node.pools:
                return node, node.pools.index(pool)
        return None


def _raise_hidden_error(summary: str, *values: object) -> None:
    raise HiddenError(summary % values)


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that receives the object as its first argument when a class has it."""

    def method(*values: Any) -> Any:
        return function(*values)

    return method


def handle_of(epoch: int) -> Handle:
    """Return the handle of the driver of an epoch."""
    return {"backend": "local", "epoch": epoch}


def _describe(act: Any) -> str:
    """Return a text that is equal for equal work: a method, and its arguments without times."""
    arguments = []
    for argument in act.args:
        values = asdict(argument) if is_dataclass(argument) else {"value": argument}
        values = {name: value for name, value in values.items() if "datetime" not in repr(value)}
        arguments.append(repr(sorted(values.items(), key=repr)))
    return f"{act.func.__name__}({', '.join(arguments)})"
