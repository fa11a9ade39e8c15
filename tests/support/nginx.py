"""nginx in front of test nodes, with the configuration that `deploy/` ships."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx" / "headrace.conf"
_NODES = ("node1:8040", "node2:8040", "node3:8040")
_PORT = "listen 8080;"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@contextmanager
def running_nginx(folder: Path, nodes: Sequence[str], port: int) -> Iterator[str]:
    """Run nginx for the block, with `deploy/nginx/headrace.conf`. Yield its URL.

    Only the addresses of the nodes and the port are substituted. Fail the test if nginx is not
    installed, or if it does not start.

    Args:
        nodes: Three addresses, each `host:port`.
        port: A free port of the loopback interface for nginx.
    """
    text = CONFIGURATION.read_text()
    address = f"127.0.0.1:{port}"
    for name, value in [*zip(_NODES, nodes, strict=True), (_PORT, f"listen {address};")]:
        assert text.count(name) == 1, name
        text = text.replace(name, value)
    folder.mkdir()
    (folder / "headrace.conf").write_text(text)
    (folder / "nginx.conf").write_text(_main_configuration(folder))
    program = _find_program()
    files = ["-p", str(folder), "-e", "error.log", "-c", "nginx.conf"]
    subprocess.run([program, "-t", "-q", *files], check=True)
    process = subprocess.Popen([program, *files], stdin=subprocess.DEVNULL)
    try:

        def accepts() -> bool:
            assert process.poll() is None, (folder / "error.log").read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(accepts, what="nginx listens")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


def _main_configuration(folder: Path) -> str:
    """Return the file that includes the one under test. One process, without root's defaults."""
    paths = "".join(f"    {name}_temp_path {folder / name};\n" for name in _TEMPORARY)
    return (
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log error.log warn;\n"
        "events { worker_connections 256; }\n"
        f"http {{\n    access_log off;\n{paths}    include headrace.conf;\n}}\n"
    )


def _find_program() -> str:
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/usr/local/sbin"])
    program = shutil.which("nginx", path=path)
    if program is None:
        pytest.fail("nginx is not installed, and this test needs it. Run: scripts/setup-nginx")
    return program
