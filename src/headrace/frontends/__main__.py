"""`python -m headrace.frontends`: the process that `headrace serve` becomes."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from typing import Any

from headrace.config.extras import require_extra
from headrace.config.process_start import hide_pandas, pause_garbage_collection
from headrace.config.settings import load
from headrace.errors import HeadraceError
from headrace.text.readable import escape_controls


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(prog="headrace serve", description="Run a node.")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on; 0 picks a free port")
    parser.add_argument("--home", help="folder that holds the state (default ./.headrace)")
    parser.add_argument(
        "--no-auth", action="store_true", help="serve without a token; on loopback only"
    )
    parser.add_argument("--embedded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--open-pool", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args(arguments)
    http = {key: value for key in ("host", "port") if (value := getattr(flags, key)) is not None}
    if flags.no_auth:
        http["auth"] = False
    overrides: dict[str, Any] = {"http": http} if http else {}
    if flags.home is not None:
        overrides["home"] = flags.home
    pause_garbage_collection()
    hide_pandas()
    # Everything in the home is for its owner only: store, results, tables, logs.
    os.umask(0o077)
    # Nor may a core file hold tokens and secrets, of this process or of its drivers.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        require_extra("server", "A node")
        # It needs the packages of the extra.
        from headrace.frontends.process import exit_on_signals, serve  # noqa: PLC0415

        exit_on_signals()
        return serve(load(overrides), embedded=flags.embedded, opens_pool=flags.open_pool)
    except HeadraceError as error:
        hint = f" ({error.hint})" if error.hint else ""
        message = escape_controls(f"headrace: {error.message}{hint}")
        print(message, file=sys.stderr)  # noqa: T201 - an entry point
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
