"""Text of a model from the store to a terminal, a file and back: kept exactly, shown harmlessly."""

from __future__ import annotations

import json
import random
import time
import unicodedata
from pathlib import Path

import pytest
from store_samples import discussion, new_run

from maporl_core.cli.main import main
from maporl_core.kit.plain_text import printable
from maporl_core.store.export import export_discussions
from maporl_core.store.reader import StoreReader
from maporl_core.store.records import Paid
from maporl_core.store.writer import StoreWriter

BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
ESCAPES = (
    *(
        "\x1b[2J",
        "\x1b[H",
        "\x1b[31m",
        "\x1b[?1049h",
        "\x1bc",
        "\x1b7",
        "\x1b(0",
        "\x1b#8",
        "\x9b5n",
    ),
    *("\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x9d2;t\x9c", "\x1bPq#0\x1b\\", "\x1b_G\x1b\\"),
    *("\x1b", "\x1b[", "\x1b]", "\x1b[38;5;", "\r", "\b", "\x7f", "\x0e", "\x05", "\x00", "\x85"),
    *("\u202e", "\u2066", "\u200b", "\ufeff", "\ud800", "\udc9b", "[/red]", "[ans]", "😀", "שלום"),
)


def harmless(text: str) -> bool:
    """Nothing in it moves a cursor, colours, retitles or reorders, and it can be encoded."""
    text.encode()
    return all(
        char in "\n\t"
        or (unicodedata.category(char) != "Cc" and unicodedata.bidirectional(char) not in BIDI)
        for char in text
    )


def test_every_character_there_is_stays_if_it_can_be_seen_and_goes_if_it_controls() -> None:
    for code in range(0x110000):
        char = chr(code)
        shown = printable(f"a{char}b")
        assert harmless(shown), hex(code)
        if char.isprintable():
            assert shown == f"a{char}b", hex(code)
        elif code != 0x90 and not 0x9B <= code <= 0x9F and code != 0x98:  # they open sequences
            assert shown.startswith("a"), hex(code)
            assert shown.endswith("b") or code == 0x1B, hex(code)


def mixed(rng: random.Random) -> str:
    words = [f"w{n}" for n in range(9)]
    return " ".join(rng.choice((rng.choice(ESCAPES), rng.choice(words))) for _ in range(14))


def test_mixtures_of_escapes_and_words_leave_nothing_that_controls() -> None:
    rng = random.Random(8)
    for _ in range(3000):
        text = mixed(rng)
        assert harmless(printable(text)), ascii(text)


def test_stored_messages_are_kept_exactly_and_every_command_shows_them_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(9)
    held = [discussion(n, text=f"begin{n} {mixed(rng)} \x1b[0m end{n}") for n in range(6)]
    run = new_run(tmp_path, "odd")
    with StoreWriter(run) as writer:
        keys = writer.write_step(1, [Paid(d) for d in held], {"a": 1.0})
    with StoreReader(run) as reader:
        assert [reader.discussion(key).discussion for key in keys] == held
        for kind in ("jsonl", "parquet"):
            export_discussions(reader, tmp_path / f"out.{kind}", kind)  # type: ignore[arg-type]
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    for row, original in zip(rows, held, strict=True):
        said = [m.text.encode("utf-8", "surrogatepass") for r in original.messages for m in r]
        exported = [m["text"].encode() for m in row["messages"]]
        assert len(said) == len(exported)
        for before, after in zip(said, exported, strict=True):
            whole = before.decode("utf-8", "surrogatepass")
            assert after.decode() == "".join(
                "\ufffd" if "\ud800" <= c <= "\udfff" else c for c in whole
            )
    for n, key in enumerate(keys):
        assert main(["runs", "show", "odd", "--root", str(tmp_path), "--debate", str(key)]) == 0
        shown = capsys.readouterr().out
        assert harmless(shown)
        assert f"begin{n}" in shown
    assert main(["runs", "show", "odd", "--root", str(tmp_path), "--debate", "last", "--json"]) == 0
    assert capsys.readouterr().out.isascii()


def test_ten_megabytes_of_every_kind_in_one_message_are_kept_and_shown_in_bounded_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    piece = "".join(ESCAPES) + " word "
    text = piece * (10_000_000 // len(piece.encode("utf-8", "surrogatepass"))) + "the end"
    run, held = new_run(tmp_path, "long"), discussion(0, ((True,),), text)
    started = time.process_time()
    with StoreWriter(run) as writer:
        (key,) = writer.write_step(1, [Paid(held)], {})
    with StoreReader(run) as reader:
        assert reader.discussion(key).discussion == held
        export_discussions(reader, tmp_path / "out.jsonl", "jsonl")
    assert main(["runs", "show", "long", "--root", str(tmp_path), "--debate", str(key)]) == 0
    spent = time.process_time() - started
    shown = capsys.readouterr().out
    assert harmless(shown)
    assert "the end" in shown
    assert spent < 100  # measured below 9 s on a two-core machine


@pytest.mark.parametrize(
    "name", ["~nobody-here/x", "x" * 5000, "a\0b", "..", "\x1b[31m", "-x", "a\nb"]
)
def test_run_names_that_lead_nowhere_are_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "show", "--root", str(tmp_path), "--", name]) in (2, 5)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "unexpected" not in shown
    assert harmless(shown)
