"""The prompt: its keys, colours, history and completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import AnyFormattedText, StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from headrace.cli.shell.completion import KEYWORDS, TYPES
from headrace.cli.shell.session import ShellSession
from headrace.cli.support.script import Source, SourceStatement, split_sources
from headrace.grammar.lexer import Token, TokenKind, code_tokens, tokenize
from headrace.grammar.script import is_complete_script, split_script

_RUN_COMMAND = re.compile(r"\\gx?\b")
_PLAIN_COMMANDS = {"exit": "\\q", "quit": "\\q", "help": "\\?"}
"""Words that no SQL statement consists of, and the commands that they stand for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A part of the typed text that runs as a whole: one command, or one or more statements."""

    text: str
    is_command: bool
    waits_for_command: bool = False
    """Whether the command that follows, `\\g` or `\\gx`, runs the last statement."""

    @property
    def statements(self) -> list[SourceStatement]:
        """The statements of SQL, in order; empty for comments alone."""
        return split_sources([Source(None, self.text)]) if split_script(self.text) else []


def split_input(text: str) -> list[Entry]:
    r"""Return the commands and the SQL of a text, in order.

    A line that begins with `\` is a command, unless it continues a statement, for example inside a
    string.
    """
    entries: list[Entry] = []
    sql: list[str] = []

    def end_sql(*, waits_for_command: bool = False) -> None:
        part = "".join(sql)
        sql.clear()
        plain = _PLAIN_COMMANDS.get(part.strip(" \t\r\n;").lower())
        if plain is not None:
            entries.append(Entry(plain, is_command=True))
        elif part.strip():
            entries.append(Entry(part, is_command=False, waits_for_command=waits_for_command))

    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("\\") and is_complete_script("".join(sql)):
            end_sql()
            entries.append(Entry(line.strip(), is_command=True))
            continue
        sql.append(line)
        at = _find_run_command("".join(sql)) if _RUN_COMMAND.search(line) else None
        if at is not None:
            whole = "".join(sql)
            sql[:] = [whole[:at]]
            end_sql(waits_for_command=True)
            entries.append(Entry(whole[at:].strip(), is_command=True))
    end_sql()
    return entries


def _find_run_command(text: str) -> int | None:
    r"""Return the offset of `\g` or `\gx` behind a statement; None if there is none in its code."""
    tokens = list(code_tokens(text))
    for token, following in pairwise(tokens):
        is_command = following.word in {"G", "GX"} and following.start == token.end
        if token.word == "\\" and is_command and text[: token.start].strip():
            return token.start
    return None


def is_complete_input(text: str) -> bool:
    """Return whether Enter runs a text. Otherwise Enter begins another line."""
    entries = split_input(text)
    return not entries or entries[-1].is_command or is_complete_script(entries[-1].text)


STYLE = Style.from_dict(
    {
        "sql.keyword": "bold ansiblue",
        "sql.type": "ansicyan",
        "sql.string": "ansigreen",
        "sql.name": "",
        "sql.number": "ansimagenta",
        "sql.comment": "italic ansibrightblack",
        "sql.command": "bold ansiyellow",
        "prompt": "bold",
        "continuation": "ansibrightblack",
    }
)


class SqlLexer(Lexer):
    """Lexer of prompt_toolkit for SQL and backslash commands."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = style_lines(document.text)
        return lambda number: lines[number] if number < len(lines) else []


def style_lines(text: str) -> list[StyleAndTextTuples]:
    """Return the styled fragments of each line of a text."""
    lines: list[StyleAndTextTuples] = [[]]
    for style, part in _style_parts(text):
        first, *others = part.split("\n")
        lines[-1].append((style, first))
        lines.extend([(style, other)] for other in others)
    return lines


def _style_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield all of a text in parts, each with its style."""
    if text.lstrip().startswith("\\"):
        command, separator, rest = text.partition(" ")
        yield "class:sql.command", command
        yield "", separator + rest
        return
    at = 0
    for token in tokenize(text):
        yield "", text[at : token.start]
        yield _token_style(text, token), text[token.start : token.end]
        at = token.end
    yield "", text[at:]


def _token_style(text: str, token: Token) -> str:
    first = text[token.start]
    if token.kind is TokenKind.COMMENT or text.startswith("/*", token.start):
        return "class:sql.comment"
    if first.isdecimal():
        return "class:sql.number"
    if first == "`":
        return "class:sql.name"
    if token.kind in {TokenKind.QUOTED, TokenKind.UNREADABLE}:
        return "class:sql.string"
    if token.word in KEYWORDS:
        return "class:sql.keyword"
    return "class:sql.type" if token.word in TYPES else ""


_INDENT = "  "


def make_prompt(
    session: ShellSession,
    history: History,
    completer: Completer,
    *,
    input_: Input | None = None,
    output: Output | None = None,
) -> PromptSession[str]:
    """Return the prompt of the shell. Tests pass an input and an output of their own."""

    def message() -> AnyFormattedText:
        return [("class:prompt", session.prompt)]

    def continuation(width: int, line: int, wrapped: int) -> AnyFormattedText:  # noqa: ARG001
        return [("class:continuation", "-> ".rjust(width))]

    return PromptSession(
        message,
        multiline=True,
        prompt_continuation=continuation,
        history=history,
        lexer=SqlLexer(),
        style=STYLE,
        completer=completer,
        complete_while_typing=True,
        key_bindings=_key_bindings(),
        enable_suspend=True,
        enable_open_in_editor=True,
        tempfile_suffix=".sql",
        input=input_,
        output=output,
    )


def redraw(prompt: PromptSession[str]) -> None:
    """Show a changed prompt and newly loaded completions. May be called in any thread."""
    app = prompt.app
    loop = app.loop
    if not app.is_running or loop is None:
        return

    def refresh() -> None:
        _complete_again(prompt.default_buffer)
        app.invalidate()

    with suppress(RuntimeError):  # the prompt has ended meanwhile, and its loop is closed
        loop.call_soon_threadsafe(refresh)


def _complete_again(buffer: Buffer) -> None:
    """Show the completions at the cursor again, unless the user has chosen one."""
    state = buffer.complete_state
    if state is not None:
        if state.current_completion is None:
            buffer.complete_state = None  # prompt_toolkit replaces no menu that is open
            buffer.start_completion()
    elif not buffer.document.text_before_cursor[-1:].isspace():
        buffer.start_completion(complete_event=CompleteEvent(text_inserted=True))


def _key_bindings() -> KeyBindings:
    bindings = KeyBindings()
    at_prompt = has_focus(DEFAULT_BUFFER)

    @bindings.add("enter", filter=at_prompt)
    def _run_or_add_line(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete_input(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=True)

    @bindings.add("escape", "enter", filter=at_prompt)
    def _run(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @bindings.add("c-c", filter=at_prompt)
    def _clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    @bindings.add("tab", filter=at_prompt & Condition(_is_in_indentation))
    def _indent(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(_INDENT)

    return bindings


def _is_in_indentation() -> bool:
    document: Any = get_app().current_buffer.document
    return document.cursor_position_row > 0 and not document.current_line_before_cursor.strip()
