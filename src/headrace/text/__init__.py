"""Texts for people: printable characters, counts, times and durations."""
