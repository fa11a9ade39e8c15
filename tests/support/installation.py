"""Installations of Headrace from its wheel, as a user makes them: without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LOCKS = [ROOT / "requirements" / f"{name}.lock" for name in ("demo", "java")]


def find_uv() -> str:
    """Return the uv that the scripts use."""
    return shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")


def build(target: str, folder: Path, source: Path = ROOT) -> Path:
    """Build a `wheel` or an `sdist` into an empty folder and return the file."""
    _run_uv(
        *("build", f"--{target}", "--python", sys.executable, "--out-dir", str(folder)),
        *("--build-constraints", str(_LOCKS[0]), "--require-hashes", str(source)),
    )
    (file,) = (file for file in folder.iterdir() if not file.name.startswith("."))
    return file


@dataclass(frozen=True, slots=True)
class Installation:
    """A virtual environment into which the wheel was installed."""

    folder: Path

    @classmethod
    def create(cls, folder: Path, wheel: Path, extras: str = "") -> Installation:
        """Install the wheel, with extras such as `[all]`, and the locked versions it needs."""
        _run_uv("venv", "--python", sys.executable, str(folder))
        _run_uv(
            *("pip", "install", "--python", str(folder)),
            *(flag for lock in _LOCKS for flag in ("--constraints", str(lock))),
            f"headrace{extras} @ {wheel.as_uri()}",
        )
        return cls(folder)

    def run(
        self, program: str, *arguments: str, cwd: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in a folder, without variables of this process."""
        return subprocess.run(
            [self.folder / "bin" / program, *arguments],
            cwd=cwd,
            env=self._environment(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HEADRACE_", "PYTHON")) and name != "JAVA_HOME"
        }
        path = f"{self.folder / 'bin'}{os.pathsep}{inherited['PATH']}"
        return {**inherited, "PATH": path, **variables}


def _run_uv(*arguments: str) -> None:
    """Run uv. The files of the locked packages are in its cache, so try without the network."""
    command = [find_uv(), *arguments, "--quiet"]
    offline = subprocess.run([*command, "--offline"], capture_output=True, check=False)
    if offline.returncode != 0:
        online = subprocess.run(command, capture_output=True, text=True, check=False)
        assert online.returncode == 0, online.stderr
