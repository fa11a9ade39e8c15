"""Runs of batch jobs: their steps, and what users do with them."""
