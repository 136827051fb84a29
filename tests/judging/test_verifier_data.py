"""Sampled answers become balanced examples; parts survive a killed process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from maporl_core.config.load import load_config
from maporl_core.errors import ConfigError, DataError, Interrupted
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.data import Answer, Selection, difficulty_name, select, side_of
from maporl_core.kit.progress import Silent
from maporl_core.runs.verifier.sampling import Sampling, make_data


def answers(question: str, right: int, wrong: int, none: int = 0) -> list[Answer]:
    made = [Answer(question, question, "7", f"right {n}", "7", True) for n in range(right)]
    made += [Answer(question, question, "7", f"wrong {n}", "8", False) for n in range(wrong)]
    return made + [Answer(question, question, "7", f"none {n}", None, False) for n in range(none)]


def test_each_question_keeps_as_many_right_as_wrong_answers() -> None:
    sampled = answers("a", 3, 9) + answers("b", 20, 15) + answers("c", 1, 1)
    examples, counts = select(sampled, Selection(per_question=10))
    kept = Counter((e.question_id, e.label) for e in examples)
    assert {q: (kept[q, True], kept[q, False]) for q in "abc"} == {
        "a": (3, 3),
        "b": (10, 10),
        "c": (1, 1),
    }
    assert (counts.kept_right, counts.kept_wrong, counts.surplus) == (14, 14, 6 + 15)


def test_questions_with_one_kind_of_answer_are_left_out_and_counted() -> None:
    sampled = answers("a", 4, 0) + answers("b", 0, 4) + answers("c", 0, 0, 3) + answers("d", 2, 2)
    examples, counts = select(sampled, Selection())
    assert {e.question_id for e in examples} == {"d"}
    assert (counts.only_right, counts.only_wrong, counts.none_parsable) == (1, 1, 1)
    assert counts.kept_questions == 1


def test_a_text_counts_once_per_question() -> None:
    sampled = answers("a", 1, 2)
    again = [
        Answer(a.question_id, a.question, a.gold, f" {a.text}\n", a.answer, a.right)
        for a in sampled
    ]
    examples, counts = select([*sampled, *again], Selection(balance=False))
    assert sorted(e.text for e in examples) == ["right 0", "wrong 0", "wrong 1"]
    assert counts.repeated == 3


def test_without_balance_every_distinct_answer_stays() -> None:
    sampled = answers("a", 4, 0) + answers("b", 1, 5, 2)
    examples, counts = select(sampled, Selection(balance=False))
    assert len(examples) == 10
    assert counts.unparsable == 2
    assert {e.question_id: e.difficulty for e in examples} == {"a": 1.0, "b": 1 / 8}


def test_no_question_is_on_two_sides_and_sides_have_their_shares() -> None:
    sampled = [a for n in range(2000) for a in answers(f"question {n}", 1, 1)]
    examples, _ = select(sampled, Selection(holdout=0.2))
    sides: dict[str, set[str]] = {}
    for row in examples:
        sides.setdefault(row.question_id, set()).add(row.split)
    assert all(len(found) == 1 for found in sides.values())
    shares = Counter(next(iter(found)) for found in sides.values())
    for split, share in (("train", 0.8), ("valid", 0.1), ("test", 0.1)):
        assert abs(shares[split] - 2000 * share) < 4 * (2000 * share * (1 - share)) ** 0.5
    assert side_of(" question 1 ", 0.2) == side_of("question 1", 0.2)


def test_what_is_kept_of_a_question_depends_on_no_other() -> None:
    alone, _ = select(answers("b", 9, 30), Selection(per_question=3))
    among, _ = select(answers("a", 5, 5) + answers("b", 9, 30), Selection(per_question=3))
    assert [e for e in among if e.question_id == "b"] == alone
    other, _ = select(answers("b", 9, 30), Selection(per_question=3, seed=1))
    assert other != alone


def test_difficulty_groups_include_their_upper_ends() -> None:
    assert [difficulty_name(d) for d in (0.0, 0.25, 0.26, 1.0)] == [
        *("0.00-0.25", "0.00-0.25", "0.25-0.50", "0.75-1.00"),
    ]


def test_parts_come_back_as_they_were_and_lone_surrogates_do_not_break_them(tmp_path: Path) -> None:
    written = [*answers("q [/red] ✓", 1, 1, 1), Answer("s", "s", "1", "\ud800!", "1", True)]
    files.write_part(tmp_path / "p.parquet", written)
    found = files.read_part(tmp_path / "p.parquet")
    assert found[:3] == written[:3]
    assert found[3].text == "\ufffd!"


def test_a_damaged_part_says_what_to_remove(tmp_path: Path) -> None:
    (tmp_path / "p.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataError, match=r"p\.parquet.*remove this file"):
        files.read_part(tmp_path / "p.parquet")


# --- sampling with the built-in agents -----------------------------------------------------------

SAMPLING = Sampling("train", questions=150, samples=4, temperature=1.0)
CONFIG = load_config("pocket")


class StopsAfter(Silent):
    """Ctrl-C after so many questions."""

    def __init__(self, questions: int) -> None:
        self.left = questions

    def advance(self, count: int = 1) -> None:
        self.left -= count
        if self.left <= 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "whole"
    make_data(CONFIG, SAMPLING, Selection(), folder, Silent())
    return folder


def test_data_of_the_built_in_agents_is_balanced_and_labelled_by_rule(whole: Path) -> None:
    card = files.read_json(whole / files.CARD, "")
    rows = [row for side in files.read_examples(whole).values() for row in side]
    assert card["counts"]["answers"] == 600
    assert card["counts"]["kept_right"] == card["counts"]["kept_wrong"] == len(rows) / 2
    assert all((row.text.split("= ")[-1].split()[0] == row.gold) == row.label for row in rows)
    assert "share right" in (whole / files.CARD_PAGE).read_text()


def test_a_stopped_sampling_goes_on_and_ends_with_the_same_data(
    whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "again"
    with pytest.raises(Interrupted, match="same command goes on"):
        make_data(CONFIG, SAMPLING, Selection(), folder, StopsAfter(100))
    assert not (folder / files.CARD).exists()
    kept = (folder / files.PARTS / "part-000000.parquet").stat().st_mtime_ns
    make_data(CONFIG, SAMPLING, Selection(), folder, Silent())
    assert (folder / files.PARTS / "part-000000.parquet").stat().st_mtime_ns == kept
    assert files.read_examples(folder) == files.read_examples(whole)


def test_other_settings_are_refused_by_name(whole: Path) -> None:
    other = Sampling("train", questions=150, samples=5, temperature=0.9)
    with pytest.raises(ConfigError, match=r"sampling\.samples: 4 then, 5 now; sampling\.temp"):
        make_data(CONFIG, other, Selection(), whole, Silent())


def test_balance_may_change_without_sampling_again(whole: Path, tmp_path: Path) -> None:
    before = files.read_examples(whole)
    card = make_data(CONFIG, SAMPLING, Selection(balance=False), whole, Silent())
    assert card["counts"]["surplus"] == 0
    make_data(CONFIG, SAMPLING, Selection(), whole, Silent())
    assert files.read_examples(whole) == before


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds no verifier data"):
        make_data(CONFIG, SAMPLING, Selection(), tmp_path, Silent())
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
