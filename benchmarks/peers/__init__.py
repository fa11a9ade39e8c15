"""The measured systems. Each runs in separate processes and starts in a context manager."""
