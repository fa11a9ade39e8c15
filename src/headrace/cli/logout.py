"""`headrace logout`: end the sign-in to a server."""

from __future__ import annotations

import click

from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.discovery import server_of_login
from headrace.cli.support.logins import Logins
from headrace.client.login import revoke
from headrace.config.home import logins_file
from headrace.errors import SignInUnavailable


@click.command()
@with_context
def logout(context: CommandContext) -> None:
    """End the sign-in to a server."""
    server = server_of_login(context.config)
    ended = Logins(logins_file()).remove(server)
    if ended is None:
        context.terminal.notice(f"There is no sign-in to {server}.")
        return
    try:
        revoke(ended)
    except SignInUnavailable as error:
        context.terminal.warn(f"The sign-in is forgotten, but not revoked: {error.message}")
        return
    context.terminal.notice(f"The sign-in to {server} has ended.")
