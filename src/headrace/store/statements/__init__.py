"""Statements: their rows, queue, changes of state, results and limits."""
