"""Small real parts for tests: a random Llama, word tokenizers, configs, made-up discussions."""

from __future__ import annotations

import random
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from maporl_core.config.schema import RunConfig
from maporl_core.learning.methods.base import RolloutPlan
from maporl_core.models.policy import LoadedModel, Policies
from maporl_core.types import Discussion, Message, Pay, Place, Problem

VOCABULARY = 64
EOS = 1


def word_tokenizer(vocabulary: int = VOCABULARY, chat_template: str | None = None) -> Any:
    words = {"<unk>": 0, "<eos>": EOS} | {f"w{i}": i for i in range(2, vocabulary)}
    raw = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="<eos>", unk_token="<unk>", pad_token="<eos>"
    )
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def small_llama(seed: int = 0, vocabulary: int = VOCABULARY, layers: int = 2) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=EOS,
        pad_token_id=EOS,
    )
    return LlamaForCausalLM(config).eval()


def config(agents: int = 2, **changes: Any) -> RunConfig:
    names = ("Ada", "Bo", "Cy", "Di", "Ed", "Fe", "Gil")[:agents]
    base: dict[str, Any] = {
        "agents": [{"name": name} for name in names],
        "update": {"epochs": 1, "lr": 1e-2, "micro_tokens": 100_000},
        "discussion": {"turns": 3, "max_new_tokens": 8},
    }
    for key, value in changes.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) else value
    return RunConfig.model_validate(base)


def policies(
    run: RunConfig, *, perturb: float = 0.0, values: bool = True, **model: Any
) -> Policies:
    """Policies of ``run`` on small Llamas; ``perturb`` moves every adapter off its start."""
    loaded = {
        name: LoadedModel(small_llama(i, **model), word_tokenizer(), 512)
        for i, name in enumerate(run.bases)
    }
    made = Policies(run, loaded, values=values)
    if perturb:
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name in made.names():
                for weight in made[name].parameters():
                    weight.add_(torch.randn(weight.shape, generator=generator) * perturb)
    return made


def discussions(
    run: RunConfig, count: int = 3, seed: int = 0, turns: int | None = None, base_turns: int = 1
) -> list[Discussion]:
    """Made-up conversations with chained prompts, mixed lengths and end tokens inside prompts."""
    rng = random.Random(seed)
    names = tuple(agent.name for agent in run.agents)
    policy_names = run.agent_policies()
    held = []
    for q in range(count):
        prompts = [_ids(rng, 3, 7) for _ in names]
        rows = []
        for t in range(turns or run.discussion.turns):
            row = []
            for a in range(len(names)):
                ids = _ids(rng, 1, 6)
                finish = "stop" if rng.random() < 0.7 else "length"
                if finish == "stop":
                    ids = (*ids[:-1], EOS)
                row.append(
                    Message(
                        turn=t,
                        agent=a,
                        policy=None if t < base_turns else policy_names[a],
                        prompt_ids=prompts[a],
                        ids=ids,
                        logprobs=tuple(-1.0 for _ in ids),
                        text=f"answer {q}",
                        finish=finish,
                        answer=str(rng.randrange(2)),
                        correct=rng.random() < 0.5,
                        score=rng.random(),
                    )
                )
                prompts[a] = (*prompts[a], *ids, EOS, *_ids(rng, 2, 5))
            rows.append(tuple(row))
        problem = Problem(f"p{q}", f"question {q}", "1", "made-up", "train")
        held.append(Discussion(problem, names, tuple(rows)))
    return held


def rewards(held: list[Discussion], seed: int = 0) -> dict[Place, Pay]:
    rng = random.Random(seed)
    return {
        Place(d, m.turn, m.agent, m.branch): Pay({"own": rng.uniform(-1, 1)})
        for d, discussion in enumerate(held)
        for turn in discussion.messages
        for m in turn
    }


def training(*agents: int, **more: Any) -> RolloutPlan:
    """A plan that trains these agents."""
    return RolloutPlan(problems=1, trained=frozenset(agents), **more)


def _ids(rng: random.Random, low: int, high: int) -> tuple[int, ...]:
    return tuple(rng.randrange(2, VOCABULARY) for _ in range(rng.randint(low, high)))
