"""Streams: the checks of their statements, their definitions and their queries."""
