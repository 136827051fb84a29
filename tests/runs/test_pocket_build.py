"""The recipe: same arguments, same weights; gates refuse; what is shipped is what is described."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from maporl_core.errors import ModelError, StoreError
from maporl_core.kit.progress import Silent
from maporl_core.models.assets import VARIANTS, asset_path
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.runs.pocket.build import REPORT_FILE, build
from maporl_core.runs.pocket.gates import Measures, failures, measure
from maporl_core.runs.pocket.network import fresh_network
from maporl_core.runs.pocket.teach import RECENT, plan
from maporl_core.runs.pocket.tokenizer import make_tokenizer
from maporl_core.runs.pocket.variants import VARIANT

GOOD = Measures(
    accuracy=(0.50, 0.49, 0.48),
    greedy_accuracy=(0.5, 0.5, 0.5),
    told_accuracy=(0.5, 0.7, 0.8),
    well_formed=0.99,
    arithmetic=0.99,
    greedy_arithmetic=1.0,
    copied=0.98,
    followed=0.55,
    told_followed=0.95,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build(folder, seed=1, steps=4, gated=False)
    return folder


def test_the_same_arguments_give_the_same_weights(built: Path, tmp_path: Path) -> None:
    report = build(tmp_path, seed=1, steps=4, gated=False)
    first, second = (load_file(folder / "model.safetensors") for folder in (built, tmp_path))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert report.steps == 4
    assert report.tokens > 0
    kept = json.loads((tmp_path / REPORT_FILE).read_text(encoding="utf-8"))
    assert (kept["seed"], kept["steps"], kept["loss"]) == (1, 4, report.loss)
    assert report.weights == sum(weight.numel() for weight in first.values())


def test_another_seed_gives_other_weights_and_teaching_changes_them(built: Path) -> None:
    weights = load_file(built / "model.safetensors")
    tokenizer = make_tokenizer(VARIANT["pocket"])
    for seed in (1, 2):
        fresh = fresh_network(VARIANT["pocket"], tokenizer, seed).state_dict()
        assert not torch.equal(weights["lm_head.weight"], fresh["lm_head.weight"])


def test_a_built_folder_is_read_by_the_auto_classes(built: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(built)
    model = AutoModelForCausalLM.from_pretrained(built)
    assert type(model).__name__ == "LlamaForCausalLM"
    assert len(tokenizer) == model.config.vocab_size
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert ChatCodec(tokenizer).end_ids == {tokenizer.eos_token_id}
    config = json.loads((built / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"


def test_a_model_that_fails_its_gates_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maporl_core.runs.pocket.build._GATE_QUESTIONS", 4)

    class Lines(Silent):
        def __init__(self) -> None:
            self.warnings: list[str] = []

        def log(self, level: str, text: str) -> None:
            if level == "warning":
                self.warnings.append(text)

    lines = Lines()
    with pytest.raises(ModelError, match=r"right copies 0\.000 is not in") as error:
        build(tmp_path / "bad", steps=1, progress=lines)
    assert "\n" not in str(error.value)
    assert any("turn-1 accuracy" in line for line in lines.warnings)
    assert not (tmp_path / "bad").exists()


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot write the model"):
        build(tmp_path / "file", steps=1, gated=False)


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"accuracy": (0.46, 0.46, 0.46)}, "turn-1 accuracy"),
        ({"accuracy": (0.55, 0.55, 0.55)}, "turn-1 accuracy"),
        ({"accuracy": (0.50, 0.50, 0.46)}, "over turns"),
        ({"accuracy": (0.50, 0.52, 0.54)}, "over turns"),
        ({"well_formed": 0.979}, "well-formed"),
        ({"arithmetic": 0.949}, "arithmetic, sampled"),
        ({"greedy_arithmetic": 0.969}, "arithmetic, greedy"),
        ({"copied": 0.949}, "copies"),
        ({"told_followed": 0.89}, "when told to"),
    ],
)
def test_each_gate_fails_alone(change: dict[str, Any], gate: str) -> None:
    assert failures(GOOD) == ()
    (line,) = failures(replace(GOOD, **change))
    assert gate in line


def test_an_unknown_variant_suggests_the_nearest() -> None:
    with pytest.raises(ModelError, match="did you mean 'pocket-b'"):
        asset_path("pocketb")


def test_the_package_loads_no_torch() -> None:
    code = (
        "import sys; from maporl_core.models.assets import VARIANTS, asset_path; "
        "asset_path(VARIANTS[0]); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_shipped_models_take_at_most_five_megabytes() -> None:
    files = [file for name in VARIANTS for file in asset_path(name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 5_000_000
    assert not [file for file in files if file.suffix in (".bin", ".pt", ".pkl")]


@pytest.mark.parametrize("name", VARIANTS)
def test_the_shipped_tokenizer_is_the_recipes_own(name: str) -> None:
    shipped = AutoTokenizer.from_pretrained(asset_path(name))
    made = make_tokenizer(VARIANT[name])
    assert shipped.get_vocab() == made.get_vocab()
    assert shipped.chat_template == made.chat_template


@pytest.mark.parametrize("name", VARIANTS)
def test_the_shipped_models_are_what_the_command_makes_by_default(name: str) -> None:
    """Their own reports say so; the weights are the recipe's in number and in shape."""
    report = json.loads((asset_path(name) / REPORT_FILE).read_text(encoding="utf-8"))
    assert (report["variant"], report["seed"]) == (name, 0)
    assert report["failed"] == []
    stages = plan(VARIANT[name].steps)
    most = sum(stage.steps for stage in stages)
    least = sum(RECENT if stage.until else stage.steps for stage in stages)
    assert least <= report["steps"] <= most  # the second stage may end by its loss
    fresh = fresh_network(VARIANT[name], make_tokenizer(VARIANT[name]), 0).state_dict()
    shipped = load_file(asset_path(name) / "model.safetensors")
    assert {key: value.shape for key, value in shipped.items()} == {
        key: value.shape for key, value in fresh.items()
    }
    assert sum(weight.numel() for weight in shipped.values()) == report["weights"]


@pytest.mark.parametrize("name", VARIANTS)
def test_the_shipped_models_pass_their_gates_by_their_report(name: str) -> None:
    report = json.loads((asset_path(name) / REPORT_FILE).read_text(encoding="utf-8"))
    measures = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in report["measures"].items()
    }
    assert failures(Measures(**measures)) == ()


@pytest.mark.parametrize("name", VARIANTS)
def test_the_shipped_models_can_do_what_the_gates_ask(name: str) -> None:
    """Few questions, so accuracies get room for chance; ``build`` itself is stricter."""
    model = AutoModelForCausalLM.from_pretrained(asset_path(name)).eval()
    recipe = VARIANT[name]
    assert model.config.hidden_size == recipe.hidden
    assert model.config.num_hidden_layers == recipe.layers
    codec = ChatCodec(AutoTokenizer.from_pretrained(asset_path(name)))
    found = measure(model, codec, questions=60, seed=11)
    assert found.well_formed >= 0.97
    assert found.arithmetic >= 0.92  # wrong workings come in clusters: others copy them
    assert found.greedy_arithmetic >= 0.97
    assert found.copied >= 0.92
    assert found.told_followed >= 0.87
    assert 0.46 <= found.accuracy[0] <= 0.5
    assert max(found.accuracy) - min(found.accuracy) <= 0.08
    assert found.told_accuracy[-1] >= found.accuracy[-1] + 0.15
