"""Writes to tables of files: a commit protocol that isolates them, and turns for overwrites."""
