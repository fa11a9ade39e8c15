"""Rows of results: how they are laid out, written, read back and formatted. No PySpark in here."""
