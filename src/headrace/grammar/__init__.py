"""Lexer and parser for what Headrace must know about a SQL text. No function changes a text."""
