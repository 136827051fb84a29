"""A verifier that a run fitted anew leaves it as a folder that scores like the run did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from judged_samples import judged
from learned_runs import refitting, stored
from run_samples import new_run, one_thread  # noqa: F401

from maporl_core.cli.exports import export
from maporl_core.cli.main import main
from maporl_core.config.load import override_config
from maporl_core.errors import ConfigError
from maporl_core.judging.verifier.keeper import kept_verifier
from maporl_core.judging.verifier.learned import POLICY
from maporl_core.judging.verifier.placing import BUILT_IN
from maporl_core.judging.verifier.refitted import write_refitted
from maporl_core.kit.progress import Silent
from maporl_core.models.adapter_files import ADAPTER_FILE
from maporl_core.runs.verifier.fitting import load_verifier
from maporl_core.store.paths import RunDir
from maporl_core.train import train


@pytest.fixture(scope="module")
def refitted(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Three steps, fitted anew after the second."""
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("maporl_core.judging.verifier.keeper._LEAST", {"train": 16, "held out": 4})
        run = new_run(tmp_path_factory.mktemp("refitted"), refitting(3))
        train(refitting(3), run, Silent())
    return run


def test_an_exported_verifier_gives_the_scores_of_the_run(refitted: RunDir, tmp_path: Path) -> None:
    written = export(refitted, "adapters", None, "train", tmp_path / "out", Silent())
    assert written["verifier"] == str(tmp_path / "out" / "verifier")
    assert written["count"] == len(list((refitted.final / "policies").iterdir())) - 1
    assert not (tmp_path / "out" / POLICY).exists()
    last = [s for s in stored(refitted) if s.row.step == 3]
    asked = [(s.discussion.problem, m) for s in last for r in s.discussion.messages for m in r]
    problems, messages = zip(*asked, strict=True)
    scores = [message.score for message in messages]
    alone = load_verifier(tmp_path / "out" / "verifier", Silent())
    assert alone.score(judged(problems, messages, [0] * len(messages))) == pytest.approx(
        scores, abs=1e-5
    )
    before = load_verifier(refitted.verifier, Silent())
    old = before.score(judged(problems, messages, [0] * len(messages)))
    assert max(abs(a - b) for a, b in zip(old, scores, strict=True)) > 0.05


def test_its_card_says_when_it_was_fitted_and_claims_no_figures(
    refitted: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["runs", "export", str(refitted.path), "--what", "adapters", "--out"]
    assert main([*words, str(tmp_path / "out")]) == 0
    assert "adapters and verifier written to" in capsys.readouterr().out
    folder = tmp_path / "out" / "verifier"
    card = json.loads((folder / "card.json").read_text())
    assert card["refitted"] == {"run": refitted.name, "step": 3, "fits": [2]}
    began = json.loads((refitted.verifier / "card.json").read_text())
    assert "results" not in card
    assert card["results_before_refit"] == began["results"]
    said = f"Fitted anew by run {refitted.name} on its own messages, at steps 2;"
    assert said in (folder / "card.md").read_text()
    assert main(["verifier", "show", str(folder)]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps({"question": "What is 1 + 2?", "answer": "3"}) + "\n")
    assert main(["verifier", "score", str(asked), "--verifier", str(folder)]) == 0
    check = ["config", "check", "pocket-verifier", "--set", f"verifier.path={folder}"]
    assert main(check) == 0


def test_a_verifier_that_no_fit_helped_is_the_one_the_run_began_with(tmp_path: Path) -> None:
    config = override_config(refitting(3), ["train.problems_per_step=1"])
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    export(run, "adapters", None, "train", tmp_path / "out", Silent())
    folder = tmp_path / "out" / "verifier"
    assert json.loads((folder / "card.json").read_text()) == json.loads(
        (BUILT_IN["pocket"] / "card.json").read_text()
    )
    assert (folder / ADAPTER_FILE).read_bytes() == (BUILT_IN["pocket"] / ADAPTER_FILE).read_bytes()


def test_an_agents_policy_of_that_name_keeps_it(refitted: RunDir, tmp_path: Path) -> None:
    run = RunDir(tmp_path / "copy")
    shutil.copytree(refitted.path, run.path)
    shutil.rmtree(run.final)
    for checkpoint in run.checkpoints.iterdir():
        (checkpoint / "policies" / "Ada").rename(checkpoint / "policies" / "Verifier")
        manifest = checkpoint / "manifest.json"
        manifest.write_text(manifest.read_text().replace("policies/Ada/", "policies/Verifier/"))
    written = export(run, "adapters", None, "train", tmp_path / "out", Silent())
    assert written["verifier"] == str(tmp_path / "out" / "verifier-2")
    assert (tmp_path / "out" / "Verifier" / ADAPTER_FILE).is_file()


@pytest.mark.parametrize(
    ("whose", "said"),
    [
        (["--both"], "scored by the run's verifier as of step 3"),
        (["--base"], "scored by the run's verifier as of step 3"),
        (["--both", "--set", "verifier.refit_every=0"], None),
    ],
)
def test_a_debate_says_which_verifier_scored(
    whose: list[str], said: str | None, refitted: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["debate", "--run", str(refitted.path), *whose]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("scored by")]
    assert lines == ([said] if said else [])


def test_a_card_without_figures_is_exported_without_a_page(
    refitted: RunDir, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(refitted.verifier, copy)
    card = json.loads((copy / "card.json").read_text())
    del card["results"], card["history"]
    (copy / "card.json").write_text(json.dumps(card))
    weights = refitted.final / "policies" / POLICY
    write_refitted(copy, weights, tmp_path / "out", "mine", 3, [2])
    assert not (tmp_path / "out" / "card.md").exists()
    assert load_verifier(tmp_path / "out", Silent()).temperature == card["temperature"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["verifier.refit_every=3"], r"leave it out to score as the run did \(2\)"),
        (["verifier.path=other"], "set verifier.refit_every=0 too"),
    ],
)
def test_only_the_runs_own_fits_can_be_asked_for(
    changes: list[str], said: str, refitted: RunDir
) -> None:
    with pytest.raises(ConfigError, match=said):
        kept_verifier(refitted, override_config(refitting(3), changes))
    began = override_config(refitting(3), ["verifier.refit_every=0"])
    assert kept_verifier(refitted, began) == refitted.verifier
    other = override_config(refitting(3), ["verifier.path=other", "verifier.refit_every=0"])
    assert kept_verifier(refitted, other) is None


def test_a_run_that_never_fitted_its_verifier_has_no_such_fits(tmp_path: Path) -> None:
    wanted = refitting(3)
    run = new_run(tmp_path, override_config(wanted, ["verifier.refit_every=0"]))
    with pytest.raises(ConfigError, match="this run never did; leave it out"):
        kept_verifier(run, wanted)
