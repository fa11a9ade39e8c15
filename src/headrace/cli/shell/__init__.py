"""The interactive shell: a prompt whose statements share one session."""
