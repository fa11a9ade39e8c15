"""What the commands share: the server, options, listings, progress and results."""
