"""How the built-in models are taught: stages, their rates, when they end, and the optimiser."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from maporl_core.kit.progress import Silent
from maporl_core.runs.pocket import teach as module
from maporl_core.runs.pocket.muon import Muon, near_orthogonal
from maporl_core.runs.pocket.network import fresh_network
from maporl_core.runs.pocket.teach import plan, teach
from maporl_core.runs.pocket.tokenizer import make_tokenizer
from maporl_core.runs.pocket.variants import VARIANT

TOKENIZER = make_tokenizer(VARIANT["pocket"])


class Lines(Silent):
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.stages: list[str] = []

    def stage(self, name: str, total: int | None = None) -> None:
        self.stages.append(f"{name}/{total}")

    def log(self, level: str, text: str) -> None:
        self.lines.append((level, text))


@pytest.mark.parametrize("steps", [1, 2, 4, 5, 10, 77, 1800])
def test_the_stages_share_all_steps_and_none_is_empty(steps: int) -> None:
    stages = plan(steps)
    assert sum(stage.steps for stage in stages) == steps
    assert all(stage.steps for stage in stages)


def test_rates_never_rise_from_the_peak_to_the_floor_and_stages_join() -> None:
    stages = plan(1800)
    rates = [stage.rate(step) for stage in stages for step in range(stage.steps)]
    assert rates[0] == 1.0
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(rates))
    assert 0.0 < rates[-1] < 0.01
    for before, after in pairwise(stages):
        assert before.rate(before.steps) == pytest.approx(after.rate(0))


@pytest.mark.parametrize(("losses", "taken"), [([0.01] * 9, 3), ([9.0] * 4 + [0.01] * 5, 7)])
def test_the_second_stage_ends_once_the_recent_losses_are_low_on_average(
    monkeypatch: pytest.MonkeyPatch, losses: list[float], taken: int
) -> None:
    monkeypatch.setattr(module, "RECENT", 3)
    monkeypatch.setattr(module, "plan", lambda steps: (second,))
    second = next(stage for stage in plan(24) if stage.until)
    said = iter(losses)
    monkeypatch.setattr(module, "_take_step", lambda *_: next(said))
    network = fresh_network(VARIANT["pocket"], TOKENIZER, 0)
    taught = teach(network, TOKENIZER, VARIANT["pocket"], 0, 15, 0.0, Silent())
    assert taught.steps == taken


def test_a_second_stage_that_learns_too_little_is_told_and_the_third_still_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_take_step", lambda *_: 5.0)
    lines = Lines()
    network = fresh_network(VARIANT["pocket"], TOKENIZER, 0)
    taught = teach(network, TOKENIZER, VARIANT["pocket"], 0, 12, 0.0, lines)
    assert taught.steps == 12
    assert [stage.rsplit("/")[-1] for stage in lines.stages] == ["1", "5", "6"]
    ((level, text),) = lines.lines
    assert level == "warning"
    assert "trusting scores: loss 5.000 after 5 steps" in text


@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_a_muon_direction_keeps_singular_vectors_and_brings_values_near_one(
    shape: tuple[int, int],
) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    assert float(values.min()) > 0.05 * float(values.norm())  # none too small for five rounds
    inner = left.T @ near_orthogonal(matrix) @ right.T
    assert torch.allclose(inner, torch.diag(inner.diagonal()), atol=1e-4)
    assert float(inner.diagonal().min()) > 0.6
    assert float(inner.diagonal().max()) < 1.3


def test_a_first_muon_step_goes_against_the_gradient_by_a_fifth_of_the_rate() -> None:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(64, 64))
    weight.grad = torch.linalg.qr(torch.randn(64, 64))[0]
    gradient = weight.grad.clone()
    Muon([weight]).step(0.01)
    step = weight.detach()
    assert float(step.square().mean().sqrt()) == pytest.approx(0.2 * 0.01, rel=0.35)
    assert float(torch.cosine_similarity(step.flatten(), -gradient.flatten(), dim=0)) > 0.999


def test_momentum_lets_a_muon_step_remember_earlier_gradients() -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    muon = Muon([weight])
    weight.grad = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    muon.step(0.01)
    before = weight.detach().clone()
    weight.grad = torch.zeros(2, 2)
    muon.step(0.01)
    assert float(weight.detach()[0, 0]) < float(before[0, 0])


def test_muon_takes_the_matrices_of_layers_and_adam_each_other_weight() -> None:
    network = fresh_network(VARIANT["pocket"], TOKENIZER, 0)
    muon, adam = module._optimizers(network)
    names = {id(weight): name for name, weight in network.named_parameters()}
    first = {names[id(weight)] for weight in muon.matrices}
    second = {names[id(weight)] for group in adam.param_groups for weight in group["params"]}
    assert first | second == set(names.values())
    assert not first & second
    assert "model.layers.0.self_attn.q_proj.weight" in first
    assert {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"} <= second
