"""Type the commands of the tutorial into a terminal, and record the screen with times.

    python3 scripts/record_tutorial.py    record docs/tutorial/first-hour.md as recording.txt

The commands come from the page itself. tmux provides the terminal: a bash in it receives the keys
as a reader would type them, in the clone and with an empty home directory. bash notifies this
program at each prompt, so that each command is typed when the one before has ended. The recording
stops at the first command that fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"
RECORDING = PAGE.with_name("recording.txt")
COLUMNS = 100
_LINES = 50
_COMMAND_SECONDS = 1800.0
"""Longest time of one command, for example of the download of PySpark."""
_PART = re.compile(
    r"^## (?P<heading>[^\n]+)$|^```sh\n(?P<block>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the page, with the heading of its section."""

    section: str
    lines: list[str]


def read_commands(page: str) -> list[Command]:
    """Return the commands of a page, from the first section on: the lead only shows an example."""
    commands, section = [], None
    for part in _PART.finditer(page):
        if part["heading"] is not None:
            section = part["heading"]
        elif section is not None:
            commands += [Command(section, lines) for lines in _split_block(part["block"])]
    return commands


def _split_block(block: str) -> Iterator[list[str]]:
    """Yield the lines of each command: bash says whether a command is complete."""
    lines: list[str] = []
    for line in block.splitlines():
        lines.append(line)
        if _is_complete("\n".join(lines)):
            yield lines
            lines = []
    if lines:
        raise SystemExit(f"A block ends within a command: {lines}")


def _is_complete(text: str) -> bool:
    if text.endswith("\\"):
        return False
    check = ["bash", "-n", "-c", text]
    run = subprocess.run(check, capture_output=True, text=True, check=False)
    # bash only warns about a here-document without its end.
    return run.returncode == 0 and not run.stderr


class Terminal:
    """A bash in a terminal of tmux, with a home directory of its own."""

    def __init__(self, folder: Path, working_directory: Path, variables: dict[str, str]) -> None:
        """Start tmux and wait for the first prompt.

        Args:
            folder: Empty folder for the files of the recording, not visible in the terminal.
            variables: Environment of the shell.
        """
        self._status = folder / "status"
        self._tmux = [*("tmux", "-S", str(folder / "tmux"), "-f", "/dev/null")]
        start_file = folder / "bashrc"
        notify = f"{' '.join(self._tmux)} wait-for -S prompt"
        start_file.write_text(
            "PS1='$ '\nPS2='> '\nunset HISTFILE\n"
            f"PROMPT_COMMAND='echo $? > {self._status}; {notify}'\n"
        )
        # The history is so long that no line of a recording leaves it.
        self._run("set-option", "-g", "history-limit", "100000", ";", "new-session", "-d",
                  "-x", str(COLUMNS), "-y", str(_LINES), "-c", str(working_directory),
                  "env", "-i", *(f"{name}={value}" for name, value in variables.items()),
                  "bash", "--noprofile", "--rcfile", str(start_file), "-i")  # fmt: skip
        self._wait_for_prompt()

    def type(self, lines: list[str]) -> tuple[str, float]:
        """Type a command. Return what the screen shows for it, and the seconds that it took.

        Raises SystemExit if the command fails.
        """
        begin = self._prompt_line()
        for number, line in enumerate(lines, 1):
            # tmux takes a semicolon at the end of an argument for its own.
            self._run("send-keys", "-l", "--", re.sub(";$", r"\;", line))
            typed_at = self._prompt_line()
            began_at = time.monotonic()
            self._run("send-keys", "Enter")
            if number < len(lines):
                # The terminal itself would show keys that come before the shell reads them.
                self._wait_for_cursor("> ", below=typed_at)
        self._wait_for_prompt()
        seconds = time.monotonic() - began_at
        history = int(self._run("display-message", "-p", "#{history_size}"))
        end = self._prompt_line() - 1
        screen = self._run(
            *("capture-pane", "-p", "-J", "-S", str(begin - history), "-E", str(end - history))
        )
        text = "\n".join(line.rstrip() for line in screen.splitlines())
        if self._status.read_text().strip() != "0":
            raise SystemExit(f"The command failed:\n{text}")
        return text, seconds

    def close(self) -> None:
        """End the shell."""
        self._run("kill-server")

    def _prompt_line(self) -> int:
        """Return the line of the cursor, counted from the begin of the history."""
        return int(self._run("display-message", "-p", "#{e|+:#{history_size},#{cursor_y}}"))

    def _wait_for_prompt(self) -> None:
        self._run("wait-for", "prompt")
        # The shell prints its prompt after the notification.
        self._wait_for_cursor("$ ")

    def _wait_for_cursor(self, prompt: str, *, below: int = -1) -> None:
        """Wait until the cursor is behind a prompt, in a line below another one."""
        deadline = time.monotonic() + 60
        while (
            self._run("display-message", "-p", "#{cursor_x}").strip() != str(len(prompt))
            or self._prompt_line() <= below
        ):
            if time.monotonic() > deadline:
                raise SystemExit("The shell shows no prompt.")

    def _run(self, *arguments: str) -> str:
        run = subprocess.run(
            [*self._tmux, *arguments],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        if run.returncode != 0:
            raise SystemExit(f"tmux {arguments[0]}: {run.stderr.strip()}")
        return run.stdout


def record(page: Path, working_directory: Path, variables: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the recording of a page.

    Args:
        variables: Environment of the shell, besides those that every user has.
    """
    with tempfile.TemporaryDirectory(prefix="recording-") as folder:
        home = Path(folder) / "home"
        home.mkdir()
        environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "screen-256color",
            "PATH": f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}",
            **variables,
        }
        terminal = Terminal(Path(folder), working_directory, environment)
        try:
            for line in _record_commands(terminal, read_commands(page.read_text())):
                yield line.replace(str(home), "/home/reader")
        finally:
            _stop_node(home, environment)
            terminal.close()


def _record_commands(terminal: Terminal, commands: list[Command]) -> Iterator[str]:
    section = None
    began_at = time.monotonic()
    for command in commands:
        if command.section != section:
            section = command.section
            yield f"\n==== {section}\n"
        text, seconds = terminal.type(command.lines)
        yield f"{text}\n"
        yield f"---- {seconds:.1f} s\n"
    yield f"\n==== {len(commands)} commands in {time.monotonic() - began_at:.0f} s\n"


def _stop_node(home: Path, environment: dict[str, str]) -> None:
    """End the nodes of the recording, also if it stopped early."""
    for program in home.glob("*/bin/headrace"):
        for state in home.glob("*/.headrace"):
            stop = [str(program), "stop", "--drivers", "--quiet", "--home", str(state)]
            subprocess.run(stop, env=environment, check=False)


def _describe_host() -> str:
    java = shutil.which("java") or "false"
    run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "([^"]+)"', run.stderr)
    return (
        f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"Java {version[1] if version else 'missing'}"
    )


def main() -> None:
    """Record the tutorial."""
    argparse.ArgumentParser(description="Record docs/tutorial/first-hour.md.").parse_args()
    if shutil.which("tmux") is None:
        raise SystemExit("tmux was not found. Install it, for example: apt-get install tmux")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in {"JAVA_HOME", "SSL_CERT_FILE"} or name.startswith(("PIP_", "UV_"))
    }
    # pip would print the addresses of this machine's package index. The node of another user on the
    # default port must not be used.
    variables = {**inherited, "PIP_QUIET": "1", "HEADRACE_SERVER": "embedded"}
    header = (
        f"The commands of {PAGE.name}, typed into a terminal of {COLUMNS} columns by "
        f"scripts/record_tutorial.py.\nThe line below each command has its time. "
        f"{_describe_host()}. {time.strftime('%Y-%m-%d')}.\n"
        "The home directory of the reader is empty: it has no caches of pip or of Headrace. "
        "PIP_QUIET=1 is set.\n"
    )
    lines = [header]
    for line in record(PAGE, ROOT, variables):
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line)
    RECORDING.write_text("".join(lines))


if __name__ == "__main__":
    main()
