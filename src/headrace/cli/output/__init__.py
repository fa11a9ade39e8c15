"""Rows as text and files. Standard output gets data and nothing else."""
