"""Local data files: types as written, complaints with file and line, splits that do not overlap."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from maporl_core.config.schema import TaskConfig
from maporl_core.errors import ConfigError, DataError
from maporl_core.tasks.data.order import rows_at
from maporl_core.tasks.data.stored import StoredTask, divided
from maporl_core.tasks.registry import available_tasks, make_task
from maporl_core.types import Problem


def jsonl(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def own(path: Path, **settings: Any) -> StoredTask:
    task = make_task(TaskConfig(name="jsonl", path=str(path), **{"holdout": 0.0, **settings}))
    assert isinstance(task, StoredTask)
    return task


def golds(task: StoredTask) -> list[str | None]:
    return [problem.gold for problem in task.rows["train"]]


# --- values -----------------------------------------------------------------------------------


def test_values_keep_the_type_and_spelling_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(
        '{"question": "a", "answer": "1"}\n'
        '{"question": "b", "answer": 2}\n'
        '{"question": "c", "answer": "2024-01-05"}\n'
        '{"question": "d", "answer": 1.50}\n'
        '{"question": "e", "answer": 10000000000000000000003}\n'
        '{"question": "f", "answer": "007"}\n'
        '{"question": "g", "answer": true}\n'
        '{"question": "h", "answer": 1e-7}\n'
    )
    task = own(path, grading="text")
    assert golds(task) == [
        *("1", "2", "2024-01-05", "1.50", "10000000000000000000003", "007", "true", "1e-7")
    ]


def test_numbers_of_a_file_are_graded_exactly(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "a", "answer": 10000000000000000000003}\n')
    task = own(path)
    (problem,) = task.problems("train", 0, 1, 0)
    assert task.is_correct(task.extract(r"\boxed{10000000000000000000003}"), problem) is True
    assert task.is_correct(task.extract(r"\boxed{10000000000000000000004}"), problem) is False


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: is not a JSON object"),
        ("[1, 2]", "line 2: holds a JSON list"),
        ('"text"', "line 2: holds a JSON text"),
        ("7", "line 2: holds a JSON number"),
        ("null", "line 2: holds a JSON null"),
        ('{"question": "q"}', "line 2: has no 'answer'; it has 'question'"),
        ('{"answer": "1"}', "line 2: has no 'question'; it has 'answer' "),
        ('{"question": 5, "answer": "1"}', "line 2: 'question' is a number"),
        ('{"question": " ", "answer": "1"}', "line 2: 'question' is empty"),
        ('{"question": "q", "answer": null}', "line 2: 'answer' is a null"),
        ('{"question": "q", "answer": ["1"]}', "line 2: 'answer' is a list"),
        ('{"question": "q", "answer": "blue"}', "line 2: answer 'blue' is no number"),
        ('{"question": "q", "answer": "2024-01-05"}', "line 2: answer '2024-01-05' is no number"),
        ('{"question": "q", "answer": NaN}', "line 2: holds NaN"),
        ("[" * 100_000, "line 2: is nested too deeply|line 2: is not a JSON object"),
        ("\0", "line 2: is not a JSON object"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_a_bad_row_is_named_by_file_and_line_or_skipped_and_counted(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "own.jsonl"
    good = '{"question": "good %d", "answer": "1"}\n'
    path.write_text(good % 1 + line + "\n" + good % 2)
    with pytest.raises(DataError, match=f"own.jsonl, ({complaint})") as caught:
        own(path)
    assert "\n" not in str(caught.value)
    assert "task.skip_bad_rows=true" in str(caught.value)
    task = own(path, skip_bad_rows=True)
    assert [problem.question for problem in task.rows["train"]] == ["good 1", "good 2"]
    assert sum(task.dropped().values()) == 1


def test_a_torn_last_line_is_named_and_the_rows_before_it_load(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "a", "answer": 1}\n{"question": "b", "ans')
    with pytest.raises(DataError, match=r"line 2: .*torn off"):
        own(path)
    task = own(path, skip_bad_rows=True)
    assert golds(task) == ["1"]
    assert task.dropped() == {"not JSON": 1}


def test_a_last_line_without_a_line_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "a", "answer": 1}\n{"question": "b", "answer": 2}')
    assert golds(own(path)) == ["1", "2"]


def test_byte_order_mark_crlf_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"question": "a", "answer": 1}\r\n\r\n  \r\n'
        b'{"question": "b", "answer": 2}\r\n'
    )
    task = own(path)
    assert golds(task) == ["1", "2"]
    assert [problem.question for problem in task.rows["train"]] == ["a", "b"]


def test_line_separators_inside_a_text_do_not_end_the_row(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "a\u2028b\x85c", "answer": 1}\n', encoding="utf-8")
    assert own(path).rows["train"][0].question == "a\u2028b\x85c"


def test_bytes_that_are_no_utf8_are_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(b'{"question": "a", "answer": 1}\n{"question": "\xff", "answer": 1}\n')
    with pytest.raises(DataError, match=r"line 2: is not UTF-8 text \(byte 15\)"):
        own(path)
    assert own(path, skip_bad_rows=True).dropped() == {"not UTF-8": 1}


def test_utf16_text_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "a", "answer": 1}\n', encoding="utf-16")
    with pytest.raises(DataError, match="UTF-16 text; save it as UTF-8"):
        own(path)


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_an_error_even_when_bad_rows_are_skipped(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(content, encoding="utf-8")
    for skip in (False, True):
        with pytest.raises(DataError, match=r"own.jsonl: holds no usable rows"):
            own(path, skip_bad_rows=skip)


def test_a_file_of_bad_rows_says_why_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text("{\n{\n")
    with pytest.raises(DataError, match=r"no usable rows \(left out: 2 × not JSON\)"):
        own(path, skip_bad_rows=True)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nothing.jsonl: no such file or folder"):
        own(tmp_path / "nothing.jsonl")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match=r"no train or test file .* it holds notes.txt"):
        own(tmp_path)
    with pytest.raises(ConfigError, match=r"task.path=FILE"):
        make_task(TaskConfig(name="jsonl"))


def test_keys_are_named_in_the_config(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"prompt": "a", "target": "7"}])
    task = own(path, question_key="prompt", answer_key="target")
    assert golds(task) == ["7"]
    with pytest.raises(DataError, match=r"has no 'question'.*see task.question_key"):
        own(path)


def test_maths_answers_of_a_file_are_graded_as_maths(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "factor", "answer": "(x-1)(x+1)"}])
    task = own(path, grading="maths")
    (problem,) = task.problems("train", 0, 1, 0)
    assert task.is_correct(task.extract(r"\boxed{x^2-1}"), problem) is True
    assert task.is_correct(task.extract(r"\boxed{x^2+1}"), problem) is False


# --- choices ----------------------------------------------------------------------------------


def test_choices_are_shown_and_answers_are_letters_or_texts(tmp_path: Path) -> None:
    rows = [
        {"question": "Capital?", "choices": ["Rome", "Paris"], "answer": "B"},
        {"question": "Capital again?", "choices": ["Rome", "Paris"], "answer": "paris"},
        {"question": "Which?", "answer": "(c)"},
        {"question": "Even?", "choices": [1, 2], "answer": 2},
    ]
    task = own(jsonl(tmp_path / "own.jsonl", rows), grading="choice")
    assert golds(task) == ["B", "B", "C", "B"]
    assert task.rows["train"][0].question == "Capital?\n(A) Rome\n(B) Paris"
    assert "letter" in task.prompt(task.rows["train"][0])
    first = task.rows["train"][0]
    assert task.is_correct(task.extract("The answer is Paris."), first) is True
    assert task.is_correct(task.extract(r"\boxed{A}"), first) is False


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"choices": ["a", "b"], "answer": "C"}, "neither a letter nor the text"),
        ({"choices": ["a", "b"], "answer": 1}, "neither a letter nor the text"),
        ({"choices": ["B", "A"], "answer": "A"}, "is a letter and the text of option B"),
        ({"choices": ["a"], "answer": "A"}, "must hold 2 to 26 texts"),
        ({"choices": "ab", "answer": "A"}, "must be a list of texts"),
        ({"choices": [None, "b"], "answer": "A"}, "must be a list of texts"),
        ({"choices": ["a", " A "], "answer": "A"}, "holds the same text twice"),
    ],
)
def test_choices_that_cannot_be_graded_are_bad_rows(
    tmp_path: Path, row: dict[str, Any], complaint: str
) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "q", **row}])
    with pytest.raises(DataError, match=complaint):
        own(path, grading="choice")


@pytest.mark.parametrize(("meaning", "letter"), [("index0", "B"), ("index1", "A"), ("text", "A")])
def test_an_integer_answer_to_choices_means_what_the_setting_says(
    tmp_path: Path, meaning: str, letter: str
) -> None:
    rows = [{"question": "q", "choices": ["1", "3", "8", "16"], "answer": 1}]
    path = jsonl(tmp_path / "own.jsonl", rows)
    assert golds(own(path, grading="choice", choice_integers=meaning)) == [letter]
    with pytest.raises(DataError, match=r"task\.choice_integers=index0.*index1.*text"):
        own(path, grading="choice")


@pytest.mark.parametrize(
    ("choices", "answer"),
    [(["cat", "dog"], 1), (["1", "2"], 1), ([3, 1, 2], 1), ([1, 3, 8, 16], 1), (["a", "b"], 0)],
)
def test_an_integer_answer_to_choices_is_never_guessed(
    tmp_path: Path, choices: list[Any], answer: int
) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": "q", "choices": choices, "answer": answer}])
    with pytest.raises(DataError, match=r"own\.jsonl.*line 1.*task\.choice_integers"):
        own(path, grading="choice")


def test_an_integer_beyond_the_choices_is_refused_and_a_text_of_digits_is_a_text(
    tmp_path: Path,
) -> None:
    path = jsonl(tmp_path / "a.jsonl", [{"question": "q", "choices": ["x", "y"], "answer": 2}])
    with pytest.raises(DataError, match="none of the choices"):
        own(path, grading="choice", choice_integers="index0")
    path = jsonl(tmp_path / "b.jsonl", [{"question": "q", "choices": ["3", "1"], "answer": "1"}])
    assert golds(own(path, grading="choice")) == ["B"]


# --- splits and order -------------------------------------------------------------------------


def test_a_single_file_is_divided_by_question_and_stays_so_when_it_grows(tmp_path: Path) -> None:
    rows = [{"question": f"question {n % 150}", "answer": n} for n in range(300)]
    first = own(jsonl(tmp_path / "a.jsonl", rows[:200]), holdout=0.3)
    second = own(jsonl(tmp_path / "b.jsonl", rows), holdout=0.3)
    sides = {split: {p.question for p in second.rows[split]} for split in ("train", "test")}
    assert sides["train"].isdisjoint(sides["test"])
    assert 40 < len(second.rows["test"]) < 120
    for split in ("train", "test"):
        assert {p.question for p in first.rows[split]} <= sides[split]
        assert {p.split for p in second.rows[split]} == {split}


@pytest.mark.parametrize(("share", "splits"), [(0.0, ["train"]), (1.0, ["test"]), (0.001, None)])
def test_small_sets_keep_a_problem_on_either_side(share: float, splits: list[str] | None) -> None:
    problems = [Problem(str(n), f"q{n}", "1", "t", "train") for n in range(4)]
    sides = divided(problems, share)
    assert list(sides) == (splits or ["train", "test"])
    assert sum(map(len, sides.values())) == 4


def test_equal_rows_have_ids_of_their_own_and_ids_do_not_depend_on_the_place(
    tmp_path: Path,
) -> None:
    row = {"question": "same", "answer": 1}
    other = {"question": "other", "answer": 1}
    first = own(jsonl(tmp_path / "a.jsonl", [row, row, other]))
    second = own(jsonl(tmp_path / "b.jsonl", [other, row, row]))
    ids = [problem.id for problem in first.rows["train"]]
    assert len(set(ids)) == 3
    assert {p.id for p in second.rows["train"]} == set(ids)


def test_every_epoch_holds_every_problem_once_in_a_new_order() -> None:
    first, second = rows_at(50, 0, 50, seed=1), rows_at(50, 50, 50, seed=1)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first != rows_at(50, 0, 50, seed=2)
    assert first != rows_at(50, 0, 50, seed=1, key="other task")


def test_the_order_is_a_function_of_position_and_seed_alone() -> None:
    whole = rows_at(7, 0, 40, seed=3)
    pieces = [row for start in range(0, 40, 5) for row in rows_at(7, start, 5, seed=3)]
    assert pieces == whole
    assert rows_at(7, 10**9, 3, seed=3) == rows_at(7, 10**9, 3, seed=3)
    assert rows_at(1, 5, 3, seed=0) == [0, 0, 0]


def test_the_order_of_a_seed_never_changes_between_versions() -> None:
    assert rows_at(6, 0, 12, seed=0) == [5, 0, 3, 4, 2, 1, 0, 4, 3, 5, 1, 2]


def test_a_resumed_run_reads_on_where_it_stopped(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "own.jsonl", [{"question": f"q{n}", "answer": n} for n in range(10)])
    whole = [p.id for p in own(path).problems("train", 0, 25, seed=4)]
    again = own(path)
    assert [p.id for s in (0, 10, 20) for p in again.problems("train", s, 10, seed=4)][:25] == whole
    assert Counter(whole[:20]).most_common()[-1][1] == 2


def test_an_unknown_split_is_answered_with_those_that_exist(tmp_path: Path) -> None:
    task = own(jsonl(tmp_path / "a.jsonl", [{"question": "q", "answer": 1}]))
    for call in (lambda: task.problems("tran", 0, 1, 0), lambda: task.size("tran")):
        with pytest.raises(DataError, match=r"no split 'tran' \(did you mean 'train'\?\); it has"):
            call()


def test_limit_keeps_the_first_rows_of_every_split(tmp_path: Path) -> None:
    rows = [{"question": f"q{n}", "answer": n} for n in range(100)]
    task = own(jsonl(tmp_path / "a.jsonl", rows), holdout=0.5, limit=7)
    assert [task.size(split) for split in task.splits()] == [7, 7]


# --- gsm8k ------------------------------------------------------------------------------------


def gsm(n: int, gold: str = "5") -> dict[str, str]:
    return {"question": f"How many, {n}?", "answer": f"It is <<{n}+1={n + 1}>>.\n#### {gold}"}


def test_gsm8k_reads_a_local_folder(tmp_path: Path) -> None:
    jsonl(tmp_path / "train.jsonl", [gsm(1, "1,080"), gsm(2, "-3")])
    jsonl(tmp_path / "test.jsonl", [gsm(3, "$18.00")])
    task = make_task(TaskConfig(name="gsm8k", path=str(tmp_path)))
    assert isinstance(task, StoredTask)
    assert task.splits() == ("train", "test")
    assert [p.gold for p in task.rows["train"]] == ["1080", "-3"]
    (problem,) = task.problems("test", 0, 1, 0)
    assert (problem.id, problem.gold) == ("gsm8k/test/0", "18")
    assert problem.gold not in task.prompt(problem).replace(problem.question, "")
    assert task.is_correct(task.extract(r"… \boxed{18}"), problem) is True
    assert task.is_correct(task.extract("no idea"), problem) is False


def test_gsm8k_reads_parquet_as_copied_from_the_hub(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    for split in ("train", "test"):
        table = pyarrow.Table.from_pylist([gsm(n) for n in range(3)])
        parquet.write_table(table, tmp_path / "main" / f"{split}-00000-of-00001.parquet")
    task = make_task(TaskConfig(name="gsm8k", path=str(tmp_path)))
    assert [task.size(split) for split in task.splits()] == [3, 3]


def test_gsm8k_divides_a_single_file(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "test.jsonl", [gsm(n) for n in range(40)])
    task = make_task(TaskConfig(name="gsm8k", path=str(path), holdout=0.4))
    sizes = [task.size(split) for split in ("train", "test")]
    assert sum(size or 0 for size in sizes) == 40
    assert min(size or 0 for size in sizes) > 5


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [("five", "no final answer after '####'"), ("#### five", "ends in 'five', which is no number")],
)
def test_gsm8k_rows_without_a_final_number_are_bad(
    tmp_path: Path, answer: str, complaint: str
) -> None:
    path = jsonl(tmp_path / "train.jsonl", [{"question": "q", "answer": answer}, gsm(1)])
    with pytest.raises(DataError, match=complaint):
        make_task(TaskConfig(name="gsm8k", path=str(path)))
    task = make_task(TaskConfig(name="gsm8k", path=str(path), skip_bad_rows=True))
    assert sum(task.dropped().values()) == 1


def test_a_broken_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").write_bytes(b"PAR1 this is not one PAR1")
    with pytest.raises(DataError, match=r"train.parquet: is no readable Parquet file"):
        make_task(TaskConfig(name="gsm8k", path=str(tmp_path)))


# --- anli -------------------------------------------------------------------------------------


def nli(n: int, label: Any) -> dict[str, Any]:
    return {
        "uid": f"u{n}",
        "premise": f"Premise {n // 2}.",
        "hypothesis": f"H {n}.",
        "label": label,
    }


def test_anli_drops_and_counts_rows_without_a_gold_label(tmp_path: Path) -> None:
    jsonl(tmp_path / "dev_r3.jsonl", [nli(n, n % 3) for n in range(30)] + [nli(30, -1)])
    task = make_task(TaskConfig(name="anli", path=str(tmp_path), rounds=(3,), holdout=0.3))
    assert isinstance(task, StoredTask)
    assert task.dropped() == {"no gold label": 1}
    assert sum(map(len, task.rows.values())) == 30
    labels = {p.id: p.gold for side in task.rows.values() for p in side}
    assert labels["anli/dev_r3/u0"] == "entailment"
    assert labels["anli/dev_r3/u1"] == "neutral"
    assert labels["anli/dev_r3/u2"] == "contradiction"


def test_anli_dev_rows_serve_as_both_splits_without_sharing_a_premise(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        jsonl(tmp_path / f"dev_r{number}.jsonl", [nli(n, 0) for n in range(60)])
    task = make_task(TaskConfig(name="anli", path=str(tmp_path), holdout=0.3))
    assert isinstance(task, StoredTask)
    assert task.splits() == ("train", "test")
    premises = [{p.question.split("\n")[0] for p in task.rows[s]} for s in ("train", "test")]
    assert premises[0]
    assert premises[1]
    assert premises[0].isdisjoint(premises[1])
    (problem,) = task.problems("test", 0, 1, 0)
    for shown in ("Premise: ", "Hypothesis: ", "entailment", "neutral", "contradiction"):
        assert shown in task.prompt(problem)
    assert task.is_correct(task.extract("Answer: entailment"), problem) is True


def test_anli_joins_the_rounds_of_every_split(tmp_path: Path) -> None:
    for part, size in (("train", 4), ("dev", 2), ("test", 3)):
        for number in (1, 2):
            jsonl(tmp_path / f"{part}_r{number}.jsonl", [nli(n, 1) for n in range(size)])
    task = make_task(TaskConfig(name="anli", path=str(tmp_path), rounds=(1, 2)))
    assert {s: task.size(s) for s in task.splits()} == {"train": 8, "dev": 4, "test": 6}
    with pytest.raises(DataError, match=r"train_r3 missing; choose the rounds .* task.rounds"):
        make_task(TaskConfig(name="anli", path=str(tmp_path)))
    with pytest.raises(DataError, match=r"no split 'dev_r1'.*it has train, dev, test"):
        task.problems("dev_r1", 0, 1, 0)


@pytest.mark.parametrize("label", [3, "x", None, 1.0, True])
def test_anli_labels_out_of_range_are_bad_rows(tmp_path: Path, label: Any) -> None:
    path = jsonl(tmp_path / "dev_r1.jsonl", [nli(0, label)])
    with pytest.raises(DataError, match=r"line 1: label is .* must be -1, 0, 1 or 2"):
        make_task(TaskConfig(name="anli", path=str(path)))


# --- registry ---------------------------------------------------------------------------------


def test_an_unknown_task_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'gsm8k'"):
        make_task(TaskConfig(name="gsm8"))
    with pytest.raises(ConfigError, match=r"must be 'pocket', 'gsm8k'"):
        make_task(TaskConfig(name="zzz"))
    assert list(available_tasks())[:2] == ["pocket", "gsm8k"]


def test_the_built_in_task_needs_no_data() -> None:
    task = make_task(TaskConfig(name="pocket"))
    (problem,) = task.problems("train", 0, 1, 0)
    assert task.is_correct(None, problem) is False
