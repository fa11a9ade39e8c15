"""Streaming queries in the driver: sources, sinks and the supervisor that restarts them."""
