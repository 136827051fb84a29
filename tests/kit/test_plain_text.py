"""Text of any origin, made safe for a terminal without losing what can be seen."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.kit.plain_text import one_line, printable


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


SEVEN_BIT = ("\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x1b[", "\x1b")
OPENERS = (*SEVEN_BIT, *"\x90\x98\x9b\x9d\x9e\x9f")


@pytest.mark.parametrize("inside", ["", "a", "0", "0 ", "\n"])
@pytest.mark.parametrize("opener", OPENERS, ids=ascii)
def test_sequences_that_never_end_take_no_time(opener: str, inside: str) -> None:
    started = time.process_time()
    printable((opener + inside) * 400_000)
    # 0.3 s on an idle two-core machine; where time grows with the square, an hour.
    assert time.process_time() - started < 10


@pytest.mark.parametrize("opener", OPENERS, ids=ascii)
def test_one_sequence_of_megabytes_takes_no_time(opener: str) -> None:
    started = time.process_time()
    printable(opener + "0" * 3_000_000 + " " * 3_000_000)
    assert time.process_time() - started < 10


def test_a_sequence_that_is_cut_off_by_another_hides_nothing_but_itself() -> None:
    assert printable("a\x9db\x9dc\x9cd") == "abd"
    assert printable("a\x90b\x9b0mc\x1b\\d") == "abcd"


def test_one_line_is_bounded_however_long_the_text() -> None:
    assert one_line("a\n b\t c") == "a b c"
    assert one_line("x" * 10_000_000, 10) == "xxxxxxxxx…"
    assert one_line(" " * 100 + "end", 10) == "…"
    assert one_line(12.5) == "12.5"
