"""Whose answers become a verifier's data: base or trained, alone or in discussion; counted anew."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from commands import TINY

from maporl_core.cli.main import main
from maporl_core.config.load import load_config
from maporl_core.errors import ConfigError, StoreError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.data import Answer, Example, Selection
from maporl_core.kit.progress import Silent
from maporl_core.runs.verifier.sampling import Sampling, make_data
from maporl_core.store.paths import RunDir

AGENTS, QUESTIONS = 2, 24
CHANGES = ["discussion.max_new_tokens=24"]  # whole messages


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of four steps at so high a rate that its agents speak otherwise than the base."""
    root = tmp_path_factory.mktemp("runs")
    (root / "tiny.toml").write_text(TINY.replace("lr = 1e-3", "lr = 6e-3"), encoding="utf-8")
    words = ["run", str(root / "tiny.toml"), "--root", str(root)]
    assert main([*words, "--set", CHANGES[0]]) == 0
    return RunDir(root / "tiny")


def sampled(
    run: RunDir, folder: Path, samples: int, turns: int, state: str, temperature: float = 1.0
) -> list[list[Answer]]:
    """The answers of every question, in the order of the folder's parts."""
    sampling = Sampling("train", QUESTIONS, samples, temperature, turns, state)
    chosen = Selection(holdout=0.5)
    config = load_config(run.config)
    make_data(config, sampling, chosen, folder, Silent(), run if state != "base" else None)
    return grouped(folder)


def grouped(folder: Path) -> list[list[Answer]]:
    found: dict[str, list[Answer]] = defaultdict(list)
    for path in sorted((folder / files.PARTS).iterdir()):
        for answer in files.read_part(path):
            found[answer.question_id].append(answer)
    return list(found.values())


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def texts(answers: list[list[Answer]], *places: int) -> list[str]:
    return [own[place].text for own in answers for place in places]


def recount(answers: list[list[Answer]], examples: list[Example]) -> dict[str, Any]:
    """The card's counts once more, from the texts alone: nothing of the product's is called."""
    counts: dict[str, int] = defaultdict(int)
    kept: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        kept[example.question_id].append(example)
    for own in answers:
        verdicts: dict[str, bool] = {}
        for answer in own:
            # "17" or "9: 12 + 9 = 21 - 4 = 17": the number after the last "=".
            said = re.search(r"(-?\d+)\s*$", answer.text)
            right = said is not None and answer.answer is not None and said[1] == answer.gold
            assert right == answer.right, answer
            counts["answers"] += 1
            counts["right"] += right
            if answer.answer is None:
                counts["unparsable"] += 1
            elif answer.text.strip() in verdicts:
                counts["repeated"] += 1
            else:
                verdicts[answer.text.strip()] = right
        rights = sum(verdicts.values())
        counts["distinct_right"] += rights
        counts["distinct_wrong"] += len(verdicts) - rights
        size = min(rights, len(verdicts) - rights, 10)
        rows = kept.pop(own[0].question_id, [])
        assert [row.label for row in rows] == [True] * size + [False] * size
        assert len({row.text for row in rows}) == len(rows)
        assert all(verdicts[row.text] == row.label for row in rows)
        assert len({row.split for row in rows}) <= 1
        counts["kept_questions"] += bool(rows)
        counts["kept_right"] += size
        counts["kept_wrong"] += size
        counts["surplus"] += len(verdicts) - 2 * size if size else 0
    assert not kept  # no example without a sampled question
    return counts


@pytest.mark.parametrize("state", ["base", "trained"])
@pytest.mark.parametrize("turns", [1, 2])
def test_labels_distinct_texts_balance_and_sides_counted_anew(
    run: RunDir, tmp_path: Path, state: str, turns: int
) -> None:
    answers = sampled(run, tmp_path, 12, turns, state)
    examples = [row for side in files.read_examples(tmp_path).values() for row in side]
    counts = files.read_json(tmp_path / files.CARD, "")["counts"]
    found = recount(answers, examples)
    assert {key: counts[key] for key in found} == dict(found)
    assert counts["kept_right"] > 0
    assert counts["answers"] == QUESTIONS * 12
    by_text: dict[str, set[str]] = defaultdict(set)
    for row in examples:
        by_text[row.question].add(row.split)
    assert all(len(sides) == 1 for sides in by_text.values())


def test_trained_agents_alone_speak_as_trained(run: RunDir, tmp_path: Path) -> None:
    base = sampled(run, tmp_path / "base", 4, 1, "base")
    trained = sampled(run, tmp_path / "trained", 4, 1, "trained")
    assert [own[0].question for own in base] == [own[0].question for own in trained]
    assert texts(base, 0, 1, 2, 3) != texts(trained, 0, 1, 2, 3)


def test_in_discussion_the_first_turn_is_spoken_as_in_the_run(run: RunDir, tmp_path: Path) -> None:
    # train_turns = "discussion": the base speaks in turn 1, the adapters afterwards.
    base = sampled(run, tmp_path / "base", 2 * AGENTS, 2, "base")
    trained = sampled(run, tmp_path / "trained", 2 * AGENTS, 2, "trained")
    assert texts(base, 0, 1) == texts(trained, 0, 1)
    assert texts(base, 2, 3) != texts(trained, 2, 3)


def test_what_is_over_is_left_out_by_lot_from_every_turn_and_agent(
    run: RunDir, tmp_path: Path
) -> None:
    hot = 2.5  # hardly any text comes twice
    whole = sampled(run, tmp_path / "all", 8, 2, "base", hot)
    some = sampled(run, tmp_path / "some", 6, 2, "base", hot)
    missing: set[int] = set()
    for own, fewer in zip(whole, some, strict=True):
        assert (len(own), len(fewer)) == (8, 6)
        left = [answer.text for answer in own]
        for answer in fewer:  # in the order in which they were spoken
            left = left[left.index(answer.text) + 1 :]
        spoken = [answer.text for answer in own]
        missing |= {n for n, text in enumerate(spoken) if text not in {a.text for a in fewer}}
    assert len(missing) == 8


def test_a_checkpoint_is_the_same_by_any_name_and_another_is_refused(
    run: RunDir, tmp_path: Path
) -> None:
    by_name = sampled(run, tmp_path, 4, 1, "trained")
    assert sampled(run, tmp_path, 4, 1, "step-000004") == by_name
    with pytest.raises(ConfigError, match=r"step: 4 then, 2 now; weights\.adapter of Ada"):
        sampled(run, tmp_path, 4, 1, "step-000002")
    with pytest.raises(StoreError, match="no checkpoint 'step-000009'; there is: step-000002"):
        sampled(run, tmp_path / "other", 4, 1, "step-000009")


def test_the_command_takes_a_run_and_a_checkpoint_of_it(run: RunDir, tmp_path: Path) -> None:
    for name, folder in ((str(run.path), "a"), (f"{run.path}/step-000004", "b")):
        words = ["verifier", "data", name, "--out", str(tmp_path / folder), "-n", "24"]
        assert main([*words, "--samples", "4", "--holdout", "0.5"]) == 0
    assert grouped(tmp_path / "a") == grouped(tmp_path / "b")
    page = (tmp_path / "a" / files.CARD_PAGE).read_text(encoding="utf-8")
    assert "(trained for 4 steps)" in page


def test_a_folder_grows_by_more_questions_to_what_they_give_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "maporl_core.runs.verifier.sampling.PART_ANSWERS", 16
    )  # four questions a part
    words = ["verifier", "data", "pocket", "--samples", "4", "--set", "task.options.lean=0.9"]

    def ask(questions: int, folder: str) -> int:
        return main([*words, "-n", str(questions), "--out", str(tmp_path / folder)])

    assert ask(10, "grown") == 0
    first = (tmp_path / "grown" / "parts" / "part-000000.parquet").stat()
    assert ask(27, "grown") == 0
    assert ask(27, "whole") == 0
    grown, whole = (content(tmp_path / name) for name in ("grown", "whole"))
    assert grown == whole
    kept = (tmp_path / "grown" / "parts" / "part-000000.parquet").stat()
    assert (kept.st_ino, kept.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    capsys.readouterr()
    assert ask(9, "grown") == 2
    assert "sampling.questions: 27 then, 9 now" in capsys.readouterr().err
    assert content(tmp_path / "grown") == whole


def test_more_questions_with_another_setting_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["verifier", "data", "pocket", "--samples", "4", "--out", str(tmp_path / "out")]
    words += ["--set", "task.options.lean=0.9"]
    assert main([*words, "-n", "8"]) == 0
    before = content(tmp_path / "out")
    assert main([*words, "-n", "9", "--temperature", "2"]) == 2
    assert "only --questions may grow" in capsys.readouterr().err
    assert content(tmp_path / "out") == before


def test_a_folder_that_could_not_grow_goes_on_with_either_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("maporl_core.runs.verifier.sampling.PART_ANSWERS", 16)
    words = ["verifier", "data", "pocket", "--samples", "4", "--set", "task.options.lean=0.9"]

    def ask(questions: int, folder: str) -> int:
        return main([*words, "-n", str(questions), "--out", str(tmp_path / folder)])

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    assert ask(10, "grown") == ask(10, "small") == 0
    with monkeypatch.context() as disk:
        disk.setattr(files, "write_json", full)  # the new number cannot be written down
        assert ask(27, "grown") == 5
    fit = ["verifier", "fit", str(tmp_path / "grown"), "--out", str(tmp_path / "fitted")]
    assert main(fit) == 3
    assert "its sampling was stopped" in capsys.readouterr().err
    assert ask(10, "grown") == 0
    assert content(tmp_path / "grown") == content(tmp_path / "small")
    assert ask(27, "grown") == ask(27, "whole") == 0
    assert content(tmp_path / "grown") == content(tmp_path / "whole")
