"""Who calls: the ways to sign in, users, and tokens."""
