"""The in-process engine against the plainest one, over turns, policies and kinds of model."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import transformers
from small import EOS, small_llama, word_tokenizer

from maporl_core.config.schema import BaseModelConfig, EngineConfig, PolicyConfig
from maporl_core.errors import ModelError
from maporl_core.models.policy import Base, LoadedModel
from maporl_core.rollout.engine import make_engine
from maporl_core.rollout.engine.base import Completion, Request, Sampling
from maporl_core.rollout.engine.batch import OwnBatch
from maporl_core.rollout.engine.in_process import HFEngine
from maporl_core.rollout.engine.reference import PlainEngine

POLICIES = ("a", None, "b")
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": EOS,
    "pad_token_id": EOS,
}
MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen3": lambda: transformers.Qwen3Config(head_dim=8, **SIZES),
    "phi3": lambda: transformers.Phi3Config(**SIZES),
    # Conv1D layers, learned positions.
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=64,
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=4,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=EOS,
    ),
    # Flattens its batch before the MLP.
    "opt": lambda: transformers.OPTConfig(
        vocab_size=64,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        word_embed_proj_dim=32,
        init_std=0.3,
    ),
    # A sliding window that the longer texts of the test outgrow; Gemma 2 attends eagerly.
    "gemma2": lambda: transformers.Gemma2Config(
        head_dim=8, query_pre_attn_scalar=8, sliding_window=24, **SIZES
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        head_dim=8, query_pre_attn_scalar=8, sliding_window=24, **SIZES
    ),
    "mistral": lambda: transformers.MistralConfig(sliding_window=24, **SIZES),
    # Positions from the padding mask: transformers' own cache.
    "bloom": lambda: transformers.BloomConfig(
        vocab_size=64, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.3
    ),
}


def base(name: str = "llama", context: int = 128, seed: int = 0, ends: Sequence[int] = ()) -> Base:
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval()
    if ends:
        model.generation_config.eos_token_id = list(ends)
    loaded = LoadedModel(model, word_tokenizer(), context)
    configs = {"a": PolicyConfig(rank=3), "b": PolicyConfig(rank=4)}
    made = Base("main", BaseModelConfig(), loaded, configs, seed=0)
    for policy in made.policies.values():
        stir(policy)
    return made


def stir(policy: Any, seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.adapter.values():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.1)
    policy.changed()


def prompts(count: int, low: int = 1, high: int = 12, seed: int = 0) -> list[tuple[int, ...]]:
    rng = random.Random(seed)
    return [
        tuple(rng.randrange(2, 64) for _ in range(rng.randint(low, high))) for _ in range(count)
    ]


def requests(texts: Sequence[tuple[int, ...]], turn: int = 0) -> list[Request]:
    return [
        Request(text, POLICIES[i % 3], seed=100 * turn + i, conversation=i)
        for i, text in enumerate(texts)
    ]


def continued(
    texts: Sequence[tuple[int, ...]], said: Sequence[Completion], turn: int
) -> list[tuple[int, ...]]:
    new = prompts(len(texts), 0, 5, seed=turn)
    return [text + c.ids + more for text, c, more in zip(texts, said, new, strict=True)]


def assert_same(ours: Sequence[Completion], theirs: Sequence[Completion], bound: float) -> None:
    assert [c.ids for c in ours] == [c.ids for c in theirs]
    assert [c.finish for c in ours] == [c.finish for c in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.logprobs == pytest.approx(other.logprobs, abs=bound)


def fed_tokens(engine: HFEngine) -> list[int]:
    """Filled, from now on, with the number of ids of every forward."""
    counts: list[int] = []
    decode = engine.decoder._decoder.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        counts.append(kwargs["input_ids"].numel())
        return decode(*args, **kwargs)

    engine.decoder._decoder.forward = counted
    return counts


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("name", MODELS)
def test_cached_mixed_batch_over_turns_equals_one_row_at_a_time(
    name: str, temperature: float
) -> None:
    made = base(name)
    engine, plain = HFEngine(made, 64), PlainEngine(made)
    sampling = Sampling(temperature, 6)
    texts = prompts(9)
    texts[3] = texts[0]  # read once for both: same policy, same prompt
    for turn in range(3):
        asked = requests(texts, turn)
        said = engine.generate(asked, sampling)
        assert_same(said, plain.generate(asked, sampling), 3e-5)
        texts = continued(texts, said, turn)


@pytest.mark.parametrize(
    ("name", "kept"), [("llama", 9), ("gpt2", 9), ("gemma3", 9), ("mistral", 9), ("bloom", 0)]
)
def test_keys_and_values_are_kept_wherever_all_of_them_are_attended(name: str, kept: int) -> None:
    engine = HFEngine(base(name), 64)
    engine.generate(requests(prompts(9)), Sampling(1.0, 6))
    assert len(engine._kept) == kept


def test_a_row_past_the_window_does_not_cost_the_others_their_cache() -> None:
    engine = HFEngine(base("gemma3"), 64)
    texts = [*prompts(5, 4, 8), *prompts(2, 30, 40, seed=1)]
    engine.generate(requests(texts), Sampling(1.0, 6))
    assert sorted(engine._kept) == [0, 1, 2, 3, 4]


def test_only_what_is_new_in_a_turn_is_read() -> None:
    engine = HFEngine(base(), 64)
    texts = prompts(2, 10, 10)
    said = engine.generate([Request(texts[0], "a", 1, "x")], Sampling(1.0, 3))[0]
    counts = fed_tokens(engine)
    engine.generate([Request((*texts[0], *said.ids, 5, 6), "a", 2, "x")], Sampling(1.0, 1))
    assert counts == [1 + 2]  # the last token said was never read, and the two new ones
    counts.clear()
    engine.generate([Request((*texts[0][:4], 9, 9), "a", 2, "x")], Sampling(1.0, 1))
    assert counts == [2]  # the common beginning is kept even where texts part
    counts.clear()
    engine.forget()
    engine.generate([Request((*texts[0][:4], 9, 9), "a", 2, "x")], Sampling(1.0, 1))
    assert counts == [6]


def test_equal_prompts_of_one_policy_are_read_once() -> None:
    made = base()
    engine = HFEngine(made, 64)
    counts = fed_tokens(engine)
    text = prompts(1, 10, 10)[0]
    asked = [Request(text, policy, i, i) for i, policy in enumerate(["a", "a", "b", "a"])]
    said = engine.generate(asked, Sampling(1.0, 1))
    assert counts == [20]
    assert_same(said, PlainEngine(made).generate(asked, Sampling(1.0, 1)), 1e-5)


def test_updated_adapter_answers_and_no_stale_cache_is_read() -> None:
    made = base()
    engine = HFEngine(made, 64)
    asked = requests(prompts(6, 8, 12))
    before = engine.generate(asked, Sampling(0.0, 6))
    stir(made.policies["a"], seed=2)
    after = engine.generate(asked, Sampling(0.0, 6))
    assert_same(after, PlainEngine(made).generate(asked, Sampling(0.0, 6)), 1e-5)
    changed = [
        old.logprobs != pytest.approx(new.logprobs, abs=1e-4)
        for old, new in zip(before, after, strict=True)
    ]
    assert changed == [request.policy == "a" for request in asked]


def test_a_cache_written_with_adapters_off_is_not_read_with_adapters_on() -> None:
    made = base()
    engine, plain = HFEngine(made, 64), PlainEngine(made)
    text = prompts(1, 10, 10)[0]
    said = engine.generate([Request(text, None, 1, "x")], Sampling(1.0, 4))[0]
    for policy in ("a", "b", None, "a"):
        asked = [Request((*text, *said.ids, 7), policy, 2, "x")]
        assert_same(
            engine.generate(asked, Sampling(0.0, 4)), plain.generate(asked, Sampling(0.0, 4)), 1e-5
        )


@pytest.mark.parametrize("name", ["llama", "bloom"])
def test_tokens_of_a_request_do_not_depend_on_the_rest_of_the_batch(name: str) -> None:
    engine = HFEngine(base(name), 64)
    asked = requests(prompts(12))
    together = engine.generate(asked, Sampling(1.0, 8))
    engine.forget()
    alone = [engine.generate([request], Sampling(1.0, 8))[0] for request in asked]
    assert_same(together, alone, 1e-5)
    engine.forget()
    assert_same(together, engine.generate(asked[::-1], Sampling(1.0, 8))[::-1], 1e-5)


def test_the_seed_alone_tells_two_samples_of_a_prompt_apart() -> None:
    engine = HFEngine(base(), 64)
    text = prompts(1, 6, 6)[0]
    said = engine.generate([Request(text, "a", seed, None) for seed in (1, 2, 1)], Sampling(1.0, 8))
    assert said[0].ids == said[2].ids
    assert said[0].ids != said[1].ids


@pytest.mark.parametrize(("max_batch", "cache_bytes"), [(5, None), (64, 40_000), (64, 0)])
def test_small_batches_and_little_memory_change_nothing_but_speed(
    max_batch: int, cache_bytes: int | None
) -> None:
    made = base()
    whole, small = HFEngine(made, 64), HFEngine(made, max_batch, cache_bytes)
    texts = prompts(13, 4, 20)
    for turn in range(2):
        asked = requests(texts, turn)
        said = whole.generate(asked, Sampling(0.9, 6))
        assert_same(small.generate(asked, Sampling(0.9, 6)), said, 1e-5)
        assert small.shape is not None
        assert small._kept_tokens == sum(len(kept.ids) for kept in small._kept.values())
        assert small._kept_tokens * small.shape.token_bytes <= small.cache_bytes
        texts = continued(texts, said, turn)


def test_conversations_that_nobody_continues_make_room_for_new_ones() -> None:
    made = base()
    engine = HFEngine(made, 64)
    assert engine.shape is not None
    engine.cache_bytes = 8 * 20 * engine.shape.token_bytes
    for turn in range(4):
        texts = prompts(8, 10, 10, seed=turn)
        asked = [Request(text, "a", i, (turn, i)) for i, text in enumerate(texts)]
        engine.generate(asked, Sampling(1.0, 4))
        assert {key for key in engine._kept if key[0] == turn} == {(turn, i) for i in range(8)}


def test_large_prompts_are_read_in_slices_of_bounded_size() -> None:
    made = base(context=256)
    engine = HFEngine(made, 64)
    counts = fed_tokens(engine)
    asked = [Request(text, "a", i) for i, text in enumerate(prompts(30, 150, 240))]
    said = engine.generate(asked, Sampling(0.0, 2))
    reading = [count for count in counts if count > 30]
    assert len(reading) > 2
    assert max(reading) <= 2048
    few = asked[::7]
    assert_same(said[::7], PlainEngine(made).generate(few, Sampling(0.0, 2)), 2e-5)


def test_end_token_stops_a_row_and_belongs_to_it() -> None:
    engine = HFEngine(base(), 64)
    said = engine.generate(requests(prompts(30)), Sampling(1.5, 40))
    stopped = [c for c in said if c.finish == "stop"]
    assert len({len(c.ids) for c in stopped}) > 3
    for completion in said:
        assert len(completion.ids) == len(completion.logprobs)
        assert (completion.ids[-1] == EOS) == (completion.finish == "stop")
        assert EOS not in completion.ids[:-1]
        if completion.finish == "length":
            assert len(completion.ids) == 40


@pytest.mark.parametrize("made", [HFEngine, lambda made, _rows: PlainEngine(made)])
def test_any_of_several_end_ids_ends_a_message_at_once(made: Callable[..., Any]) -> None:
    asked = [Request((3, 4, 5), "a", 0)]
    first, *more = made(base(), 64).generate(asked, Sampling(0.0, 8))[0].ids
    assert first != EOS
    assert more  # without the other ends it goes on
    other = next(i for i in range(2, 64) if i not in (EOS, first))
    (said,) = made(base(ends=(EOS, other, first)), 64).generate(asked, Sampling(0.0, 8))
    assert (said.ids, said.finish) == ((first,), "stop")


@pytest.mark.parametrize("name", ["llama", "bloom"])
def test_nothing_runs_past_the_context(name: str) -> None:
    made = base(name, context=16)
    engine = HFEngine(made, 64)
    asked = [Request(tuple(range(2, 2 + n)), "a", n, n) for n in (3, 10, 15)]
    for _ in range(2):
        said = engine.generate(asked, Sampling(0.0, 50))
        for request, completion in zip(asked, said, strict=True):
            total = len(request.prompt_ids) + len(completion.ids)
            assert total == 16 or completion.finish == "stop"
    assert said[2].finish == "length" or said[2].ids == (EOS,)


def test_impossible_requests_are_refused_in_one_line() -> None:
    engine = HFEngine(base(context=16), 64)
    for request, words in (
        (Request(tuple(range(2, 18)), "a", 0), "16 tokens leaves no room in a context of 16"),
        (Request((), "a", 0), "empty prompt"),
        (Request((2, 3), "aa", 0), "no policy 'aa' on this base; did you mean 'a'"),
    ):
        with pytest.raises(ModelError, match=words) as caught:
            engine.generate([request], Sampling(1.0, 4))
        assert "\n" not in str(caught.value)
    assert engine.generate([], Sampling(1.0, 4)) == []


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_weights_that_are_not_numbers_are_named(temperature: float) -> None:
    made = base()
    engine = HFEngine(made, 64)
    with torch.no_grad():
        made.policies["a"].adapter["model.layers.1.mlp.down_proj.lora_B"].fill_(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        engine.generate(requests(prompts(3)), Sampling(temperature, 4))


def test_text_is_reported_as_it_appears() -> None:
    seen: dict[int, list[tuple[int, ...]]] = {}

    def hear(index: int, ids: Sequence[int]) -> None:
        seen.setdefault(index, []).append(tuple(ids))

    engine = HFEngine(base(), 4)
    said = engine.generate(requests(prompts(9)), Sampling(1.0, 6), hear)
    for index, completion in enumerate(said):
        assert seen[index] == [completion.ids[:n] for n in range(1, len(completion.ids) + 1)]


@pytest.mark.parametrize("padding", ["left", "right"])
def test_trainer_recomputes_the_log_probabilities_that_were_sampled_from(padding: str) -> None:
    made = base()
    engine = HFEngine(made, 64)
    temperature = 0.7
    texts = prompts(9)
    for turn in range(2):
        asked = requests(texts, turn)
        said = engine.generate(asked, Sampling(temperature, 6))
        texts = continued(texts, said, turn)
    rows = [request.prompt_ids + c.ids for request, c in zip(asked, said, strict=True)]
    width = max(len(row) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    starts = [width - len(row) if padding == "left" else 0 for row in rows]
    for row, (start, text) in enumerate(zip(starts, rows, strict=True)):
        ids[row, start : start + len(text)] = torch.tensor(text)
        mask[row, start : start + len(text)] = 1
    with torch.no_grad(), made.route(torch.tensor([made.row(r.policy) for r in asked])):
        hidden = made.hidden(ids, mask if padding == "left" else None)
        logprobs = (made.logits(hidden) / temperature).log_softmax(-1)
    for row, (start, completion) in enumerate(zip(starts, said, strict=True)):
        first = start + len(rows[row]) - len(completion.ids)
        for k, token in enumerate(completion.ids):
            recomputed = logprobs[row, first + k - 1, token].item()
            assert abs(recomputed - completion.logprobs[k]) < 1e-5


def test_ratio_of_trainer_to_sampler_is_one_on_average() -> None:
    made = base()
    engine = HFEngine(made, 256)
    asked = [Request(text, "b", i) for i, text in enumerate(prompts(200))]
    said = engine.generate(asked, Sampling(0.6, 8))
    ratios = []
    with torch.no_grad(), made.route(torch.tensor([made.row("b")])):
        for request, completion in zip(asked, said, strict=True):
            text = torch.tensor([request.prompt_ids + completion.ids])
            logprobs = (made.logits(made.hidden(text)[0]) / 0.6).log_softmax(-1)
            first = len(request.prompt_ids) - 1
            for k, token in enumerate(completion.ids):
                ratios.append((logprobs[first + k, token] - completion.logprobs[k]).exp().item())
    assert 0.98 < sum(ratios) / len(ratios) < 1.02
    assert max(ratios) < 1.001


def test_generating_leaves_base_and_adapters_as_they_were() -> None:
    made = base()
    frozen = made.frozen_hash()
    weights = [w.detach().clone() for p in made.policies.values() for w in p.parameters()]
    engine = HFEngine(made, 64)
    engine.generate(requests(prompts(9)), Sampling(1.0, 8))
    assert made.frozen_hash() == frozen
    now = [w for p in made.policies.values() for w in p.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(weights, now, strict=True))


def test_a_backward_works_after_generating_past_a_rotary_table() -> None:
    config = transformers.LlamaConfig(
        **{**SIZES, "max_position_embeddings": 16},
        rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0},
    )
    model = transformers.LlamaForCausalLM(config).eval()
    made = Base(
        "m", BaseModelConfig(), LoadedModel(model, word_tokenizer(), 64), {"a": PolicyConfig()}, 0
    )
    HFEngine(made, 4).generate([Request(tuple(range(2, 30)), "a", 0)], Sampling(1.0, 8))
    with made.route(torch.zeros(1, dtype=torch.long)):
        made.hidden(torch.tensor([list(range(2, 30))])).sum().backward()
    assert any(view.grad.any() for view in made.policies["a"].adapter.values())


def test_a_model_that_cannot_decode_step_by_step_is_refused() -> None:
    made = base("bloom")
    forward = made.decoder.forward

    def forgetful(**kwargs: Any) -> Any:
        return forward(input_ids=kwargs["input_ids"], use_cache=False)

    made.decoder.forward = forgetful
    with pytest.raises(ModelError, match="does not decode token by token"):
        HFEngine(made, 4)


def test_a_cache_shape_is_the_key_value_heads_own() -> None:
    shape = HFEngine(base(), 4).shape
    assert shape is not None
    assert (shape.layers, shape.heads, shape.key_dim, shape.value_dim) == (2, 2, 8, 8)
    assert shape.token_bytes == 2 * 2 * (8 + 8) * 4
    assert HFEngine(base("mistral"), 4).shape.window == 24


def test_buffers_of_a_batch_are_freed_with_it() -> None:
    import gc
    import weakref

    made = base()
    engine = HFEngine(made, 64)
    alive: list[Any] = []
    prefill = OwnBatch.prefill

    def watched(self: OwnBatch) -> torch.Tensor:
        alive.append(weakref.ref(self.cache))
        return prefill(self)

    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(OwnBatch, "prefill", watched)
            engine.generate(requests(prompts(6)), Sampling(1.0, 3))
        assert len(alive) == 1
        assert alive[0]() is None
    finally:
        gc.enable()


def test_auto_and_in_process_make_this_engine() -> None:
    made = base()
    for kind in ("auto", "in_process"):
        engine = make_engine(made, EngineConfig(kind=kind, max_batch=7))
        assert isinstance(engine, HFEngine)
        assert engine.max_batch == 7


def test_small_llama_of_other_tests_uses_the_own_cache() -> None:
    loaded = LoadedModel(small_llama(), word_tokenizer(), 512)
    made = Base("main", BaseModelConfig(), loaded, {"a": PolicyConfig()}, seed=0)
    assert HFEngine(made, 8).shape is not None
