"""Failed sign-ins by name and address, which slow down those who guess passwords.

The store has the counts, so that no restart and no other node forgets them; its clock decides.
An attempt is counted before its password is checked: of many at once, only the free attempts are
checked. Three counts limit an attempt: the count of the name from this address, the count of the
name from any address, and the count of the address with any name. The last two only slow attempts
down, because others could otherwise lock out a user, or all users behind one address.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

from sqlalchemy import ColumnElement, case, delete, select, tuple_, update

from headrace.errors import TooManyFailures
from headrace.store.clock import clock, seconds_between
from headrace.store.database import Tx
from headrace.store.tables import sign_in_failures as table
from headrace.store.upserts import insert_into

_FORGOTTEN_SECONDS = 3600.0
"""Time after the last pause at which all failures are forgotten."""
_ANY = ""
"""Name or address of a count that is for all names or all addresses."""
_LONGEST_ADDRESS = 256
_NETWORK_BITS = 64
"""Bits of an address of IPv6 that a provider gives to a customer."""


class _Count(NamedTuple):
    """One of the counts of an attempt."""

    name: str
    address: str
    free: int
    """Failures without a pause. After the n-th further one, the pause is n² seconds."""
    longest_pause: float
    """In seconds."""


def begin(tx: Tx, name: str, address: str) -> None:
    """Count an attempt as a failure, before its password is checked.

    Raises:
        TooManyFailures: There is a pause. The error rolls the transaction back.
    """
    for count in _counts(name, address):
        if not _increment(tx, count):
            seconds = tx.execute(
                select(seconds_between(clock(), table.c.free_at)).where(_is_key(count))
            ).scalar_one()
            error = TooManyFailures(hint="Try again later.")
            error.retry_seconds = seconds
            raise error


def take_back(tx: Tx, name: str, address: str) -> None:
    """Take back an attempt whose password could not be checked."""
    for count in _counts(name, address):
        tx.execute(delete(table).where(_is_key(count), table.c.failures <= 1))
        fewer = update(table).where(_is_key(count))
        tx.execute(fewer.values(failures=table.c.failures - 1, free_at=clock()))


def clear(tx: Tx, name: str, address: str) -> None:
    """Take back an attempt with the right password, and forget the failures before it."""
    take_back(tx, name, address)
    own = next(_counts(name, address))
    tx.execute(delete(table).where(_is_key(own)))


def delete_forgotten(tx: Tx, limit: int) -> int:
    """Delete at most `limit` counts that are forgotten. Return their number."""
    key = tuple_(table.c.name, table.c.address)
    # An attempt that increments a count has locked its row, and the row is not forgotten then.
    forgotten = (
        select(table.c.name, table.c.address)
        .where(table.c.free_at < clock(-_FORGOTTEN_SECONDS))
        .order_by(table.c.free_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return tx.execute(delete(table).where(key.in_(forgotten))).rowcount


def _counts(name: str, address: str) -> Iterator[_Count]:
    """Yield the counts of an attempt, in an order in which no two attempts block each other.

    Without an address, the count of the name is the only one.
    """
    name, address = _hash(name), _network(address)
    if address == _ANY:
        yield _Count(name, _ANY, free=50, longest_pause=5.0)
        return
    yield _Count(name, address, free=5, longest_pause=900.0)
    yield _Count(name, _ANY, free=50, longest_pause=5.0)
    yield _Count(_ANY, address, free=100, longest_pause=1.0)


def _increment(tx: Tx, count: _Count) -> bool:
    """Add one failure, and begin the pause that follows. Return False if there is a pause now."""
    is_forgotten = table.c.free_at < clock(-_FORGOTTEN_SECONDS)
    over = table.c.failures + 1 - count.free
    pause = case(
        (is_forgotten | (over <= 0), 0.0),
        (over * over > count.longest_pause, count.longest_pause),
        else_=over * over,
    )
    row = insert_into(tx, table).values(
        name=count.name, address=count.address, failures=1, free_at=clock()
    )
    upsert = row.on_conflict_do_update(
        index_elements=[table.c.name, table.c.address],
        set_={
            "failures": case((is_forgotten, 1), else_=table.c.failures + 1),
            "free_at": clock(pause),
        },
        where=table.c.free_at <= clock(),
    ).returning(table.c.failures)
    return tx.execute(upsert).one_or_none() is not None


def _is_key(count: _Count) -> ColumnElement[bool]:
    return (table.c.name == count.name) & (table.c.address == count.address)


def _hash(name: str) -> str:
    """Return a hash of a name without what a directory may ignore: case, width, accents, spaces.

    Users type passwords as names by mistake, and the store must not contain these.
    """
    parts = unicodedata.normalize("NFKD", name).casefold()
    folded = [each for each in parts if not each.isspace() and not unicodedata.combining(each)]
    return hashlib.sha256("".join(folded).encode()).hexdigest()


def _network(address: str) -> str:
    """Return an address, or the network of one customer for an address of IPv6."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address[:_LONGEST_ADDRESS]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((int(parsed), _NETWORK_BITS), strict=False))
