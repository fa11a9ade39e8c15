"""A protocol of lines of text, as a proof that a front end needs only the services of `control`.

A client sends one command per line, and gets one line of JSON for each:

    TOKEN <token>
    SUBMIT <text of a statement>
    WAIT <statement> <seconds>
    PAGE <statement> <offset> <limit>
    CANCEL <statement>
    TABLES <database> <seconds>
    LOG <session> <bytes>

Each connection has a thread, as in servers of Thrift and gRPC. All statements of a connection run
in one session, which is replaced when it accepts no more statements.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

from headrace.control.identity.credentials import BearerToken
from headrace.control.node import Node
from headrace.control.policy import Caller
from headrace.errors import HeadraceError, InvalidRequest
from headrace.frontends.servers import Server
from headrace.grammar.catalog_queries import Lookup, NameKind
from headrace.model.failure import Failure
from headrace.model.statement import Statement, StatementSpec
from headrace.results.formats.json import write_rows
from headrace.results.reader import RowRange

_MAX_LINE = 1024 * 1024
Answer = dict[str, Any]


class LineServer(Server):
    """Serves the protocol on a free port of this host."""

    def __init__(self, node: Node) -> None:
        node_of_server = node

        class Connection(_Connection):
            node = node_of_server

        self._tcp = ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._tcp.daemon_threads = True

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._tcp.server_address[1])

    async def start(self) -> None:
        """Accept connections in a thread."""
        threading.Thread(target=self._tcp.serve_forever, args=(0.05,), daemon=True).start()

    async def stop(self) -> None:
        """Accept no more connections."""
        await asyncio.to_thread(self._tcp.shutdown)
        self._tcp.server_close()


class _Connection(StreamRequestHandler):
    """One client."""

    node: Node

    def setup(self) -> None:
        super().setup()
        self._caller: Caller | None = None
        self._session: str | None = None

    def handle(self) -> None:
        """Answer each line until the client closes the connection."""
        while line := self.rfile.readline(_MAX_LINE):
            try:
                answer = self._answer(line.decode().rstrip("\r\n"))
            except HeadraceError as error:
                answer = {"error": Failure.with_hint(error).describe(), "code": error.code}
            except ValueError:
                answer = {"error": "The line is not valid.", "code": InvalidRequest.code}
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    def _answer(self, line: str) -> Answer:
        command, _, text = line.partition(" ")
        if command == "TOKEN":
            self._caller = self.node.authenticator.identify(BearerToken(text))
            return {}
        if self._caller is None:
            self._caller = self.node.authenticator.identify(None)
        answers: dict[str, Callable[[Caller, str], Answer]] = {
            "SUBMIT": self._submit,
            "WAIT": self._wait,
            "PAGE": self._page,
            "CANCEL": self._cancel,
            "TABLES": self._list_tables,
            "LOG": self._read_log,
        }
        if command not in answers:
            raise InvalidRequest(f"{command[:20]!r} is not a command.")
        return answers[command](self._caller, text)

    def _submit(self, caller: Caller, text: str) -> Answer:
        statement = self.node.statements.submit_to_usable(
            caller, StatementSpec(text=text), session=self._session, catalog=None
        )
        self._session = statement.session_id
        return _describe(statement)

    def _wait(self, caller: Caller, text: str) -> Answer:
        statement_id, seconds = text.split()
        return _describe(self.node.statements.wait(caller, statement_id, float(seconds)))

    def _page(self, caller: Caller, text: str) -> Answer:
        statement_id, offset, limit = text.split()
        selection = RowRange(int(offset), int(limit))
        page = self.node.statements.read_page(caller, statement_id, selection)
        return {
            "columns": [[column.name, column.type.name] for column in page.rows.schema.columns],
            "rows": json.loads(b"".join(write_rows(page.rows, selection))),
            "next": page.next_offset,
        }

    def _cancel(self, caller: Caller, statement_id: str) -> Answer:
        return _describe(self.node.statements.cancel(caller, statement_id))

    def _list_tables(self, caller: Caller, text: str) -> Answer:
        database, seconds = text.split()
        lookup = Lookup(NameKind.TABLES, (database,))
        listing = self.node.catalog_listing.list_names(
            caller, lookup, session=self._session, seconds=float(seconds)
        )
        return _describe(listing.statement) | {"tables": listing.names}

    def _read_log(self, caller: Caller, text: str) -> Answer:
        session, size = text.split()
        return {"log": self.node.session_logs.read(caller, session, int(size)).text}


def _describe(statement: Statement) -> Answer:
    answer = {"id": statement.id, "session": statement.session_id, "state": str(statement.state)}
    if statement.failure is not None:
        answer["error"] = statement.failure.describe()
    return answer
