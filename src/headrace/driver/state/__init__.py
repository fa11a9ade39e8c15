"""The state of a session: captured after statements that may change it, restored by a new driver.

Each kind of state has a module with `capture` and `restore`. docs/guides/sessions.md lists what
outlives a driver and what does not.
"""
