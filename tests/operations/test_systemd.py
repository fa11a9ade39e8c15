"""The systemd unit of a node: systemd reads it, and it fits the node that it starts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from headrace.api.http.connection_limits import _SHUTDOWN_SECONDS
from headrace.settings import ClusterSettings

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "headrace.service"
_PROGRAM = "/opt/headrace/bin/headrace"


def _setting(name: str) -> str:
    """Return the value of a setting that the unit contains once."""
    values = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert len(values) == 1, name
    return str(values[0])


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """Other systems than Linux have no systemd; there, this test reads the form of each line."""
    if shutil.which("systemd-analyze") is None:
        form = re.compile(r"(#.*|\[(Unit|Service|Install)\]|[A-Z][A-Za-z]+=.*)?")
        assert [line for line in UNIT.read_text().splitlines() if not form.fullmatch(line)] == []
        return
    unit = tmp_path / "headrace.service"
    program = Path(sys.executable).with_name("headrace")
    unit.write_text(UNIT.read_text().replace(_PROGRAM, str(program)))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    # systemd only warns about values and names that it does not know.
    complaints = [line for line in run.stderr.splitlines() if "headrace.service" in line]

    assert (run.returncode, complaints) == (0, [])


def test_drivers_outlive_the_node_and_each_other() -> None:
    assert (_setting("KillMode"), _setting("OOMPolicy")) == ("process", "continue")
    for setting in ("PrivateTmp", "MemoryDenyWriteExecute", "PrivatePIDs", "DynamicUser"):
        assert f"\n{setting}=" not in UNIT.read_text()


def test_systemd_waits_until_a_node_has_drained() -> None:
    drain = ClusterSettings().drain_timeout.total_seconds()

    assert int(_setting("TimeoutStopSec")) > drain + _SHUTDOWN_SECONDS


def test_the_node_runs_as_a_user_of_its_own_and_reads_its_secrets_from_a_file() -> None:
    assert _setting("User") == "headrace"
    assert _setting("EnvironmentFile") == "/etc/headrace/headrace.env"
    assert _setting("Environment") == "HEADRACE_CONFIG=/etc/headrace/headrace.toml"
    assert _setting("ExecStart") == f"{_PROGRAM} serve"
