"""The user's logins at servers, in a file that only the user can read.

All commands of the user share it. A command renews an access token that is about to expire. A lock
keeps two commands from using one refresh token, because an issuer accepts it only once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from headrace.client.login import Login, renew
from headrace.errors import InvalidSetting
from headrace.files.file_locks import exclusive_lock
from headrace.files.private_files import create_private_folder, write_private


class Logins:
    """The logins in a file of the user."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def find_token(self, server: str) -> str | None:
        """Return an access token for a server; renew it if it expires soon. None: no login.

        Raises:
            Unauthorized: The issuer does not renew the token.
            SignInUnavailable: The issuer does not answer.
        """
        login = self._read().get(server)
        if login is None or login.is_fresh:
            return None if login is None else login.access_token
        with self._locked():
            # Another command may have renewed it meanwhile.
            logins = self._read()
            login = logins.get(server)
            if login is None:
                return None
            if not login.is_fresh:
                login = renew(login)
                self._write({**logins, server: login})
            return login.access_token

    def add(self, server: str, login: Login) -> None:
        """Keep a login, in place of an earlier one for this server."""
        with self._locked():
            self._write({**self._read(), server: login})

    def remove(self, server: str) -> Login | None:
        """Forget the login for a server, and return it; None if there is none."""
        with self._locked():
            logins = self._read()
            login = logins.pop(server, None)
            if login is not None:
                self._write(logins)
            return login

    @contextmanager
    def _locked(self) -> Iterator[None]:
        create_private_folder(self._file.parent)
        with exclusive_lock(self._file.with_suffix(".lock")):
            yield

    def _read(self) -> dict[str, Login]:
        try:
            if self._file.stat().st_mode & 0o077:
                raise InvalidSetting(
                    f"Other users can read the file of logins, {self._file}.",
                    hint=f"chmod 600 {self._file}, and sign in again",
                )
            content = json.loads(self._file.read_text())
            return {server: Login(**login) for server, login in content.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidSetting(
                f"The file of logins, {self._file}, cannot be read: {error}.",
                hint="delete it, and sign in again: headrace login",
            ) from error

    def _write(self, logins: Mapping[str, Login]) -> None:
        content = {server: asdict(login) for server, login in logins.items()}
        write_private(self._file, json.dumps(content, indent=2) + "\n")
