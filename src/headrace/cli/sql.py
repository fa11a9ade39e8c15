"""`headrace sql`: run statements and write their rows."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from headrace.cli import options, script
from headrace.cli.chosen_session import ChosenSession
from headrace.cli.command import command
from headrace.cli.interrupts import Interrupts
from headrace.cli.output.formats import Format
from headrace.cli.present import Presenter
from headrace.cli.run import Plan, Run
from headrace.errors import InvalidRequest


def sql(
    texts: options.Texts = None,
    *,
    file: options.Files = None,
    output: options.Output = None,
    session: options.Session = None,
    create: options.Create = False,
    profile: options.Profile = None,
    conf: options.Conf = None,
    param: options.Params = None,
    row_limit: options.RowLimit = None,
    byte_limit: options.ByteLimit = None,
    result: options.Result = options.Disposition.AUTO,
    detach: options.Detach = False,
    wait: options.Wait = None,
    on_error: options.WhenFailed = options.OnError.STOP,
    results: options.Results = "all",
    quiet: options.Quiet = False,
    server: options.Server = None,
    home: options.Home = None,
    debug: options.Debug = False,
) -> None:
    """Run SQL and write its rows.

    SQL comes from the arguments, from files, or from a pipe; a text may hold several statements.
    """
    with command(server=server, home=home, debug=debug, quiet=quiet) as this:
        chosen = this.format(output)
        target = ChosenSession(
            session, create=create, profile=profile, conf=options.pairs(conf, "--conf")
        )
        fields = {
            "parameters": options.parameters(param),
            "row_limit": row_limit,
            "byte_limit": byte_limit,
            "result": result.value,
        }
        limit = None if wait is None else options.seconds(wait, "--wait")
        with Interrupts(lambda: this.terminal.tell("Cancelling … (again to leave)")) as interrupts:
            with interrupts.stoppable():
                pieces = script.split(script.read(texts or (), file or ()))
                shown = _shown(results, pieces, chosen)
                client = this.connect()
                plan = Plan(
                    fields={key: value for key, value in fields.items() if value},
                    session=target.resolve(client),
                    private=session is None,
                    on_error=on_error,
                    shown=shown,
                    limit=limit,
                    detach=detach,
                    plain_numbers=chosen is not None and chosen.plain_numbers,
                )
            presenter = Presenter(client, this.terminal, chosen)
            code = Run(client, this.terminal, presenter, interrupts, plan).run(pieces)
        raise typer.Exit(code)


def _shown(results: str, pieces: Sequence[script.Piece], chosen: Format | None) -> int | None:
    """The number of the only statement whose result is written; None for all."""
    count = len(pieces)
    if results == "all":
        if chosen is not None and chosen.binary and count > 1:
            raise InvalidRequest(
                f"One {chosen} output holds one result, and there are {count} statements.",
                hint="choose one by --results last or --results N",
            )
        return None
    if results == "last":
        return count
    if results.isdecimal() and 1 <= int(results) <= count:
        return int(results)
    raise InvalidRequest(f"--results {results!r}: write all, last, or a number from 1 to {count}.")
