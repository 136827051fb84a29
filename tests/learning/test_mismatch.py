"""Sampler against trainer: weights of tokens and messages, what is left out, what is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from small import config, discussions, policies, rewards, training
from valueless import Valueless, on_every_token

from maporl_core.config.schema import RunConfig
from maporl_core.learning.estimators.base import Credit, CreditInputs
from maporl_core.learning.mismatch import correct, correction_of
from maporl_core.learning.packing import Row, pack
from maporl_core.learning.updater import Updater, UpdateResult
from maporl_core.types import Discussion, Place

TOLD = ("weight_mean", "weight_capped", "left_out")


def numbers(ratios: list[list[float]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Old and sampler log-probabilities of messages whose tokens have these ratios."""
    flat = [math.log(r) for message in ratios for r in message]
    sampler = torch.linspace(-3, -1, len(flat))
    of = [m for m, message in enumerate(ratios) for _ in message]
    return sampler.double() + torch.tensor(flat).double(), sampler.double(), torch.tensor(of)


def test_a_token_weighs_its_ratio_and_at_most_the_cap() -> None:
    found = correct("token", *numbers([[0.5, 1.0, 1.9], [2.5]]))
    assert found.weights_N.tolist() == pytest.approx([0.5, 1.0, 1.9, 2.0])
    assert found.capped_N.tolist() == [False, False, False, True]
    assert found.kept_N.all()
    assert not found.left_out_M.any()


def test_every_token_of_a_message_weighs_the_product_of_its_ratios() -> None:
    found = correct("sequence", *numbers([[0.5, 0.8, 1.5], [1.5, 1.6], [0.9]]))
    assert found.weights_N.tolist() == pytest.approx([0.6] * 3 + [2.0] * 2 + [0.9])
    assert found.capped_N.tolist() == [False] * 3 + [True] * 2 + [False]


@pytest.mark.parametrize("how", ["token", "sequence"])
def test_a_message_with_a_token_that_the_trainer_holds_for_impossible_is_left_out(how: Any) -> None:
    found = correct(how, *numbers([[1.0, 0.9e-4, 1.0], [1.1e-4, 1.0]]))
    assert found.left_out_M.tolist() == [True, False]
    assert found.kept_N.tolist() == [False] * 3 + [True] * 2
    assert found.weights_N.tolist()[:3] == [0.0] * 3


def test_ratios_beyond_any_number_weigh_the_cap() -> None:
    old, sampler, of = torch.tensor([0.0]), torch.tensor([-2000.0]), torch.tensor([0])
    assert correct("token", old, sampler, of).weights_N.tolist() == [2.0]


@pytest.mark.parametrize("how", ["token", "sequence"])
def test_no_tokens_are_no_trouble(how: Any) -> None:
    found = correct(how, torch.zeros(0), torch.zeros(0), torch.zeros(0, dtype=torch.long))
    assert found.weights_N.numel() == found.left_out_M.numel() == 0


def test_nothing_is_corrected_where_the_trainer_samples_itself_unless_asked() -> None:
    given = numbers([[1.0]])
    assert correction_of(config(), "main", *given) is None
    asked = config(update={"mismatch_correct": "token", "mismatch_cap": 0.25})
    found = correction_of(asked, "main", *given)
    assert found is not None
    assert found.weights_N.tolist() == [0.25]


def test_each_base_is_corrected_for_its_own_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    run = config(bases={"main": {}, "other": {}})
    of = {"main": "in_process", "other": "elsewhere"}
    monkeypatch.setattr(RunConfig, "engine_of", lambda _run, base: SimpleNamespace(kind=of[base]))
    assert correction_of(run, "main", *numbers([[1.0]])) is None
    assert correction_of(run, "other", *numbers([[1.0]])) is not None


# ---- in an update ------------------------------------------------------------------------------


class TheReward:
    """Every token is worth its message's reward: no message changes another's credit."""

    needs_values = False

    def __call__(self, inputs: CreditInputs, state: Mapping[str, float]) -> Credit:
        worth = on_every_token(inputs, inputs.rewards_M.tolist())
        return Credit(worth, None, state, normalised=True)


def run_with(how: str, **more: Any) -> RunConfig:
    return config(agents=2, update={"mismatch_correct": how, "max_grad_norm": 1e6, **more})


def honest(run: RunConfig, held: list[Discussion]) -> list[Discussion]:
    """The same messages with the log-probabilities that the trainer itself gives their tokens."""
    made = policies(run, perturb=0.05, values=False)
    found = []
    for discussion in held:
        turns = []
        for turn in discussion.messages:
            row = []
            for m in turn:
                if m.policy is None:
                    row.append(m)
                    continue
                base = made[m.policy].base
                ids = torch.tensor([[*m.prompt_ids, *m.ids]])
                index = torch.tensor([base.row(m.policy)])
                with torch.no_grad(), base.route(index):
                    logits = base.logits(base.hidden(ids))[0].double()
                first = len(m.prompt_ids) - 1
                logp = logits.log_softmax(-1)[first : first + len(m.ids)]
                logp = logp[range(len(m.ids)), list(m.ids)]
                row.append(replace(m, logprobs=tuple(logp.tolist())))
            turns.append(tuple(row))
        found.append(replace(discussion, messages=tuple(turns)))
    return found


def shifted(held: list[Discussion], at: Place, by: float) -> list[Discussion]:
    """One message's first token sampled as if it were e^by times as probable."""

    def moved(d: int, m: Any) -> Any:
        if (d, m.turn, m.agent) != at[:3]:
            return m
        return replace(m, logprobs=(m.logprobs[0] + by, *m.logprobs[1:]))

    return [
        replace(d, messages=tuple(tuple(moved(i, m) for m in turn) for turn in d.messages))
        for i, d in enumerate(held)
    ]


def trained(run: RunConfig, rows: list[Row]) -> tuple[UpdateResult, dict[str, list[torch.Tensor]]]:
    made = policies(run, perturb=0.05, values=False)
    updater = Updater(made, run, Valueless(run, TheReward()))
    seen: dict[str, list[torch.Tensor]] = {}
    for name, optimiser in updater.optimisers.items():
        params = made[name].parameters()
        optimiser.register_step_pre_hook(
            lambda *_, n=name, p=params: seen.__setitem__(n, [w.grad.clone() for w in p])
        )
    return updater.update(rows, 0), seen


def rows_of(held: list[Discussion]) -> list[Row]:
    return pack(held, rewards(held), training(0, 1))


def test_a_sampler_that_agrees_changes_no_gradient_by_being_corrected() -> None:
    held = honest(run_with("none"), discussions(run_with("none")))
    _, plain = trained(run_with("none"), rows_of(held))
    for how in ("token", "sequence"):
        result, corrected = trained(run_with(how), rows_of(held))
        assert result.metrics["mismatch/weight_mean"] == pytest.approx(1.0, abs=1e-5)
        assert result.metrics["mismatch/left_out"] == 0
        for name, wanted in plain.items():
            for a, b in zip(wanted, corrected[name], strict=True):
                assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_message_that_is_left_out_has_no_part_in_the_gradient_nor_in_its_size() -> None:
    run = run_with("token")
    held = honest(run, discussions(run))
    at = Place(1, 2, 0)  # the last turn: nothing is read after it
    result, cut = trained(run, rows_of(shifted(held, at, 12.0)))
    assert (
        result.metrics["mismatch/left_out"] == result.metrics["policy/Ada/mismatch_left_out"] == 1
    )
    _, without = trained(run, [_without(row, at) for row in rows_of(held)])
    _, whole = trained(run, rows_of(held))
    for name, wanted in without.items():
        for a, b in zip(wanted, cut[name], strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-6)
    assert any(
        not torch.allclose(a, b, rtol=1e-2, atol=1e-5)
        for a, b in zip(whole["Ada"], cut["Ada"], strict=True)
    )


def _without(row: Row, at: Place) -> Row:
    return Row(row.policy, row.ids, [span for span in row.spans if span.place != at])


def test_a_weight_scales_the_gradient_of_its_message() -> None:
    """One agent, one message, so the whole loss is that message's."""
    run = config(
        agents=1,
        update={"mismatch_correct": "sequence", "max_grad_norm": 1e6},
        discussion={"turns": 1},
    )
    held = honest(run, discussions(run, count=2, base_turns=0))
    rows = pack(held, rewards(held), training(0))
    _, whole = trained(run, rows)
    both = [shifted(held, Place(d, 0, 0), math.log(2.0)) for d in (0, 1)]
    both = shifted(both[0], Place(1, 0, 0), math.log(2.0))
    result, half = trained(run, pack(both, rewards(held), training(0)))
    assert result.metrics["mismatch/weight_mean"] == pytest.approx(0.5, abs=1e-4)
    for a, b in zip(whole["Ada"], half["Ada"], strict=True):
        assert torch.allclose(a / 2, b, rtol=1e-3, atol=1e-6)


def test_all_messages_left_out_step_nothing_and_are_told() -> None:
    run = run_with("token")
    held = discussions(run, count=1)
    far = [
        replace(d, messages=tuple(tuple(replace(m, logprobs=(25.0,) * len(m.ids)) for m in turn)
                                  for turn in d.messages))
        for d in held
    ]  # fmt: skip
    result, seen = trained(run, rows_of(far))
    assert not result.bad
    assert seen == {}
    assert result.metrics["mismatch/left_out"] == 4  # two turns, two agents
    assert result.metrics["mismatch/weight_mean"] == 0.0


def test_without_correction_nothing_of_it_is_told() -> None:
    run = run_with("none")
    result, _ = trained(run, rows_of(discussions(run)))
    assert not [name for name in result.metrics if name.endswith(TOLD)]
