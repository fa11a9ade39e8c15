"""Entry point of the driver: start the JVM, then import the rest of the driver and run it.

The argument is the path of a bootstrap file, or `--handoff` and the location of a handoff object.
The process reads a bootstrap file before it imports anything large, and removes the secrets from
it. `model/messages.py` describes the fields.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from headrace.config.process_start import pause_garbage_collection, resume_garbage_collection
from headrace.driver.jvm_start import JvmStart
from headrace.files.private_files import write_private

_SECRETS: dict[str, Any] = {"token": None, "flight_secret": None, "secrets": None, "conf": {}}
"""Fields with secrets, and what remains of them."""


def take_bootstrap(file: Path) -> dict[str, Any]:
    """Read the bootstrap file, and remove the secrets from it. Return all fields.

    Users' SQL can read the file later. Raises OSError and ValueError if the file cannot be read,
    and SystemExit if it has no token any more.
    """
    fields: dict[str, Any] = json.loads(file.read_text())
    if fields.get("token") is None:
        raise SystemExit(f"Another driver has already read the token in {file}.")
    write_private(file, json.dumps(fields | _SECRETS))
    return fields


def main(arguments: list[str]) -> int:
    """Serve the session until it is closed, and return the exit code of the process.

    Raises SystemExit if another driver has read the bootstrap file before, or if there is none.
    """
    # Ctrl-C is meant for the program in the terminal, for example `headrace sql`. The JVM inherits
    # this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not arguments:
        raise SystemExit("Nodes start this program. Run headrace serve or headrace sql instead.")
    if arguments[0] == "--handoff":
        from headrace.driver.process import run_handoff  # noqa: PLC0415 - as below

        return run_handoff(arguments[1])
    file = Path(arguments[0])
    # The secrets are removed from the file before a JVM can read it.
    bootstrap = take_bootstrap(file)
    # A JVM that has started this process, such as spark-submit, is the JVM of the driver.
    has_jvm = "PYSPARK_GATEWAY_PORT" in os.environ
    jvm = None if has_jvm else JvmStart(bootstrap["conf"], file)
    pause_garbage_collection()
    # These imports take a second, in which the JVM starts.
    from headrace.driver.process import run  # noqa: PLC0415

    resume_garbage_collection()
    return run(bootstrap, file, jvm)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
