"""Launchers: one implementation of the contract in `base.py` for each backend."""
