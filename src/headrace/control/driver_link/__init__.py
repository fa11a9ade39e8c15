"""The node's side of the link: what drivers may ask, and the checks on what they report."""
