"""``maporl runs``: what it shows, exports, removes and asks."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import HOSTILE, HOSTILE_VISIBLE, report, summary
from store_samples import paid

from maporl_core.cli.main import main
from maporl_core.config.load import dump_toml, load_config
from maporl_core.store.checkpoint import write_checkpoint
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One finished run of two steps, in a folder where exports may be written."""
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "runs"
    run = RunDir.create(made, "first", dump_toml(load_config("pocket")), {"task": "pocket"})
    with StoreWriter(run) as store:
        store.set_meta({"steps": "2"})
        for step in (1, 2):
            store.write_step(step, [paid(step, text=HOSTILE)], report(step).metrics)
        store.write_evaluation(0, summary(), [])
        store.event("warning", "test", "look " + HOSTILE)
        store.set_state("finished")
    with run.lock(), write_checkpoint(run, 2, keep=2) as folder:
        policy = folder / "policies" / "Ada"
        policy.mkdir(parents=True)
        (policy / "adapter_config.json").write_text("{}")
    return made


def runs(root: Path, *words: str) -> int:
    return main(["runs", *words, "--root", str(root)])


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


# list and show ----------------------------------------------------------------------------------


def test_list_shows_state_step_and_last_accuracy(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(root, "list") == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "first" in line)
    assert row.split()[:5] == ["first", "finished", "pocket", "2/2", "56.0%"]


def test_list_speaks_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(root, "list", "--json") == 0
    (entry,) = document(capsys)
    assert (entry["name"], entry["status"]["state"], entry["status"]["step"]) == (
        "first",
        "finished",
        2,
    )
    assert entry["metrics"]["accuracy/turn_3"] == 0.56


def test_an_empty_or_missing_folder_says_how_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(tmp_path / "none", "list") == 0
    assert "maporl run" in capsys.readouterr().out


def test_an_unreadable_run_says_why_and_hides_no_other(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = root / "broken"
    broken.mkdir()
    (broken / "run.db").write_bytes(b"not a database, not even nearly" * 100)
    assert runs(root, "list") == 0
    shown = capsys.readouterr().out
    assert "unreadable" in shown
    assert "broken: " in shown
    assert "finished" in shown


def test_show_tells_the_whole_story(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(root, "show", "first") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("first  finished  step 2/2")
    assert "Ada, Bo, Cy on pocket discuss pocket for 3 turns" in shown.replace("\n", " ")
    assert "before (base): 500 questions" in shown
    assert "checkpoints: step-000002" in shown
    assert HOSTILE_VISIBLE in shown.replace("\n", " ")
    assert "\x1b" not in shown


def test_show_speaks_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(root, "show", "first", "--json", "--events", "1") == 0
    found = document(capsys)
    assert found["status"]["state"] == "finished"
    assert found["evaluations"][0]["summary"]["accuracy_T"][0]["mean"] == 0.51
    assert [entry["step"] for entry in found["checkpoints"]] == [2]
    assert len(found["events"]) == 1


@pytest.mark.parametrize("wanted", ["last", "2"])
def test_a_stored_discussion_is_shown_as_written_with_its_pay(
    wanted: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(root, "show", "first", "--debate", wanted) == 0
    shown = capsys.readouterr().out
    assert "What is number 2?" in shown
    assert "gold answer: 7" in shown
    assert "Ada  8  wrong  score 0.25" in shown
    assert HOSTILE_VISIBLE in shown.replace("\n", " ").replace("  ", " ")
    assert "reward -0.70 = own 0.10 + influence 0.30 - persuaded 1.00 - format 0.10" in shown
    assert "\x1b" not in shown
    assert "\r" not in shown


@pytest.mark.parametrize(("samples", "told"), [(1, ["", ""]), (2, [", sample 1", ", sample 2"])])
def test_a_stored_discussion_is_named_by_its_sample_where_its_problem_has_several(
    samples: int, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config("pocket", [f"method.samples={samples}"])
    run = RunDir.create(tmp_path, "grouped", dump_toml(config), {"task": "pocket"})
    with StoreWriter(run) as store:
        held = [replace(paid(1), discussion=replace(paid(1).discussion, sample=s)) for s in (0, 1)]
        store.write_step(1, held[:samples], report(1).metrics)
    for key in range(1, samples + 1):
        assert runs(tmp_path, "show", "grouped", "--debate", str(key)) == 0
        head = capsys.readouterr().out.partition("\n")[0]
        assert head == f"discussion {key}, step 1, train{told[key - 1]}"


def test_what_is_stored_is_shown_when_the_config_of_its_run_cannot_be_read(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "first" / "config.toml").write_text("[method]\nnot a table")
    assert runs(root, "show", "first", "--debate", "1") == 0
    assert capsys.readouterr().out.startswith("discussion 1, step 1, train\n")
    assert runs(root, "show", "first") == 0
    assert "checkpoints: step-000002" in capsys.readouterr().out


def test_a_stored_discussion_speaks_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(root, "show", "first", "--debate", "1", "--json") == 0
    found = document(capsys)
    first = found["turns"][0][0]
    assert first["agent"] == "Ada"
    assert first["text"].startswith("turn 0 agent 0 says [/red]")
    assert first["reward"]["total"] == pytest.approx(-0.7)


@pytest.mark.parametrize(("wanted", "code"), [("99", 5), ("x", 2), ("-1", 2), ("9" * 40, 2)])
def test_an_unknown_discussion_is_one_line(
    wanted: str, code: int, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(root, "show", "first", f"--debate={wanted}") == code
    assert capsys.readouterr().err.count("\n") == 1


# export -----------------------------------------------------------------------------------------


def test_discussions_are_exported_under_the_runs_name(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(root, "export", "first") == 0
    rows = [json.loads(line) for line in Path("first-discussions.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
    assert capsys.readouterr().out == "2 discussions written to first-discussions.jsonl\n"


def test_the_name_of_the_file_decides_the_format(root: Path) -> None:
    assert runs(root, "export", "first", "--out", "x.parquet") == 0
    assert Path("x.parquet").read_bytes()[:4] == b"PAR1"
    assert runs(root, "export", "first", "--what", "metrics", "--out", "x.jsonl") == 0
    assert len(Path("x.jsonl").read_text().splitlines()) == 2


def test_metrics_are_exported_as_csv(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert runs(root, "export", "first", "--what", "metrics", "--json") == 0
    assert document(capsys)["count"] == 2
    header, *rows = Path("first-metrics.csv").read_text().splitlines()
    assert "accuracy/turn_3" in header
    assert len(rows) == 2


def test_adapters_are_copied_out_of_the_newest_checkpoint(root: Path) -> None:
    assert runs(root, "export", "first", "--what", "adapters", "--out", "adapters") == 0
    assert Path("adapters/Ada/adapter_config.json").is_file()
    assert runs(root, "export", "first", "--what", "adapters", "--out", "adapters") == 2


def test_adapters_that_do_not_fit_on_the_disk_leave_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def half(source: Path, target: Path, **words: Any) -> None:
        (target / "Ada").mkdir()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("maporl_core.cli.exports.shutil.copytree", half)
    before = {path.name for path in Path().iterdir()}
    assert runs(root, "export", "first", "--what", "adapters", "--out", "adapters") == 5
    assert "the disk is full" in capsys.readouterr().err
    assert {path.name for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    "words",
    [
        ["--what", "discusions"],
        ["--format", "csv"],
        ["--split", "test"],
        ["--what", "metrics", "--format", "parquet"],
        ["--what", "metrics", "--format", "tensorboard", "--out", "x"],
    ],
)
def test_what_cannot_be_exported_is_refused(words: list[str], root: Path) -> None:
    assert runs(root, "export", "first", *words) == 2
    assert [path.name for path in root.parent.iterdir()] == ["runs"]


# remove -----------------------------------------------------------------------------------------


def test_remove_asks_and_without_a_terminal_needs_yes(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(root, "remove", "first") == 2
    assert "--yes" in capsys.readouterr().err
    assert runs(root, "remove", "first", "--yes") == 0
    assert list(root.iterdir()) == []


def test_remove_touches_nothing_when_one_name_is_wrong(root: Path) -> None:
    assert runs(root, "remove", "first", "secnd", "--yes") == 2
    assert (root / "first").is_dir()


def test_a_run_in_training_is_not_removed(root: Path) -> None:
    with RunDir(root / "first").lock():
        assert runs(root, "remove", "first", "--yes") == 5
    assert (root / "first").is_dir()


# request ----------------------------------------------------------------------------------------


def test_a_request_waits_for_the_trainers_answer(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(root / "first")

    def answer() -> None:
        with StoreWriter(run) as store:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                for request in store.poll_requests():
                    store.acknowledge(request.id, f"saved for {request.command}")
                    return
                time.sleep(0.02)

    with run.lock():
        trainer = threading.Thread(target=answer)
        trainer.start()
        assert runs(root, "request", "first", "checkpoint") == 0
        trainer.join()
    assert capsys.readouterr().out == "saved for checkpoint\n"


def test_a_request_without_waiting_is_left_for_the_trainer(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir(root / "first")
    with run.lock():
        assert runs(root, "request", "first", "stop", "--no-wait", "--json") == 0
    asked = document(capsys)
    assert (asked["command"], asked["result"]) == ("stop", None)
    with StoreReader(run) as reader:
        assert [request.command for request in reader.requests_since()] == ["stop"]


@pytest.mark.parametrize(
    ("command", "code", "words"), [("stp", 2, "did you mean 'stop'?"), ("stop", 5, "no living")]
)
def test_a_request_that_nobody_can_answer_is_refused(
    command: str, code: int, words: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert runs(root, "request", "first", command) == code
    assert words in capsys.readouterr().err
