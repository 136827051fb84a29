"""The Dashboard's words and tables, and what it says of the machine; no screen."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tui_samples import demo_run

from maporl_core.config.load import load_config
from maporl_core.kit.sparkline import sparkline
from maporl_core.store.reader import Request, RunStatus, Series, StoreReader
from maporl_tui.processes import machine
from maporl_tui.processes.asking import why_not
from maporl_tui.processes.machine import Machine, load_lines, read_gpus
from maporl_tui.reading.view import News, RunView, apply_news
from maporl_tui.screens.dashboard.facts import (
    agents_of,
    before_after_note,
    before_after_rows,
    change,
    change_text,
    notice,
    resume_command,
)
from maporl_tui.widgets.status_line import status_text


def view_of(state: str = "finished", **more: object) -> RunView:
    view = RunView("demo", "runs/demo", config=load_config("pocket"), generation=0)
    return replace(view, status=RunStatus(state, 4, 12), metric_names=("accuracy/turn_1",), **more)


# In words --------------------------------------------------------------------------------------


def test_an_agent_that_is_not_trained_is_frozen() -> None:
    config = load_config("pocket", ['train.train_agents=["Bo"]'])
    names = ("accuracy/turn_1", "accuracy/turn_2")
    view = replace(view_of(), config=config, metric_names=names, metrics={"policy/Bo/kl": 0.5})
    found = agents_of(view, {"accuracy/Bo/turn_2": Series((1, 2, 3), (0.1, 0.2, 0.4))})
    assert [agent.trained for agent in found] == [False, True, False]
    assert found[1].kl == 0.5
    assert found[1].base == "main (pocket)"
    assert found[1].change == pytest.approx(0.3)


def test_agents_are_known_from_metrics_when_the_config_is_not_readable() -> None:
    names = ("accuracy/Ada/turn_1", "accuracy/turn_1")
    found = agents_of(replace(view_of(), config=None, metric_names=names), {})
    assert [(agent.name, agent.trained) for agent in found] == [("Ada", None)]


def test_a_trend_compares_the_last_third_with_the_first() -> None:
    assert change([0.0, 0.2, 9.0, 9.0, 0.5, 0.7]) == pytest.approx(0.5)
    assert change([0.1, 0.2]) is None
    assert [change_text(x) for x in (0.12, -0.03, 0.001, None)] == ["▲ +0.12", "▼ -0.03", "≈ 0", ""]
    assert sparkline([0.0, 1.0, 0.5]) == "▁█▅"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("died", "died after step 4 of 12"),
        ("failed", "failed after step 4 of 12: out of luck"),
        ("interrupted", "interrupted after step 4 of 12"),
        ("new", "not begun"),
    ],
)
def test_a_run_that_does_not_go_on_says_how_to(state: str, words: str) -> None:
    status = RunStatus(state, 4, 12, reason="out of luck" if state == "failed" else None)
    view = replace(view_of(), status=status, log_tail=("first", "last \x1b[31mline"))
    found = notice(view)
    assert found is not None
    text = "\n".join(found.lines)
    assert words in text
    assert "maporl resume demo" in text
    assert ("last line" in text) == (state in ("died", "failed"))


def test_a_healthy_run_needs_no_words() -> None:
    assert notice(view_of("running")) is None
    assert notice(view_of("finished")) is None


@pytest.mark.parametrize(
    ("stage", "lines"),
    [
        (
            '{"name": "evaluating before", "done": 120, "total": 360}',
            ("evaluating before  ███████░░░░░░░░░░░░░  120 of 360 messages",),
        ),
        (
            '{"name": "loading model \\u001b[31mx", "done": 0, "total": null}',
            ("loading model x …",),
        ),
        (
            '{"name": "evaluating after", "done": 9000, "total": 7200}',
            ("evaluating after  ████████████████████  7,200 of 7,200 messages",),
        ),
        ('{"name": "step 5: rollout", "done": 3, "total": 9}', None),  # in the status line
        ("[1]", None),
        ("{", None),
    ],
)
def test_what_the_trainer_does_between_steps_is_said_with_how_far_it_is(
    stage: str, lines: tuple[str, ...] | None
) -> None:
    found = notice(view_of("running", meta={"stage": stage}))
    assert (found.lines if found is not None else None) == lines


def test_a_run_that_nobody_trains_has_no_stage() -> None:
    meta = {"stage": '{"name": "evaluating after", "done": 1, "total": 2}'}
    for state in ("died", "interrupted", "finished", "paused"):
        assert view_of(state, meta=meta).stage is None


def test_the_status_line_has_the_stage_without_naming_the_step_twice() -> None:
    view = view_of("running", meta={"stage": '{"name": "step 5: rollout", "done": 3, "total": 9}'})
    assert status_text(view, 0.0) == "demo · running · step 4/12 · rollout 3/9"
    view = view_of("running", meta={"stage": '{"name": "evaluating after", "done": 0, "total": 9}'})
    assert status_text(view, 0.0) == "demo · running · step 4/12 · evaluating after 0/9"


def test_a_narrow_status_line_says_less_and_cuts_no_end() -> None:
    meta = {"stage": '{"name": "evaluating after training", "done": 1234, "total": 9000}'}
    request = Request(1, 0.0, "checkpoint", {}, None, None)
    view = view_of("running", meta=meta, requests={1: request}, last_written=100.0)
    whole = (
        "demo · running · step 4/12 · evaluating after training 1,234/9,000 · asked: checkpoint"
        " · last event 3 s ago"
    )
    assert status_text(view, 103.0) == status_text(view, 103.0, 200) == whole
    for width in range(1, 120):
        line = status_text(view, 103.0, width)
        assert len(line) <= width
        if width >= 28:
            assert line.endswith(("ago", "9,000", "checkpoint", "…", "4/12"))
    assert status_text(view, 103.0, 96).endswith("asked: checkpoint · 3 s ago")


def test_progress_within_a_stage_is_the_last_that_was_heard_of_a_run() -> None:
    def news(done: int, at: float) -> News:
        meta = {"stage": f'{{"name": "evaluating after", "done": {done}, "total": 9}}'}
        return News(RunStatus("running", 4, 12), 0, meta=meta, last_written=100.0, time=at)

    view = apply_news(RunView("demo", "runs/demo"), news(1, 150.0))
    assert view.last_heard == 100.0  # it may have stood there for long
    view = apply_news(view, news(2, 160.0))
    assert view.last_heard == 160.0
    assert apply_news(view, news(2, 170.0)).last_heard == 160.0


@pytest.mark.parametrize("state", ["new", "died", "failed", "interrupted", "finished"])
def test_no_resume_is_offered_while_a_trainer_holds_the_run(state: str) -> None:
    view = view_of(state)
    view = replace(view, status=replace(view.status, pid=77))
    found = notice(view)
    assert found is not None
    assert "process 77, is loading" in found.lines[0]
    assert not any("maporl resume" in line for line in found.lines)
    assert why_not(view, "stop") is None


def test_what_was_asked_for_comes_before_what_may_be_cut_in_a_narrow_status_line() -> None:
    request = Request(1, 0.0, "stop", {}, None, None)
    view = view_of("running", requests={1: request}, last_written=100.0)
    assert (
        status_text(view, 103.0) == "demo · running · step 4/12 · asked: stop · last event 3 s ago"
    )


def test_the_command_that_goes_on_names_a_run_elsewhere_by_its_folder() -> None:
    assert resume_command(replace(view_of(), path="/a b/demo")) == "maporl resume '/a b/demo'"


def test_the_table_before_and_after_has_the_means_and_their_intervals(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    with StoreReader(run) as reader:
        found = reader.evaluations()
    rows = before_after_rows(found)
    was, now = (one.summary.accuracy_T[0] for one in found)
    assert rows[0] == ("t", "before", "after", "gain")
    cell = f"{was.mean:.3f} [{was.low:.2f} {was.high:.2f}]".replace("0.", ".")
    assert rows[1][1] == cell
    assert float(rows[1][3]) == pytest.approx(now.mean - was.mean, abs=6e-4)
    assert before_after_rows(found[:1])[1][2:] == ("–", "")
    assert before_after_rows(()) == []


def test_the_note_above_the_table_counts_in_words_that_fit_the_number(tmp_path: Path) -> None:
    with StoreReader(demo_run(tmp_path, questions=1)) as reader:
        found = reader.evaluations()
    assert before_after_note(found) == "1 held-out question, steps 0 and 6"
    words = "1 held-out question, step 0; the next one fills 'after'"
    assert before_after_note(found[:1]) == words


# The machine -----------------------------------------------------------------------------------


def fake_smi(folder: Path, script: str) -> Machine:
    path = folder / "smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Machine(command=str(path))


def test_gpus_are_read_whatever_their_names() -> None:
    (one, two) = read_gpus("NVIDIA A, B, 87, 1024, 2048\nOther, [N/A], 1, 2\n")
    assert (one.name, one.busy, one.used, one.total) == ("NVIDIA A, B", 87.0, 1 << 30, 1 << 31)
    assert two.busy is None
    with pytest.raises(ValueError, match="not understood"):
        read_gpus("No devices were found")


def test_a_gpu_is_shown_with_its_load(tmp_path: Path) -> None:
    load = fake_smi(tmp_path, "echo 'H200, 50, 1000, 4000'").look()
    text = "\n".join(load_lines(load))
    assert "████░░░░  50% H200" in text
    assert "1.0 GB of 4.2 GB" in text


def test_a_gpu_program_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_GPU_SECONDS", 0.2)
    found = fake_smi(tmp_path, "exec sleep 60")
    start = time.monotonic()
    load = found.look()
    assert time.monotonic() - start < 20
    assert load.gpus == ()
    assert "no answer in 0.2 s" in str(load.gpu_problem)


def test_a_gpu_program_that_fails_says_why(tmp_path: Path) -> None:
    load = fake_smi(tmp_path, "echo 'driver mismatch'; exit 9").look()
    assert "driver mismatch" in str(load.gpu_problem)


def test_the_trainer_is_looked_at_only_on_its_own_machine() -> None:
    found = Machine(command="no-such-program")
    here = found.look(os.getpid(), socket.gethostname())
    assert here.trainer is not None
    assert here.trainer.resident > 1 << 20
    away = found.look(os.getpid(), "elsewhere.example")
    assert away.trainer is None
    assert "trainer on elsewhere.example" in "\n".join(load_lines(away))


def test_a_trainer_that_is_gone_is_not_shown() -> None:
    assert Machine(command="no-such-program").look(2**22 + 1).trainer is None
