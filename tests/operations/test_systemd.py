"""The systemd units of a node: systemd reads them, and they fit the node that they start."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.config.settings import ClusterSettings
from headrace.frontends.http.server import _SHUTDOWN_SECONDS

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
SYSTEM, USER = FOLDER / "headrace.service", FOLDER / "user" / "headrace.service"
PROGRAMS = {
    SYSTEM: "/opt/headrace/bin/headrace",
    USER: "%h/headrace-env/bin/headrace",
}
UNITS = pytest.mark.parametrize("unit", PROGRAMS, ids=lambda unit: unit.parent.name)


def setting(unit: Path, name: str) -> str:
    """Return the value of a setting that the unit contains once."""
    values = re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)
    assert len(values) == 1, name
    return str(values[0])


@UNITS
def test_systemd_understands_the_unit(unit: Path, tmp_path: Path) -> None:
    """Other systems than Linux have no systemd; there, this test reads the form of each line."""
    if shutil.which("systemd-analyze") is None:
        form = re.compile(r"(#.*|\[(Unit|Service|Install)\]|[A-Z][A-Za-z]+=.*)?")
        assert [line for line in unit.read_text().splitlines() if not form.fullmatch(line)] == []
        return
    installed = tmp_path / "headrace.service"
    program = Path(sys.executable).with_name("headrace")
    installed.write_text(unit.read_text().replace(PROGRAMS[unit], str(program)))
    run = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed)],
        capture_output=True,
        text=True,
        check=False,
    )
    # systemd only warns about values and names that it does not know.
    complaints = [line for line in run.stderr.splitlines() if "headrace.service" in line]

    assert (run.returncode, complaints) == (0, [])


@UNITS
def test_drivers_outlive_the_node_and_each_other(unit: Path) -> None:
    assert (setting(unit, "KillMode"), setting(unit, "OOMPolicy")) == ("process", "continue")
    for name in ("PrivateTmp", "MemoryDenyWriteExecute", "PrivatePIDs", "DynamicUser"):
        assert f"\n{name}=" not in unit.read_text()


@UNITS
def test_systemd_waits_until_a_node_has_drained(unit: Path) -> None:
    drain = ClusterSettings().drain_timeout.total_seconds()

    assert int(setting(unit, "TimeoutStopSec")) > drain + _SHUTDOWN_SECONDS


@UNITS
def test_systemd_starts_the_program_that_the_guide_installs(unit: Path) -> None:
    guide = FOLDER.parents[1] / "docs" / "guides" / "install-and-run-as-a-service.md"
    environment = PROGRAMS[unit].removesuffix("/bin/headrace").replace("%h", "~")

    assert setting(unit, "ExecStart") == f"{PROGRAMS[unit]} serve"
    assert f"python3 -m venv {environment}\n" in guide.read_text()


def test_the_node_runs_as_a_user_of_its_own_and_reads_its_secrets_from_a_file() -> None:
    assert setting(SYSTEM, "User") == "headrace"
    assert setting(SYSTEM, "EnvironmentFile") == "/etc/headrace/headrace.env"
    assert setting(SYSTEM, "Environment") == "HEADRACE_CONFIG=/etc/headrace/headrace.toml"


def test_the_node_of_a_user_has_the_home_that_commands_in_the_home_directory_use() -> None:
    assert setting(USER, "WorkingDirectory") == "%h"
    assert setting(USER, "Environment") == "HEADRACE_HOME=%h/.headrace"
    assert "\nUser=" not in USER.read_text()
