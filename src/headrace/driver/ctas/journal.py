"""The journal of one transaction, as the driver keeps it over the link."""

from __future__ import annotations

import time

from headrace.driver.link import Link
from headrace.errors import HeadraceError
from headrace.model.lifecycle import TransactionState
from headrace.model.messages import Transact
from headrace.model.transaction import Staged

_LONGEST_PAUSE = 1.0
_FIRST_PAUSE = 0.05


class Cancelled(HeadraceError):
    """A cancel came before the table was published."""

    code = "cancelled"


class Journal:
    """Writes down each step before it is taken."""

    def __init__(self, link: Link, transaction_id: str, statement_id: str) -> None:
        self.id = transaction_id
        self._link = link
        self._statement_id = statement_id

    def write(self, state: TransactionState, staged: Staged | None = None) -> None:
        """Raises Cancelled when a cancel was asked for and the step would lead on.

        Waits while another statement publishes a table of the same name.
        """
        message = Transact(id=self.id, statement_id=self._statement_id, state=state, staged=staged)
        pause = _FIRST_PAUSE
        while True:
            answer = self._link.transact(message)
            if answer.landed:
                return
            if not answer.busy:
                raise Cancelled
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
