"""The recorder of the tutorial, and its recording."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]

_PAGE = """\
# A page
```sh
echo 'an example before the first section is not typed'
```
## 1. First
```sh
cat > words <<'END'
one;
two
END
wc -l \\
  < words
echo "$(cat words |
  tr '\\n' ' ';
)"
```
```text
output is not typed
```
## 2. Second
```sh
seq 120; pwd | sed "s|$HOME|home|"
```
"""
_RECORDING = """\

==== 1. First
$ cat > words <<'END'
> one;
> two
> END
----
$ wc -l \\
>   < words
2
----
$ echo "$(cat words |
>   tr '\\n' ' ';
> )"
one; two
----

==== 2. Second
$ seq 120; pwd | sed "s|$HOME|home|"
"""


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    """Return the script as a module."""
    file = ROOT / "scripts" / "record_tutorial.py"
    spec = importlib.util.spec_from_file_location("record_tutorial", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@needs_tmux
def test_commands_are_typed_and_recorded_with_all_their_output(
    recorder: ModuleType, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(_PAGE)
    lines = "".join(recorder.record(page, tmp_path, {})).splitlines()
    # The times differ.
    text = "\n".join("----" if line.startswith("---- ") else line for line in lines)

    numbers = "\n".join(map(str, range(1, 121)))
    assert text.startswith(f"{_RECORDING}{numbers}\n{tmp_path}\n----\n")
    assert lines[-1].startswith("==== 4 commands in ")


@needs_tmux
def test_the_recording_stops_at_a_command_that_fails(recorder: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("## 1. One\n```sh\ntrue\ncat missing\ntouch after\n```\n")
    with pytest.raises(SystemExit, match="No such file"):
        list(recorder.record(page, tmp_path, {}))

    assert not (tmp_path / "after").exists()


def test_the_recording_has_the_commands_of_the_page(recorder: ModuleType) -> None:
    """After a change of the commands, run `make record-tutorial`."""
    recorded = recorder.RECORDING.read_text()
    typed = [line[2:] for line in recorded.splitlines() if line[:2] in {"$ ", "> "}]

    commands = recorder.read_commands(recorder.PAGE.read_text())
    assert typed == [line for command in commands for line in command.lines]
