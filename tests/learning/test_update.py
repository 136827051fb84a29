"""The multi-agent update: gradients, masks, and who is touched by whose step."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from small import EOS, config, discussions, policies, rewards, training
from transformers.models.llama.modeling_llama import LlamaMLP

from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.learning.kl import kl_terms
from maporl_core.learning.methods.base import MessageKey
from maporl_core.learning.packing import Row, Span, pack, tabulate
from maporl_core.learning.padding import to_padded
from maporl_core.learning.updater import Updater
from maporl_core.types import Discussion, Message, Pay, Place, Problem


def rows_of(run, held, paid=None, trained=None):
    paid = paid or rewards(held)
    agents = range(len(run.agents)) if trained is None else trained
    return pack(held, paid, training(*agents))


def weights(made, name):
    return [w.detach().clone() for w in made[name].parameters()]


def gradients_of_one_step(run, rows, micro_tokens):
    """Gradients as they stand before clipping, from one optimiser step of a fresh copy."""
    run = run.model_copy(
        update={"update": run.update.model_copy(update={"micro_tokens": micro_tokens})}
    )
    made = policies(run, perturb=0.05)
    updater = Updater(made, run)
    captured = {}
    for name, optimiser in updater.optimisers.items():
        params = made[name].parameters()

        def keep(name=name, params=params):
            captured[name] = [p.grad.clone() for p in params]

        optimiser.register_step_pre_hook(lambda *_, keep=keep: keep())
    result = updater.update(rows, 0)
    assert not result.bad
    return captured, result


def test_one_row_holds_all_turns_of_an_agent_and_only_sampled_tokens_are_trained():
    run = config(agents=2)
    held = discussions(run, count=1)
    rows = rows_of(run, held)
    assert [row.policy for row in rows] == ["Ada", "Bo"]
    for a, row in enumerate(rows):
        last = held[0].messages[2][a]
        assert row.ids == last.prompt_ids + last.ids
        assert [span.place for span in row.spans] == [(0, 1, a, 0), (0, 2, a, 0)]
        for span in row.spans:
            message = held[0].messages[span.place.turn][a]
            assert row.ids[span.start : span.end] == message.ids


def test_a_broken_chain_starts_a_new_row():
    run = config(agents=1)
    held = discussions(run, count=1)
    first, second, third = (row[0] for row in held[0].messages)
    moved = replace(third, prompt_ids=(9, 9, 9), dropped_context=5)
    broken = replace(held[0], messages=((first,), (second,), (moved,)))
    rows = rows_of(run, [broken], rewards([broken]))
    assert [len(row.spans) for row in rows] == [1, 1]
    assert rows[1].ids == (9, 9, 9, *third.ids)


def test_end_token_that_equals_the_pad_token_is_trained_and_carries_the_reward():
    key = MessageKey(Place(0, 0, 0), "p", "Ada")
    row = Row("Ada", (5, 6, EOS), [Span(1, 3, key, 0.75, (-1.0, -1.0))])
    table = tabulate([row], [0])
    assert table.targets_N.tolist() == [6, EOS]
    assert table.lengths_M.tolist() == [2]
    assert table.rewards_M.tolist() == [0.75]


def test_a_message_cut_at_the_limit_is_paid_once_on_its_last_token_whatever_the_prompt_holds():
    run = config(agents=1, discussion={"turns": 1}, train={"train_turns": "all"})
    cut = Message(
        turn=0,
        agent=0,
        policy="Ada",
        prompt_ids=(EOS, 5, EOS),
        ids=(6, 7, 8),
        logprobs=(-1.0,) * 3,
        text="w6 w7 w8",
        finish="length",
        answer="1",
        correct=True,
        score=1.0,
    )
    held = Discussion(Problem("p", "q", "1", "t", "train"), ("Ada",), ((cut,),))
    paid = {Place(0, 0, 0): reward_discussion(held, run.reward)[0][0]}
    assert paid[0, 0, 0, 0].total == pytest.approx(1.0 - 0.1)
    table = tabulate(pack([held], paid, training(0)), [0])
    terms = kl_terms(
        to_padded(table.sampler_logprobs_N, table.lengths_M),
        to_padded(table.sampler_logprobs_N, table.lengths_M),
        table.lengths_M,
        table.rewards_M,
        0.1,
    )
    assert terms.token_rewards_ML[0].tolist() == pytest.approx([0.0, 0.0, 0.9])


def test_conversations_without_a_trained_message_change_no_gradient_and_no_metric():
    run = config(agents=1)
    normal = discussions(run, count=1)
    untrained = discussions(run, count=2, seed=5, base_turns=3)
    alone, first = gradients_of_one_step(run, rows_of(run, normal), 100_000)
    held = [*normal, *untrained]
    paid = rewards(held)  # the first are those of the normal ones alone
    beside, second = gradients_of_one_step(run, rows_of(run, held, paid), 100_000)
    assert all(torch.equal(a, b) for a, b in zip(alone["Ada"], beside["Ada"], strict=True))
    assert dict(first.metrics) == dict(second.metrics)
    assert all(math.isfinite(value) for value in second.metrics.values())


@pytest.mark.parametrize("micro_tokens", [1, 60, 130])
def test_micro_batches_of_any_size_give_the_same_gradient(micro_tokens):
    run = config(agents=2)
    rows = rows_of(run, discussions(run, count=4))
    whole, _ = gradients_of_one_step(run, rows, 100_000)
    split, _ = gradients_of_one_step(run, rows, micro_tokens)
    for name in whole:
        scale = max(float(g.abs().max()) for g in whole[name])
        for a, b in zip(whole[name], split[name], strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-6 * scale)


def test_gradient_checkpointing_recomputes_and_changes_no_gradient(monkeypatch):
    plain = config(agents=2)
    saving = config(agents=2, bases={"main": {"gradient_checkpointing": True}})
    rows = rows_of(plain, discussions(plain, count=3))
    one, _ = gradients_of_one_step(plain, rows, 100_000)
    forwards = []
    original = LlamaMLP.forward
    monkeypatch.setattr(LlamaMLP, "forward", lambda m, x: (forwards.append(1), original(m, x))[1])
    two, _ = gradients_of_one_step(saving, rows, 100_000)
    # Per layer: two to check the head, two to measure (policy, base), one to train, one again.
    assert len(forwards) == 2 * (2 + 2 + 1 + 1)
    for name in one:
        for a, b in zip(one[name], two[name], strict=True):
            assert torch.allclose(a, b, rtol=1e-6, atol=1e-8)


def test_company_of_other_policies_does_not_change_a_gradient():
    run = config(agents=3)
    held = discussions(run, count=3)
    together, _ = gradients_of_one_step(run, rows_of(run, held), 100_000)
    alone, _ = gradients_of_one_step(run, rows_of(run, held, trained=[1]), 100_000)
    scale = max(float(g.abs().max()) for g in together["Bo"])
    for a, b in zip(together["Bo"], alone["Bo"], strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6 * scale)


def test_step_of_one_agent_leaves_the_others_weights_and_optimiser_untouched():
    run = config(agents=2)
    made = policies(run, perturb=0.05)
    updater = Updater(made, run)
    held = discussions(run)
    updater.update(rows_of(run, held), 0)
    before, state = weights(made, "Bo"), updater.optimisers["Bo"].state_dict()["state"]
    kept = {k: {n: v.clone() for n, v in s.items()} for k, s in state.items()}
    updater.update(rows_of(run, held, trained=[0]), 1)
    for old, new in zip(before, weights(made, "Bo"), strict=True):
        assert torch.equal(old, new)
    after = updater.optimisers["Bo"].state_dict()["state"]
    for key, entry in kept.items():
        for name, value in entry.items():
            assert torch.equal(value, after[key][name])


def test_training_moves_trained_policies_and_never_the_base():
    run = config(agents=2, train={"train_agents": ["Ada"]})
    made = policies(run)
    base_hash = made.bases["main"].frozen_hash()
    before = {name: weights(made, name) for name in made.names()}
    updater = Updater(made, run)
    updater.update(rows_of(run, discussions(run), trained=[0]), 0)
    assert any(
        not torch.equal(a, b) for a, b in zip(before["Ada"], weights(made, "Ada"), strict=True)
    )
    assert all(torch.equal(a, b) for a, b in zip(before["Bo"], weights(made, "Bo"), strict=True))
    assert made.bases["main"].frozen_hash() == base_hash
    assert set(updater.optimisers) == {"Ada"}


def test_before_any_update_kl_is_zero_and_the_ratio_one():
    run = config(agents=2, discussion={"temperature": 0.7})
    made = policies(run)
    result = Updater(made, run).update(rows_of(run, discussions(run)), 0)
    assert all(abs(kl) < 1e-5 for kl in result.kl.values())
    assert result.metrics["policy/Ada/ratio_mean"] == pytest.approx(1.0, abs=1e-5)
    assert result.metrics["policy/Ada/clip_fraction"] == 0.0


def test_shared_policy_is_trained_on_all_its_agents():
    run = config(
        agents=2,
        policies={"both": {}},
    )
    run = run.model_validate(
        {**run.model_dump(), "agents": [{"name": n, "policy": "both"} for n in ("Ada", "Bo")]}
    )
    made = policies(run)
    rows = rows_of(run, discussions(run))
    assert {row.policy for row in rows} == {"both"}
    result = Updater(made, run).update(rows, 0)
    agents = {place.agent for place in result.advantage}
    assert agents == {0, 1}
    assert list(made.names()) == ["both"]


def test_advantages_are_whitened_over_the_whole_batch_of_a_policy():
    run = config(agents=2)
    made = policies(run)
    rows = rows_of(run, discussions(run, count=6))
    result = Updater(made, run).update(rows, 0)
    lengths = {span.place: span.end - span.start for row in rows for span in row.spans}
    for agent in (0, 1):
        total = sum(result.advantage[k] * lengths[k] for k in lengths if k.agent == agent)
        assert total == pytest.approx(0.0, abs=1e-3)


def test_infinite_reward_is_named_and_nothing_is_applied():
    run = config(agents=2)
    made = policies(run, perturb=0.05)
    updater = Updater(made, run)
    held = discussions(run)
    updater.update(rows_of(run, held), 0)
    before = {name: weights(made, name) for name in made.names()}
    paid = rewards(held)
    paid[Place(1, 2, 0)] = Pay({"own": math.inf})
    result = updater.update(rows_of(run, held, paid), 1)
    assert (1, 2, 0, 0) in result.bad
    for name, old in before.items():
        assert all(torch.equal(a, b) for a, b in zip(old, weights(made, name), strict=True))


def test_two_bases_are_updated_side_by_side():
    run = config(
        agents=2,
        bases={"main": {}, "other": {}},
        policies={"Ada": {"base": "main"}, "Bo": {"base": "other"}},
    )
    run = run.model_validate(
        {**run.model_dump(), "agents": [{"name": n, "policy": n} for n in ("Ada", "Bo")]}
    )
    made = policies(run)
    before = {name: weights(made, name) for name in made.names()}
    result = Updater(made, run).update(rows_of(run, discussions(run)), 0)
    assert not result.bad
    for name, old in before.items():
        assert any(not torch.equal(a, b) for a, b in zip(old, weights(made, name), strict=True))


def test_a_saved_updater_continues_exactly():
    run = config(agents=2, method={"kl_target": 0.5})
    held = discussions(run)
    straight, resumed = policies(run, perturb=0.05), policies(run, perturb=0.05)
    one, two = Updater(straight, run), Updater(resumed, run)
    for updater in (one, two):
        updater.update(rows_of(run, held), 0)
    three = Updater(resumed, run)
    three.load_state(two.state())
    one.update(rows_of(run, held), 1)
    three.update(rows_of(run, held), 1)
    assert one.kl_coef == three.kl_coef
    for name in straight.names():
        for a, b in zip(weights(straight, name), weights(resumed, name), strict=True):
            assert torch.equal(a, b)
