"""Hosts on one machine: each has PID, mount and network namespaces of its own.

A process of one host can neither see nor signal a process of another, and a loopback address means
another host. All hosts share the file system and reach the machine itself over a bridge.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import psutil
from tests.support.waiting import wait_until

# The first process of a PID namespace: it adopts orphans, and its end ends the namespace.
_INIT = """
import os, signal

def reap(*_):
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass

signal.signal(signal.SIGCHLD, reap)
while True:
    signal.pause()
"""
_NEEDED_PROGRAMS = ("ip", "unshare", "nsenter", "mount")
_PROBE = [
    *("unshare", "--pid", "--fork", "--mount", "--mount-proc", "--net"),
    *("ip", "link", "add", "type", "veth"),
]


def missing_for_hosts() -> str | None:
    """Return what this machine lacks for hosts, or None if it can have them."""
    if os.geteuid() != 0:
        return "only root can create network namespaces"
    missing = [program for program in _NEEDED_PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"these programs are not installed: {', '.join(missing)}"
    if subprocess.run(_PROBE, capture_output=True, check=False).returncode:
        return "the machine permits no namespaces, or no virtual network links"
    return None


class Host:
    """A host that `kill` ends with all its processes, and `start` starts again."""

    def __init__(self, network: str, address: str, link: str) -> None:
        self.address = address
        self._network = network
        self._link = link
        self.start()

    def start(self) -> None:
        """Start the host with new PID and mount namespaces."""
        self._process = subprocess.Popen(
            [
                *("ip", "netns", "exec", self._network),
                *("unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child"),
                *(sys.executable, "-c", _INIT),
            ],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._init = wait_until(self._find_init, what="the host has its first process")

    def kill(self) -> None:
        """End the host: every process on it dies at once. `has_ended` then becomes true.

        The parents of processes on the host must reap them, or the host never ends.
        """
        self._init.kill()

    def cut_network(self) -> None:
        """Disconnect the host: packets are lost in both directions, and no connection is closed."""
        _ip("link", "set", self._link, "down")

    def restore_network(self) -> None:
        """Connect the host again."""
        _ip("link", "set", self._link, "up")

    def hide(self, folder: Path) -> None:
        """Make a folder of the machine empty on this host, until the host ends."""
        self._mount("-t", "tmpfs", "hidden", str(folder))

    def replace_file(self, target: Path, source: Path) -> None:
        """Let a file of the machine have other contents on this host, until the host ends."""
        self._mount("--bind", str(source), str(target))

    def close(self) -> None:
        """End the host, and wait for its end."""
        self.kill()
        wait_until(self.has_ended, what="the host has ended")

    def has_ended(self) -> bool:
        """Return whether all processes of the host have ended."""
        return self._process.poll() is not None

    def enter(self) -> list[str]:
        """Return the words that, in front of a command, run it on this host."""
        return ["nsenter", f"--target={self._init.pid}", "--pid", "--mount", "--net", "--"]

    def _mount(self, *arguments: str) -> None:
        subprocess.run([*self.enter(), "mount", *arguments], check=True)

    def _find_init(self) -> psutil.Process | None:
        children = psutil.Process(self._process.pid).children()
        started = [child for child in children if _INIT in child.cmdline()]
        return started[0] if started else None


class Network:
    """A bridge to which hosts are attached. The machine has the first address of its network."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(2)
        self._bridge = f"hr{self._token}"
        self._prefix = f"10.{77 + secrets.randbelow(100)}.{secrets.randbelow(256)}"
        self._stack = ExitStack()
        self._count = 0
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._relays = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.address = f"{self._prefix}.1"
        """Address of the machine, as hosts reach it."""
        _ip("link", "add", "name", self._bridge, "type", "bridge")
        self._stack.callback(_ip, "link", "del", self._bridge)
        _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        self._relays.start()

    def add_host(self) -> Host:
        """Create a host with an address of its own, and start it."""
        self._count += 1
        name, link = f"hr{self._token}{self._count}", f"hv{self._token}{self._count}"
        address = f"{self._prefix}.{self._count + 1}"
        _ip("netns", "add", name)
        self._stack.callback(_ip, "netns", "del", name)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", link, "master", self._bridge, "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")
        host = Host(name, address, link)
        self._stack.callback(host.close)
        return host

    def relay(self, port: int) -> int:
        """Make a loopback port of the machine reachable from the hosts.

        Return the port at `address` that leads to it. PostgreSQL and the metastore listen on
        loopback only.
        """
        opened = asyncio.run_coroutine_threadsafe(self._open_relay(port), self._loop)
        return opened.result(timeout=10)

    def close(self) -> None:
        """End all hosts and remove the network."""
        self._stack.close()
        asyncio.run_coroutine_threadsafe(self._close_relays(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._relays.join()
        self._loop.close()

    async def _open_relay(self, port: int) -> int:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()
                return
            await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

        server = await asyncio.start_server(serve, self.address, 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _close_relays(self) -> None:
        for server in self._servers:
            server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def find_child(process: subprocess.Popen[bytes]) -> psutil.Process | None:
    """Return the process that `nsenter` has started, or None if there is none yet."""
    try:
        children = psutil.Process(process.pid).children()
    except psutil.NoSuchProcess:
        return None
    return children[0] if children else None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # The other side has ended: so does this connection.
    finally:
        writer.close()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
