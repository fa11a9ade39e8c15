"""The prompt: its keys, colours, history and completion."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output

from headrace.cli.shell.highlighting import STYLE, SqlLexer
from headrace.cli.shell.session import ShellSession
from headrace.cli.shell.typed_input import is_complete_input

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
