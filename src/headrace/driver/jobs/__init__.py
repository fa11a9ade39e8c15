"""Tasks that a node gives to a driver for the jobs of its owner."""
