"""Runs whose messages a learned verifier scores: one base, its own copy, warnings, refits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from judged_samples import judged
from learned_runs import learned, messages, refitting, stored
from run_samples import Probe, new_run, one_thread, small, state_bytes  # noqa: F401
from safetensors.torch import load_file

from maporl_core.assembly import assemble
from maporl_core.config.load import load_config, override_config
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError, DataError, ModelError, StoreError
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.judging.verifier.keeper import VerifierKeeper, kept_verifier
from maporl_core.judging.verifier.learned import POLICY, LearnedVerifier
from maporl_core.judging.verifier.placing import (
    APART,
    BUILT_IN,
    fingerprint,
    keep,
    place,
    verifier_folder,
)
from maporl_core.judging.verifier.watching import GAP
from maporl_core.kit.progress import Silent
from maporl_core.models.adapter_files import ADAPTER_FILE, VALUE_FILE
from maporl_core.runs.evaluate import evaluate_run
from maporl_core.runs.verifier.fitting import load_verifier
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.train import train


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> RunDir:
    torch.set_num_threads(1)
    config = learned(train={"steps": 3, "problems_per_step": 12})
    run = new_run(tmp_path_factory.mktemp("learned"), config)
    train(config, run, Silent())
    return run


# --- Scores ---------------------------------------------------------------------------------------


def test_scores_in_a_run_are_those_of_the_verifier_on_a_base_of_its_own(finished: RunDir) -> None:
    alone = load_verifier(BUILT_IN["pocket"], Silent())
    held = messages(finished)
    assert len(held) == 3 * 12 * 2 * 3
    problems, rows = zip(*held, strict=True)
    expected = alone.score(judged(problems, rows, [0] * len(rows)))
    assert [m.score for m in rows] == pytest.approx(expected, abs=1e-5)
    assert len({round(score, 3) for score in expected}) > 10


def test_training_leaves_the_verifier_and_the_base_alone(finished: RunDir) -> None:
    assembly = assemble(load_config(finished.config), Silent(), finished.verifier)
    base = assembly.policies.bases["main"]
    assert set(assembly.policies.bases) == {"main"}, "the base is loaded once"
    found = assembly.verifier.inside
    assert isinstance(found, LearnedVerifier)
    assert found.base is base
    saved = load_file(BUILT_IN["pocket"] / VALUE_FILE)
    assert torch.equal(base.policies[POLICY].value["weight"], saved["weight"])
    assert not (finished.final / "policies" / POLICY).exists()
    assert (
        state_bytes(finished.verifier)[ADAPTER_FILE]
        == (BUILT_IN["pocket"] / ADAPTER_FILE).read_bytes()
    )


def test_agents_speak_as_they_do_without_a_verifier_beside_them(
    finished: RunDir, tmp_path: Path
) -> None:
    config = override_config(load_config(finished.config), ["verifier.kind=rule", "train.steps=1"])
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    with_rule = [m.text for _, m in messages(run) if m.turn == 0]
    beside = [m.text for _, m in messages(finished) if m.turn == 0]
    assert with_rule == beside[: len(with_rule)]


def test_what_a_run_says_of_its_verifier_is_stored(finished: RunDir) -> None:
    with StoreReader(finished) as reader:
        metrics = reader.latest_metrics()
        story = " ".join(event.text for event in reader.last_events())
    held = [
        m for s in stored(finished) if s.row.step == 3 for r in s.discussion.messages for m in r
    ]
    apart = [(m.score >= 0.5) != m.correct for m in held]
    assert metrics["verifier/disagreement"] == pytest.approx(sum(apart) / len(apart))
    assert 0.0 < metrics["speed/verifier_share"] < 1.0
    assert "base 'main' of the agents, loaded once" in story


@pytest.mark.parametrize("kind", ["learned", "mixed"])
def test_incentives_follow_scores_or_the_rule_as_the_kind_says(kind: str, tmp_path: Path) -> None:
    config = learned(kind, train={"steps": 2, "problems_per_step": 16}, eval={"questions": 0})
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    same = differ = 0
    for held in stored(run):
        paid = [[reward.parts for reward in row] for row in held.rewards_TA]
        for by_score in (True, False):
            rules = reward_discussion(held.discussion, config.reward, by_score)
            agrees = all(
                a.total == pytest.approx(b.total)
                for x, y in zip(paid, rules, strict=True)
                for a, b in zip(x, y, strict=True)
            )
            if by_score is (kind == "learned"):
                same += agrees
            else:
                differ += not agrees
    assert same == 32
    assert differ > 0, "a sample in which score and rule never differ shows nothing"


# --- The run's own copy ---------------------------------------------------------------------------


def test_a_run_goes_on_and_is_evaluated_after_the_verifiers_folder_is_gone(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    shutil.copytree(BUILT_IN["pocket"], source)
    config = learned(verifier={"path": str(source)}, train={"steps": 1})
    run = new_run(tmp_path / "runs", config)
    train(config, run, Silent())
    shutil.rmtree(source)
    longer = override_config(config, ["train.steps=2"])
    assert train(longer, run, Silent(), resume=True).steps == 2
    summary = evaluate_run(
        run,
        longer,
        "trained",
        label="later",
        questions=4,
        temperature=1.0,
        seed=0,
        split=None,
        progress=Silent(),
    )
    assert summary.questions == 4
    assert kept_verifier(run, longer) == run.verifier
    other = override_config(longer, ["verifier.path=pocket"])
    assert kept_verifier(run, other) is None, "whoever names another verifier gets it"


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_another_verifier_than_the_run_began_with_is_refused(damage: str, tmp_path: Path) -> None:
    config = learned(train={"steps": 1}, eval={"questions": 0})
    run = new_run(tmp_path, config)
    train(config, run, Silent())
    if damage == "gone":
        shutil.rmtree(run.verifier)
    else:
        head = run.verifier / VALUE_FILE
        head.write_bytes(head.read_bytes()[:-1] + b"\x01")
    longer = override_config(config, ["train.steps=2"])
    with pytest.raises(StoreError, match="not the verifier that the run began with"):
        train(longer, run, Silent(), resume=True)
    assert len(stored(run)) == 3, "what was stored is kept"
    with pytest.raises(StoreError, match="not the verifier that the run began with"):
        kept_verifier(run, config)


@pytest.mark.parametrize("name", ["adapter_config.json", ADAPTER_FILE, VALUE_FILE])
def test_a_verifier_that_is_not_whole_is_bad_data_and_nothing_is_kept(
    name: str, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    shutil.copytree(BUILT_IN["pocket"], source)
    (source / name).unlink()
    with pytest.raises(DataError, match=f"no {name}; fit the verifier again"):
        keep(source, target)
    assert not target.exists()


# --- Where it stands ------------------------------------------------------------------------------


def test_a_model_that_no_agent_stands_on_is_loaded_apart() -> None:
    config = learned(bases={"main": {"model": "pocket-b"}})
    assert place(config, BUILT_IN["pocket"]).base == APART
    assembly = assemble(config, Silent())
    assert set(assembly.policies.bases) == {"main", APART}
    assert set(assembly.engines) == {"main"}, "nobody speaks with the verifier's base"
    held = assembly.hold(
        assembly.task.problems("train", 0, 2, 0), [0, 1], assembly.rules(0, 1.0, untrained=True)
    )
    scores = [m.score for d in held for row in d.messages for m in row]
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert len(set(scores)) > 1


def test_among_several_bases_the_verifiers_own_model_is_shared() -> None:
    config = learned(
        bases={"main": {"model": "pocket-b"}, "second": {"model": "pocket"}},
        policies={"Bo": {"base": "second"}},
    )
    assert place(config, BUILT_IN["pocket"]).base == "second"


def test_a_base_with_other_weights_is_refused() -> None:
    config = learned(bases={"main": {"model": "pocket-b"}}, verifier={"base": "main"})
    with pytest.raises(ModelError, match=r"with other weights than pocket-b has"):
        assemble(config, Silent())


def test_adapters_in_other_layers_are_refused_with_the_key_to_change() -> None:
    config = learned(policies={"Ada": {"target_modules": ["q_proj", "v_proj"]}})
    with pytest.raises(ConfigError, match=r"policies\.Ada\.target_modules.*verifier\.base"):
        place(config, BUILT_IN["pocket"])


def test_layers_are_named_the_way_the_key_takes_them(tmp_path: Path) -> None:
    folder = tmp_path / "some-layers"
    shutil.copytree(BUILT_IN["pocket"], folder)
    card = json.loads((folder / "card.json").read_text())
    card["policy"]["target_modules"] = ["q_proj", "v_proj"]
    (folder / "card.json").write_text(json.dumps(card))
    with pytest.raises(ConfigError, match=r"adapts \[q_proj, v_proj\], and all"):
        place(learned(), folder)


def test_a_base_that_only_the_verifier_stands_on_is_not_called_the_agents_own(
    tmp_path: Path,
) -> None:
    bases = {"main": {"model": "pocket"}, "judge": {"model": "pocket"}}
    config = learned(bases=bases, verifier={"base": "judge"})
    run, said = new_run(tmp_path, config), []
    with StoreWriter(run) as store:
        keeper = VerifierKeeper(config, run, store, lambda *event: said.append(event), Silent())
        made = assemble(config, Silent())
        keeper.begin(made.verifier.inside, made.engines, 0)
    (line,) = said
    assert "which no agent stands on" in line[2]


def test_a_folder_that_is_not_there_says_how_to_make_one() -> None:
    with pytest.raises(ConfigError, match="maporl verifier fit"):
        verifier_folder(learned(verifier={"path": "no/such/folder"}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["verifier.kind=learned"], "verifier.path"),
        (["verifier.refit_every=5"], "verifier.refit_every"),
        (["verifier.kind=mixed", "verifier.path=pocket", "verifier.base=none"], "verifier.base"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        override_config(RunConfig(), changes)


def test_a_fingerprint_covers_card_and_weights(tmp_path: Path) -> None:
    whole = fingerprint(BUILT_IN["pocket"])
    for name in ("card.json", "adapter_config.json", ADAPTER_FILE, VALUE_FILE):
        copy = tmp_path / name
        shutil.copytree(BUILT_IN["pocket"], copy)
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
        assert fingerprint(copy) != whole


# --- Watching -------------------------------------------------------------------------------------


def test_a_resumed_run_warns_where_an_unbroken_one_would(tmp_path: Path) -> None:
    config = learned(verifier={"gap_warn": 0.1})
    run = new_run(tmp_path, config)
    gaps = [0.0] * 5 + [0.03 * step for step in range(12)]

    def told(first: int, last: int, keeper: VerifierKeeper, said: list[Any]) -> list[Any]:
        for step in range(first, last + 1):
            keeper.after_step(step, {GAP: gaps[step - 1]})
            store.write_metrics(step, {GAP: gaps[step - 1]})
        return [(kind, step) for _, kind, _, step in said]

    with StoreWriter(run) as store:

        def keeper(said: list[Any]) -> VerifierKeeper:
            return VerifierKeeper(config, run, store, lambda *event: said.append(event), Silent())

        straight: list[Any] = []
        unbroken = told(1, len(gaps), keeper(straight), straight)
        assert [kind for kind, _ in unbroken] == ["verifier", "verifier"]
        store.truncate_after(0)
        early: list[Any] = []
        before = told(1, 9, keeper(early), early)
        late: list[Any] = []
        second = keeper(late)
        second.begin(None, (), 9)  # type: ignore[arg-type]
        assert before + told(10, len(gaps), second, late) == unbroken


# --- Refits ---------------------------------------------------------------------------------------


def test_a_refit_changes_the_verifier_helps_it_and_survives_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maporl_core.judging.verifier.keeper._LEAST", {"train": 16, "held out": 4})
    straight, probe = new_run(tmp_path / "a", refitting(5)), Probe()
    train(refitting(5), straight, probe)
    said = [text for _, text in probe.logs if ": fitted anew" in text]
    assert len(said) == 2, probe.logs
    for words in said:
        before, after = words.rsplit(" ", 3)[1], words.rsplit(" ", 1)[1]
        assert float(after) < float(before)
    ours = state_bytes(straight.final / "policies" / POLICY)
    assert ours[ADAPTER_FILE] != state_bytes(straight.verifier)[ADAPTER_FILE]
    broken = new_run(tmp_path / "b", refitting(5))
    train(refitting(3), broken, Silent())
    train(refitting(5), broken, Silent(), resume=True)
    assert state_bytes(broken.final) == state_bytes(straight.final)


def test_too_few_messages_leave_the_verifier_as_it_was(tmp_path: Path) -> None:
    config = override_config(refitting(3), ["train.problems_per_step=1"])
    run, probe = new_run(tmp_path, config), Probe()
    train(config, run, probe)
    assert any("too few" in text for _, text in probe.logs), probe.logs
    ours = load_file(run.final / "policies" / POLICY / ADAPTER_FILE)
    began = load_file(run.verifier / ADAPTER_FILE)
    assert all(torch.equal(ours[name], began[name]) for name in began)
