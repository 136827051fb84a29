"""``import maporl_core`` as somebody's script uses it, and the scripts of examples/."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import maporl_core as maporl
from maporl_core.errors import ConfigError, StoreError

ROOT = Path(__file__).parents[2]
SMALL = (
    *("train.problems_per_step=2", "discussion.turns=2", "discussion.max_new_tokens=8"),
    *("eval.questions=3", "checkpoint.every=1"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> maporl.Run:
    config = maporl.load_config("pocket", [*SMALL, "train.steps=1"])
    return maporl.train(config, root=tmp_path_factory.mktemp("runs"))


def test_importing_the_package_loads_nothing_heavy_and_lists_the_api() -> None:
    code = (
        "import sys, maporl_core; assert 'train' in dir(maporl_core); maporl_core.load_run\n"
        "print(*(name for name in ('torch', 'transformers', 'textual') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_train_stays_a_function_after_the_module_of_that_name_was_imported() -> None:

    assert not isinstance(maporl.train, ModuleType)
    assert callable(maporl.train)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        maporl.trian  # noqa: B018


def test_a_trained_run_holds_its_evaluations_metrics_and_config(run: maporl.Run) -> None:
    assert run.status().step == 1
    assert run.config.train.steps == 1
    assert [e.summary.label for e in run.evaluations()] == ["before", "after"]
    assert {step for step, _, _ in run.metrics()} == {1}


def test_messages_are_flat_and_their_parts_add_up_to_what_was_paid(run: maporl.Run) -> None:
    rows = list(run.messages())
    assert len(rows) == 2 * 2 * 3  # problems, turns, agents
    assert {(row["turn"], row["agent"]) for row in rows} == {
        (turn, agent) for turn in (1, 2) for agent in (1, 2, 3)
    }
    for row in rows:
        parts = [value for key, value in row.items() if key.startswith("reward/")]
        assert sum(parts) == pytest.approx(row["reward"], abs=1e-6)


def test_evaluated_messages_were_paid_nothing(run: maporl.Run) -> None:
    assert all("reward" not in row for row in run.messages("eval"))


def test_a_resumed_run_goes_on_to_the_new_end(tmp_path: Path) -> None:
    config = maporl.load_config("pocket", [*SMALL, "eval.questions=0", "train.steps=1"])
    begun = maporl.train(config, root=tmp_path)
    longer = maporl.load_config("pocket", [*SMALL, "eval.questions=0", "train.steps=2"])
    assert maporl.train(longer, resume=begun).status().step == 2
    other = maporl.load_config("pocket", [*SMALL, "seed=9"])
    with pytest.raises(ConfigError, match="seed"):
        maporl.train(other, resume=begun)


def test_evaluate_is_kept_in_the_run_under_its_label(run: maporl.Run) -> None:
    summary = maporl.evaluate(run, questions=2, state="base", label="again")
    assert (summary.questions, summary.policy_state) == (2, "base")
    assert run.evaluations()[-1].summary.label == "again"


def test_debate_scores_an_own_question_with_a_gold_answer(run: maporl.Run) -> None:
    heard: list[int] = []
    asked = maporl.debate(
        "Mia has 12 pens, gets 7 or 9 and loses 4. How many?",
        run,
        gold="17",
        on_turn=lambda turn: heard.append(len(turn)),
    )
    assert heard == [3, 3]
    assert asked.discussion.problem.gold == "17"
    assert all(message.score is not None for message in asked.discussion.everything())


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises((StoreError, ConfigError), match="nowhere"):
        maporl.load_run("nowhere", tmp_path)


def example(name: str, *words: object) -> str:
    """What one script of examples/ prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_trains_and_prints_the_accuracies(tmp_path: Path) -> None:
    printed = example("train_in_20_lines.py", 1, tmp_path)
    assert "before   accuracy by turn:" in printed
    assert (tmp_path / "pocket" / "run.db").is_file()


def test_example_reads_a_run_into_tables(run: maporl.Run) -> None:
    printed = example("read_a_run_into_pandas.py", run.path)
    assert "reward/own" in printed
    assert "accuracy/turn_2" in printed


def test_example_asks_before_and_after(run: maporl.Run) -> None:
    printed = example("own_question.py", run.path)
    assert printed.index("--- base") < printed.index("--- trained")
    assert printed.count("(score ") == 2 * 2 * 3


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [("own_reward.py", "agree", "a-script 0"), ("own_task.py", "larger", "Which is larger")],
)
def test_example_trains_with_a_kind_of_its_own(
    name: str, kind: str, line: str, tmp_path: Path
) -> None:
    printed = example(name, 1, tmp_path, *SMALL)
    kept = (tmp_path / kind / "config.toml").read_text("utf-8")
    assert line in printed + kept
    assert len(printed.splitlines()) == 3
    assert kept.rstrip().endswith(f"= {kind} comes from a-script 0")
