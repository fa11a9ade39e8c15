"""The node's side of the link: the calls of drivers, and the checks of their reports."""
