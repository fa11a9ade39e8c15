"""`headrace login`: sign in at the issuer of a server, with a browser on any device."""

from __future__ import annotations

import click

from headrace.cli.support.command import CommandContext, with_context
from headrace.cli.support.discovery import server_of_login
from headrace.cli.support.logins import Logins
from headrace.client.http import Json
from headrace.client.login import DeviceCode, sign_in
from headrace.config.home import logins_file
from headrace.errors import InvalidRequest, InvalidSetting


@click.command()
@click.option("--issuer", metavar="NAME", help="Issuer, if the server has several.")
@with_context
def login(context: CommandContext, *, issuer: str | None) -> None:
    """Sign in to a server, with a browser on any device.

    The commands that use the server renew the sign-in by themselves. It is kept in a file that only
    you can read, until `headrace logout`.
    """
    server = server_of_login(context.config)
    if context.config.token is not None:
        raise InvalidSetting(
            f"{context.config.source('token')} sets a token, which the commands would use.",
            hint="remove it, or use it instead of a login",
        )
    client = context.connect()
    chosen = _choose(client.sign_in_options(), issuer)

    def show(code: DeviceCode) -> None:
        context.terminal.notice(
            f"Open {code.complete_url or code.url} in a browser to sign in to {server}. Check that"
            f" the page belongs to {chosen['issuer']} and shows the code {code.user_code}."
        )

    given = sign_in(
        chosen["issuer"], chosen["client_id"], chosen["scopes"], chosen["parameters"], show
    )
    Logins(logins_file()).add(server, given)
    caller = client.whoami()
    roles = ", ".join(caller["roles"]) or "no role"
    context.terminal.out.write(f"You are {caller['owner']} ({roles}).\n")


def _choose(issuers: list[Json], name: str | None) -> Json:
    """Return the issuer with a name, or the only one. Raises InvalidRequest."""
    found = [each for each in issuers if name in {None, each["name"]}]
    if len(found) == 1:
        return found[0]
    names = ", ".join(each["name"] for each in issuers)
    if not issuers:
        raise InvalidRequest(
            "The server has no issuer at which commands can sign in.",
            hint="set HEADRACE_TOKEN to a token of the server",
        )
    raise InvalidRequest(f"Choose one of the issuers with --issuer: {names}.")
