"""Services for statements: submit, find, cancel, and the statements that a node executes itself."""
