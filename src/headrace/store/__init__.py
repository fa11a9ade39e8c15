"""The one database: where the truth about every state is kept, and nothing else writes SQL.

Read in this order: `tables`, `database`, then a module per entity. Every function of an entity
takes a `Tx` first; every change of state is one compare-and-set that says whether it landed, and
leaves one row in `events` in the same transaction.

Locks are taken in the order session, statement, event; a transaction that changes several things
changes the session first.
"""
