"""Whole runs of the built-in agents, small: what is stored, saved, resumed, obeyed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from run_samples import Probe, new_run, one_thread, rows_of, small, state_bytes  # noqa: F401

from maporl_core.config.schema import RunConfig
from maporl_core.errors import Interrupted, StoreError, TrainingError
from maporl_core.kit.progress import Silent
from maporl_core.store.checkpoint import list_checkpoints, newest_adapters
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import RequestWriter, StoreReader
from maporl_core.train import train


def test_a_run_stores_every_message_reward_and_metric_and_compares_before_with_after(tmp_path):
    config, probe = small(), Probe()
    run = new_run(tmp_path, config)
    result = train(config, run, probe)
    assert result.steps == 2
    assert [s.label for s in probe.summaries] == ["before", "after"]
    assert probe.gains == [result.gain]
    assert result.gain.gain_T[0].mean == 0.0  # turn 1 is the frozen base, seeds are shared
    with StoreReader(run) as reader:
        assert reader.status().state == "finished"
        assert reader.status().step == 2
        trained = [s for s in reader.discussions() if s.row.split == "train"]
        assert len(trained) == 2 * 3
        for stored in trained:
            for row, paid in zip(stored.discussion.messages, stored.rewards_TA, strict=True):
                for message, reward in zip(row, paid, strict=True):
                    assert message.score is not None
                    assert (reward.advantage is not None) == (message.turn >= 1)
                    assert stored.raw_prompt(message.turn, message.agent)
        metrics = reader.latest_metrics()
    for name in (
        "accuracy/turn_2",
        "reward/total",
        "policy/Ada/kl",
        "ppo/policy_loss",
        "mismatch/ratio_mean",
        "time/rollout",
        "time/store",
        "speed/rollout_tokens_per_second",
    ):
        assert name in metrics
    assert metrics["mismatch/ratio_mean"] == pytest.approx(1.0, abs=0.02)


def test_final_adapters_load_in_peft(tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from maporl_core.models.assets import asset_path

    config = small()
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    base = AutoModelForCausalLM.from_pretrained(asset_path("pocket"))
    ids = torch.tensor([[5, 6, 7, 8]])
    plain = base(ids).logits
    tuned = PeftModel.from_pretrained(base, run.final / "policies" / "Ada")(ids).logits
    assert not torch.equal(plain, tuned)


def test_the_same_config_gives_the_same_run(tmp_path):
    config = small()
    runs = [new_run(tmp_path / side, config) for side in ("a", "b")]
    for run in runs:
        train(config, run, Silent())
    assert state_bytes(runs[0].final) == state_bytes(runs[1].final)
    assert rows_of(runs[0]) == rows_of(runs[1])


def test_a_run_interrupted_by_a_stop_request_resumes_exactly(tmp_path):
    config = small(train={"steps": 4}, update={"epochs": 2, "minibatches": 2})
    straight, cut = new_run(tmp_path / "a", config), new_run(tmp_path / "b", config)
    train(config, straight, Silent())

    class StopAfterTwo(Silent):
        def step_done(self, report):
            if report.step == 2:
                RequestWriter(cut).add("stop")

    with pytest.raises(Interrupted, match="maporl resume"):
        train(config, cut, StopAfterTwo())
    with StoreReader(cut) as reader:
        assert reader.status().state == "interrupted"
        assert reader.status().step == 2
    train(config, cut, Silent(), resume=True)
    newest = "checkpoints/step-000004"
    assert state_bytes(straight.path / newest) == state_bytes(cut.path / newest)
    assert state_bytes(straight.final) == state_bytes(cut.final)
    assert rows_of(straight) == rows_of(cut)


def test_a_stop_request_gives_an_evaluation_up_and_the_resumed_run_makes_up_for_it(tmp_path):
    config = small(train={"steps": 2}, eval={"questions": 4})
    straight, cut = new_run(tmp_path / "a", config), new_run(tmp_path / "b", config)
    train(config, straight, Silent())

    class StopInEvaluation(Silent):
        def stage(self, name, total=None):
            if name.startswith("evaluating before"):
                RequestWriter(cut).add("stop")

        def step_done(self, report):
            raise AssertionError("a step was trained after the request")

    with pytest.raises(Interrupted, match="a stop request after step 0"):
        train(config, cut, StopInEvaluation())
    with StoreReader(cut) as reader:
        assert reader.evaluations() == ()
        assert [r.result for r in reader.requests_since()] == ["stopping after step 0"]
    train(config, cut, Silent(), resume=True)
    assert state_bytes(straight.final) == state_bytes(cut.final)
    assert rows_of(straight) == rows_of(cut)


def test_rows_after_the_last_checkpoint_are_taken_back_on_resume(tmp_path):
    config = small(train={"steps": 3}, checkpoint={"every": 2, "keep": 10})
    run = new_run(tmp_path / "cut", config)
    whole = new_run(tmp_path / "whole", config)
    train(config, whole, Silent())

    class DieAfterThree(Silent):
        def step_done(self, report):
            if report.step == 3:
                raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        train(config, run, DieAfterThree())
    with StoreReader(run) as reader:
        assert reader.status().state == "failed"
    train(config, run, Silent(), resume=True)
    assert rows_of(run) == rows_of(whole)


def test_a_damaged_checkpoint_is_passed_over_with_a_line_that_says_so(tmp_path):
    config = small(train={"steps": 2})
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    newest = list_checkpoints(run)[-1].path
    (newest / "trainer.safetensors").write_bytes(b"")
    probe = Probe()
    train(config, run, probe, resume=True)
    said = [text for _, text in probe.logs]
    assert any("passed over step-000002" in text for text in said)
    assert any("step-000001" in text for text in said)
    assert [r.step for r in probe.reports] == [2]


def test_two_trainers_on_one_run_are_refused(tmp_path):
    config = small()
    run = new_run(tmp_path, config)
    with run.lock(), pytest.raises(StoreError, match="being trained"):
        train(config, run, Silent())


def test_requests_pause_resume_and_checkpoint_are_obeyed_and_acknowledged(tmp_path):
    config = small(train={"steps": 3}, checkpoint={"every": 0})
    run = new_run(tmp_path, config)
    paused = threading.Event()

    class Ask(Silent):
        def step_done(self, report):
            if report.step == 1:
                RequestWriter(run).add("pause")
                RequestWriter(run).add("checkpoint")
                threading.Thread(target=self.go_on, daemon=True).start()

        def go_on(self):
            for _ in range(200):
                with StoreReader(run) as reader:
                    if reader.status().state == "paused":
                        paused.set()
                        break
                time.sleep(0.05)
            RequestWriter(run).add("resume")

    train(config, run, Ask())
    assert paused.is_set()
    assert [entry.step for entry in list_checkpoints(run)] == [1, 3]


def test_steps_that_are_not_finite_are_not_applied_named_and_end_the_run(tmp_path, monkeypatch):
    from maporl_core.judging.rewards.maporl import PARTS
    from maporl_core.types import Pay

    config = small(
        train={"steps": 5},
        update={"max_bad_steps": 2},
        checkpoint={"every": 0},
        eval={"questions": 0},
    )
    run = new_run(tmp_path, config)
    probe = Probe()
    monkeypatch.setattr(
        "maporl_core.judging.rewards.maporl._pay",
        lambda *_: Pay({part.name: float("nan") for part in PARTS}),
    )
    with pytest.raises(TrainingError, match="maporl resume small"):
        train(config, run, probe)
    said = [text for level, text in probe.logs if level == "error"]
    assert len(said) == 2
    assert "turn 2 Ada" in said[0]
    with StoreReader(run) as reader:
        assert reader.status().state == "failed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_exits_130_and_a_hangup_is_survived(tmp_path, number):
    config = small(train={"steps": 500}, eval={"questions": 0}, checkpoint={"every": 0})
    run = new_run(tmp_path, config)
    code = (
        "import sys, torch; torch.set_num_threads(1)\n"
        "from maporl_core.config.load import load_config\n"
        "from maporl_core.errors import Interrupted\n"
        "from maporl_core.kit.progress import Silent\n"
        "from maporl_core.store.paths import RunDir\n"
        "from maporl_core.train import train\n"
        "from pathlib import Path\n"
        "run = RunDir(Path(sys.argv[1]))\n"
        "try: train(load_config(run.config, ()), run, Silent())\n"
        "except Interrupted as error: sys.exit(error.exit_code)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(run.path)])
    try:
        _wait_for_step(run, 1)
        child.send_signal(signal.SIGHUP)
        with StoreReader(run) as reader:
            step = reader.status().step
        _wait_for_step(run, step + 1)
        child.send_signal(number)
        assert child.wait(timeout=60) == 130
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
    with StoreReader(run) as reader:
        status = reader.status()
    assert status.state == "interrupted"
    assert list_checkpoints(run)[-1].step == status.step


def _wait_for_step(run: RunDir, step: int) -> None:
    for _ in range(1200):
        with StoreReader(run) as reader:
            if reader.status().step >= step:
                return
        time.sleep(0.05)
    raise AssertionError(f"step {step} was not reached")


class StopIn(Silent):
    """Asks to stop, as a signal would, when a stage of this name begins."""

    def __init__(self, stage):
        self.wanted = stage

    def stage(self, name, total=None):
        if name.startswith(self.wanted):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_stop_is_heard_in_an_evaluation_and_the_run_goes_on_exactly(tmp_path):
    config = small(eval={"questions": 40})
    straight, cut = new_run(tmp_path / "a", config), new_run(tmp_path / "b", config)
    train(config, straight, Silent())
    for stage in ("evaluating before", "evaluating after"):
        with pytest.raises(Interrupted):
            train(config, cut, StopIn(stage), resume=stage.endswith("after"))
    probe = Probe()
    result = train(config, cut, probe, resume=True)
    assert [s.label for s in probe.summaries] == ["after"]  # "before" is stored already
    assert result.gain is not None
    assert state_bytes(straight.final) == state_bytes(cut.final)


def test_trained_means_the_newest_whole_adapters_of_a_run_that_went_on_after_its_end(tmp_path):
    config = small(train={"steps": 1}, eval={"questions": 0})
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    longer = small(train={"steps": 50}, eval={"questions": 0})

    class StopAtThree(Silent):
        def step_done(self, report):
            if report.step == 3:
                RequestWriter(run).add("stop")

    with pytest.raises(Interrupted):
        train(longer, run, StopAtThree(), resume=True)
    newest = newest_adapters(run)
    assert newest.step == 3
    assert newest.path == list_checkpoints(run)[-1].path


def test_damaged_final_adapters_are_refused(tmp_path):
    config = small(train={"steps": 1}, eval={"questions": 0})
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    assert newest_adapters(run).path == run.final
    file = run.final / "policies" / "Ada" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="cannot be used"):
        newest_adapters(run)


def test_with_one_checkpoint_kept_a_damaged_one_does_not_push_out_the_new_ones(tmp_path):
    config = small(train={"steps": 3}, eval={"questions": 0}, checkpoint={"every": 1, "keep": 3})
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    for step in (2, 3):
        (run.checkpoints / f"step-00000{step}" / "trainer.safetensors").write_bytes(b"")
    config = small(train={"steps": 3}, eval={"questions": 0}, checkpoint={"every": 1, "keep": 1})

    class StopAtTwo(Silent):
        def step_done(self, report):
            if report.step == 2:
                RequestWriter(run).add("stop")

    with pytest.raises(Interrupted):
        train(config, run, StopAtTwo(), resume=True)
    assert [entry.step for entry in list_checkpoints(run)] == [2]


def test_questions_too_long_for_the_window_are_left_out_and_counted(tmp_path):
    questions = ["why " * (90 if i % 2 else 2) + f"{i}?" for i in range(40)]
    rows = [json.dumps({"question": q, "answer": str(i)}) for i, q in enumerate(questions)]
    data = tmp_path / "own.jsonl"
    data.write_text("\n".join(rows))
    base = small(train={"steps": 1, "problems_per_step": 8}, eval={"questions": 0}).model_dump()
    base["task"] |= {"name": "jsonl", "path": str(data)}
    base["discussion"] |= {"max_context": 300}
    config = RunConfig.model_validate(base)
    probe = Probe()
    run = new_run(tmp_path / "runs", config)
    train(config, run, probe)
    assert any("questions left out" in text for _, text in probe.logs)
    with StoreReader(run) as reader:
        assert 0 < len(list(reader.discussions())) < 8
