"""`headrace doctor`: what is wrong with this installation, and how to mend it."""

from __future__ import annotations

import typer

from headrace.cli import options


def doctor(
    *, output: options.Output = None, home: options.Home = None, debug: options.Debug = False
) -> None:
    """Look at Java, Spark, the store, the results location and the port."""
    raise typer.Exit(0)
