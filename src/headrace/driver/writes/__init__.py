"""Writes to tables of files: a commit protocol that isolates them, and write locks."""
