"""No network that nobody asked for: a run, the doctor and the config commands work without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest
from huggingface_hub import constants
from small import small_llama, word_tokenizer

from maporl_core.assembly import assemble
from maporl_core.config.load import dump_toml, load_config
from maporl_core.config.schema import BaseModelConfig
from maporl_core.judging.verifier.data import Selection
from maporl_core.judging.verifier.fit import FitSettings
from maporl_core.kit.offline import offline
from maporl_core.kit.progress import Silent
from maporl_core.runs.doctor.facts import hub
from maporl_core.runs.evaluate import evaluate_run
from maporl_core.runs.own_question import debate, question_of_ones_own
from maporl_core.runs.verifier.fitting import fit_verifier
from maporl_core.runs.verifier.sampling import Sampling, make_data
from maporl_core.runs.verifier.scoring import score_file
from maporl_core.store.paths import RunDir
from maporl_core.train import train

# A process in which every way out is blocked and written down; HF_HUB_OFFLINE is not set.
BLOCKED = """
import socket, sys
def refuse(*arguments, **options):
    with open(sys.argv[1], "a") as log:
        log.write(repr(arguments[-2:]) + "\\n")
    raise OSError("blocked")
for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, refuse)
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, refuse)
from maporl_core.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def without_network(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command line with every way out blocked; fails if any of them was tried."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_HOME": str(tmp_path / "hub"), "OMP_NUM_THREADS": "1"}
    log = tmp_path / "tried"
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(log), *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert not log.exists(), log.read_text()
    return done


SMALL = (
    *("--set=train.steps=1", "--set=train.problems_per_step=2", "--set=eval.questions=2"),
    *("--set=discussion.max_new_tokens=6", "--set=update.epochs=1"),
)


def test_a_run_of_the_built_in_agents_needs_no_network(tmp_path: Path) -> None:
    done = without_network(tmp_path, "run", "pocket", *SMALL)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "pocket" / "final").is_dir()


def test_evaluations_and_debates_of_the_built_in_agents_need_no_network(tmp_path: Path) -> None:
    assert without_network(tmp_path, "run", "pocket", *SMALL).returncode == 0
    for words in (("eval", "pocket", "--questions", "2"), ("debate", "--run", "pocket", "--both")):
        done = without_network(tmp_path, *words)
        assert done.returncode == 0, done.stderr


def test_a_run_on_a_local_model_and_local_data_needs_no_network(tmp_path: Path) -> None:
    small_llama().save_pretrained(tmp_path / "model")
    word_tokenizer().save_pretrained(tmp_path / "model")
    rows = "".join(f'{{"question": "w{n} w{n + 1}", "answer": {n}}}\n' for n in range(2, 30))
    (tmp_path / "own.jsonl").write_text(rows)
    words = ("--set=bases.main.model=model", "--set=task.name=jsonl", "--set=task.path=own.jsonl")
    done = without_network(tmp_path, "run", "pocket", *words, *SMALL)
    assert done.returncode == 0, done.stderr


def test_doctor_and_config_ask_nobody(tmp_path: Path) -> None:
    for words in (("doctor", "gsm8k"), ("config", "show", "gsm8k"), ("config", "check", "anli")):
        done = without_network(tmp_path, *words)
        assert done.returncode in (0, 4), done.stderr
        assert "unreachable" not in done.stdout


def test_the_hub_is_asked_only_on_request() -> None:
    closed = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert hub(closed, ask=False).state == "not asked"
    assert hub(closed, ask=True).state == "unreachable"


def switches() -> tuple[Any, ...]:
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    inside = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    return (*inside, *(os.environ.get(name) for name in names))


class Watcher(Silent):
    def __init__(self) -> None:
        self.loading: list[tuple[Any, ...]] = []
        self.speaking: list[tuple[Any, ...]] = []
        self.stepping: list[tuple[Any, ...]] = []

    def stage(self, name: str, total: int | None = None) -> None:
        if name.startswith("loading "):
            self.loading.append(switches())

    def advance(self, count: int = 1) -> None:
        self.speaking.append(switches())

    def step_done(self, report: Any) -> None:
        self.stepping.append(switches())


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.mark.usefixtures("online")
def test_the_hub_is_shut_off_from_the_first_step_to_the_end_of_a_run(tmp_path: Path) -> None:
    config = load_config("pocket", [word.removeprefix("--set=") for word in SMALL])
    watcher = Watcher()
    train(config, RunDir.create(tmp_path, "run", ""), watcher)
    assert set(watcher.loading) == {(False, False, None, None)}
    assert watcher.stepping == [(True, True, "1", "1")]
    assert switches() == (False, False, None, None)


@pytest.mark.usefixtures("online")
def test_the_hub_is_shut_off_while_agents_speak_in_evaluations_and_debates(tmp_path: Path) -> None:
    config = load_config("pocket", [word.removeprefix("--set=") for word in SMALL])
    run, watcher = RunDir.create(tmp_path, "run", dump_toml(config)), Watcher()
    evaluate_run(
        run,
        config,
        "base",
        label="own",
        questions=2,
        temperature=0.0,
        seed=0,
        split=None,
        progress=watcher,
    )
    assert set(watcher.loading) == {(False, False, None, None)}
    assert set(watcher.speaking) == {(True, True, "1", "1")}
    spoken: list[tuple[Any, ...]] = []
    assembly = assemble(config, Silent())
    question = question_of_ones_own(assembly, "3: 1 + 2", None)
    debate(
        assembly,
        question,
        "base",
        temperature=0.0,
        seed=0,
        on_turn=lambda row: spoken.append(switches()),
    )
    assert set(spoken) == {(True, True, "1", "1")}
    assert switches() == (False, False, None, None)


@pytest.mark.usefixtures("online")
def test_the_hub_is_shut_off_while_a_verifier_is_made_and_scores(tmp_path: Path) -> None:
    config, data, fitted = load_config("pocket"), tmp_path / "data", tmp_path / "fitted"
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"question": "3: 1 + 2", "answer": "1 + 2 = 3"}')
    settings = FitSettings(epochs=1, rank=2)

    def sample(watcher: Watcher) -> None:
        make_data(config, Sampling("train", 60, 4, 1.0), Selection(), data, watcher)

    def fit(watcher: Watcher) -> None:
        fit_verifier(data, BaseModelConfig(model="pocket"), settings, fitted, watcher, "cpu")

    def score(watcher: Watcher) -> None:
        score_file(str(answers), fitted, watcher)

    for work in (sample, fit, score):
        watcher = Watcher()
        work(watcher)
        assert set(watcher.loading) == {(False, False, None, None)}, work
        assert set(watcher.speaking) == {(True, True, "1", "1")}, work
        assert switches() == (False, False, None, None), work


def test_what_was_offline_before_stays_so_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "yes")
    with pytest.raises(ValueError, match="inside"), offline():
        raise ValueError("inside")
    assert constants.HF_HUB_OFFLINE is True
    assert os.environ["HF_HUB_OFFLINE"] == "yes"
