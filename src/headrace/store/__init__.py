"""The store: the single database that holds every state. No other package writes SQL.

Read in this order: `tables`, `database`, `clock`, `events`, then the folder of an entity.

Rules:
- Every function of an entity takes a transaction (`Tx`) first.
- Every change of state is one compare-and-set that returns whether it was applied. It appends one
  row to `events` in the same transaction.
- A transaction locks rows in the order session, statement, event. A transaction that changes
  several entities therefore changes the session first.
"""
