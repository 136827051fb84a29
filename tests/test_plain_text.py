"""Text of any origin, made safe for a terminal without losing what can be seen."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.plain_text import one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[/red] [a=b: c] f[i] [ans]42[/ans]", "[/red] [a=b: c] f[i] [ans]42[/ans]"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1bc reset", " reset"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("\x1b]never closed", "never closed"),
        ("a\rb", "ab"),
        ("a\r\nb\u2028c", "a\nb\nc"),
        ("tab\tstays\nand lines", "tab\tstays\nand lines"),
        ("nul\x00 bell\x07 del\x7f c1\x85", "nul bell del c1"),
        ("\u202eright to left\u2066", "right to left"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("שלום 你好 👩‍👩‍👧", "שלום 你好 👩‍👩‍👧"),
    ],
)
def test_control_codes_go_and_everything_visible_stays(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text() | st.text("\x1b[]\x07\\;m0PX^_\x9b\x9d\x9c\r\n\u2028a", max_size=40))
def test_no_text_whatever_keeps_a_control_code(text: str) -> None:
    cleaned = printable(text)
    assert all(c in "\n\t" or (ord(c) >= 32 and not 127 <= ord(c) < 160) for c in cleaned)
    cleaned.encode()
    assert printable(cleaned) == cleaned


def test_megabytes_of_broken_escapes_take_no_time() -> None:
    for text in ("\x1b]" * 2_000_000, "\x1b[" * 2_000_000, "\x1bP" * 2_000_000):
        started = time.process_time()
        printable(text)
        assert time.process_time() - started < 20


def test_one_line_is_bounded_however_long_the_text() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("x" * 10_000_000, 10) == "xxxxxxxxx…"
    assert one_line(" " * 100 + "end", 10) == "…"
    assert one_line(12.5) == "12.5"
