"""The journal of one transaction, as the driver keeps it over the link."""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.driver.link import NodeLink
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

    def __init__(
        self,
        link: NodeLink,
        transaction_id: str,
        statement_id: str,
        *,
        when_busy: Callable[[], None] = lambda: None,
    ) -> None:
        """`when_busy` is called now and then while another publishes a table of the same name."""
        self.id = transaction_id
        self._link = link
        self._statement_id = statement_id
        self._when_busy = when_busy

    def write(
        self, state: TransactionState, staged: Staged | None = None, *, published: bool = False
    ) -> None:
        """Raises Cancelled when a cancel was asked for and the step would lead on.

        For a table that is `published` already a cancel comes too late. Waits while another
        statement publishes a table of the same name.
        """
        message = Transact(
            id=self.id,
            statement_id=self._statement_id,
            state=state,
            staged=staged,
            published=published,
        )
        pause = _FIRST_PAUSE
        while True:
            answer = self._link.transact(message)
            if answer.applied:
                return
            if not answer.busy:
                raise Cancelled
            if pause == _LONGEST_PAUSE:
                # It may be one that nobody drives any more.
                self._when_busy()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
