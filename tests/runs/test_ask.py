"""The process that answers questions over its pipes: both sides, cancel, mistakes, a clean end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maporl_core.config.load import load_config
from maporl_core.errors import ConfigError
from maporl_core.kit.progress import Silent
from maporl_core.runs.answer_worker import Question, Side
from maporl_core.store.paths import RunDir

SMALL = [
    "train.steps=1",
    "train.problems_per_step=2",
    "eval.questions=0",
    "checkpoint.every=0",
    "discussion.turns=2",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    from maporl_core.config.load import dump_toml
    from maporl_core.train import train

    config = load_config("pocket", [*SMALL, "name=asked"])
    made = RunDir.create(tmp_path_factory.mktemp("runs"), "asked", dump_toml(config))
    train(config, made, Silent())
    return made


class Asked:
    """One worker process and its events."""

    def __init__(self, *sides: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "maporl_core", "ask-worker", *sides],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def say(self, **line: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def events(self, last: str) -> list[dict[str, Any]]:
        assert self.process.stdout is not None
        found = []
        for line in self.process.stdout:
            found.append(json.loads(line))
            if found[-1]["event"] == last:
                return found
        raise AssertionError(f"no {last!r} in {found}; {self.process.communicate()[1]}")


@pytest.fixture(scope="module")
def worker(run: RunDir) -> Iterator[Asked]:
    asked = Asked(f"{run.path}::base", f"{run.path}::trained")
    yield asked
    asked.process.stdin.close()
    assert asked.process.wait(20) == 0


@pytest.fixture(scope="module")
def ready(worker: Asked) -> dict[str, Any]:
    return worker.events("ready")[-1]


def test_it_says_who_will_answer(ready: dict[str, Any]) -> None:
    states = [side["policy_state"] for side in ready["sides"]]
    assert states == ["base", "trained"]
    assert ready["sides"][0]["agents"] == ["Ada", "Bo", "Cy"]


@pytest.mark.usefixtures("ready")
def test_both_sides_answer_with_growing_text_then_scores_and_rewards(worker: Asked) -> None:
    question = "Mia has 12 pens, gets 7 or 9 and loses 4. How many?"
    worker.say(ask=1, question=question, gold="17", temperature=1.0, seed=3)
    events = worker.events("finished")
    assert events[0] == {"event": "question", "ask": 1, "question": question, "gold": "17"}
    turns = [e for e in events if e["event"] == "turn"]
    assert [(e["side"], e["turn"]) for e in turns] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(0 <= m["score"] <= 1 for e in turns for m in e["messages"])
    assert turns[0]["messages"] == turns[2]["messages"], "turn 1 is the base's on both sides"
    grown = [e["text"] for e in events if e["event"] == "text" and e["side"] == 0]
    assert grown
    done = [e for e in events if e["event"] == "done"]
    parts = done[0]["rewards"][0][0]
    assert parts["total"] == pytest.approx(sum(v for k, v in parts.items() if k != "total"))


@pytest.mark.usefixtures("ready")
def test_without_a_gold_answer_nothing_is_scored(worker: Asked) -> None:
    worker.say(ask=2, question="How many?")
    events = worker.events("finished")
    assert all(m["score"] is None for e in events if e["event"] == "turn" for m in e["messages"])
    assert [e["rewards"] for e in events if e["event"] == "done"] == [None, None]


@pytest.mark.usefixtures("ready")
def test_a_held_out_question_can_be_asked_by_its_number(worker: Asked) -> None:
    worker.say(ask=3, number=5)
    events = worker.events("finished")
    assert events[0]["gold"] is not None
    worker.say(ask=4, number=5)
    assert worker.events("finished")[0]["question"] == events[0]["question"]


@pytest.mark.usefixtures("ready")
def test_a_question_can_be_withdrawn(worker: Asked) -> None:
    worker.say(cancel=5)
    worker.say(ask=5, number=1)
    assert worker.events("cancelled")[-1] == {"event": "cancelled", "ask": 5}
    worker.say(ask=6, number=1)
    worker.events("finished")


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"question": "x"}, "number of its own"),
        ({"ask": 7, "question": 3}, "question must be str"),
        ({"ask": 7, "temperature": -1}, "temperature must be a number"),
        ({"ask": 7, "number": 10**9}, "has only"),
        ({"ask": True}, "ask must be int"),
    ],
)
def test_a_wrong_line_is_one_event_and_the_process_goes_on(
    worker: Asked, line: dict[str, Any], words: str
) -> None:
    worker.say(**line)
    assert words in worker.events("problem")[-1]["text"]


@pytest.mark.usefixtures("ready")
def test_a_line_that_is_no_json_is_one_event(worker: Asked) -> None:
    worker.process.stdin.write("{nonsense\n\n")
    worker.process.stdin.flush()
    assert "JSON object" in worker.events("problem")[-1]["text"]


def test_it_leaves_at_once_when_nobody_is_left_while_it_loads(run: RunDir) -> None:
    asked = Asked(f"{run.path}::base")
    asked.events("stage")
    assert asked.process.stdin is not None
    asked.process.stdin.close()
    assert asked.process.wait(30) == 0
    assert asked.process.stdout is not None
    assert '"ready"' not in asked.process.stdout.read()


def test_a_side_without_trained_agents_is_said_before_any_question(
    run: RunDir, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(run.path, bare)
    shutil.rmtree(bare / "final")
    shutil.rmtree(bare / "checkpoints", ignore_errors=True)
    asked = Asked(f"{bare}::trained")
    assert "no trained adapters" in asked.events("problem")[-1]["text"]
    assert asked.process.wait(20) == 5


@pytest.mark.parametrize("text", ["nowhere", "::base", "nowhere::", "nowhere::base"])
def test_a_side_must_name_a_run_and_a_state(text: str) -> None:
    with pytest.raises(ConfigError):
        Side.parse(text)


def test_a_question_keeps_what_it_was_given() -> None:
    read = Question.read({"ask": 1, "question": "q", "temperature": 0, "seed": 0})
    assert (read.question, read.gold, read.temperature, read.seed) == ("q", None, 0, 0)
