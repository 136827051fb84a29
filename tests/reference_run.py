"""The method once more, in plain NumPy float64: what the tests hold the trainer against.

In: ids, scores, correctness and weights as plain numbers and arrays.  Out: rewards, token rewards,
advantages, losses, gradients and weights after AdamW steps.  Neighbours: none; nothing of the
trainer is imported, and every message is read as a sequence of its own, one token at a time, so
nothing of its packing, masks or batches can leak in here.

Gradients come from complex steps, Im f(w + ih) / h: exact to rounding and without any autograd.
So every function on the way from weights to loss also takes complex numbers, and decides by
their real parts.  Weights are named as Hugging Face and PEFT name them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Weights = dict[str, Array]

STEP = 1e-30  # of the complex step; no difference is taken, so it may be this small


# ---- the model ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Llama:
    """A Llama's frozen weights (Hugging Face names) and the few numbers that shape it."""

    weights: Weights
    layers: int
    heads: int
    kv_heads: int
    rope_theta: float
    eps: float


def linear(model: Llama, name: str, x: Array, adapter: Mapping[str, Array], scale: float) -> Array:
    """W x + (α/r) B A x; an adapter without this module leaves it alone."""
    y = x @ model.weights[f"{name}.weight"].T
    if f"{name}.lora_A.weight" in adapter:
        y = (
            y
            + scale * (x @ adapter[f"{name}.lora_A.weight"].T) @ adapter[f"{name}.lora_B.weight"].T
        )
    return y


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def rotate(x: Array, theta: float) -> Array:
    """Rotary positions of x[heads, n, d]: dimension i turns together with i + d/2."""
    n, d = x.shape[1:]
    angles = np.arange(n)[:, None] * theta ** (-np.arange(0, d, 2) / d)[None, :]
    a, b = x[..., : d // 2], x[..., d // 2 :]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def hidden_states(
    model: Llama, ids: Sequence[int], adapter: Mapping[str, Array], scale: float
) -> Array:
    """Last hidden states [n, width] after the final norm, of one sequence."""
    w = model.weights
    x = w["model.embed_tokens.weight"][np.asarray(ids)]
    n = len(ids)
    future = np.triu(np.full((n, n), -np.inf), 1)
    for i in range(model.layers):
        p = f"model.layers.{i}"
        h = rms_norm(x, w[f"{p}.input_layernorm.weight"], model.eps)

        def heads(name: str, count: int, h: Array = h, p: str = p) -> Array:
            out = linear(model, f"{p}.self_attn.{name}", h, adapter, scale)
            return out.reshape(n, count, -1).transpose(1, 0, 2)

        q = rotate(heads("q_proj", model.heads), model.rope_theta)
        k = rotate(heads("k_proj", model.kv_heads), model.rope_theta)
        v = heads("v_proj", model.kv_heads)
        group = model.heads // model.kv_heads
        k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
        weights = softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]) + future)
        mixed = (weights @ v).transpose(1, 0, 2).reshape(n, -1)
        x = x + linear(model, f"{p}.self_attn.o_proj", mixed, adapter, scale)
        h = rms_norm(x, w[f"{p}.post_attention_layernorm.weight"], model.eps)
        gate = linear(model, f"{p}.mlp.gate_proj", h, adapter, scale)
        up = linear(model, f"{p}.mlp.up_proj", h, adapter, scale)
        x = x + linear(model, f"{p}.mlp.down_proj", gate / (1 + np.exp(-gate)) * up, adapter, scale)
    return rms_norm(x, w["model.norm.weight"], model.eps)


@dataclass(frozen=True)
class Reading:
    """What a policy says of one message's tokens: log π, entropy and value, each [L]."""

    logprobs: Array
    entropy: Array
    values: Array


def read(
    model: Llama,
    prompt: Sequence[int],
    ids: Sequence[int],
    temperature: float,
    adapter: Mapping[str, Array],
    scale: float,
) -> Reading:
    """Token k is predicted, and its state valued, from what stands before it."""
    h = hidden_states(model, [*prompt, *ids], adapter, scale)[len(prompt) - 1 : -1]
    logits = h @ model.weights["lm_head.weight"].T / temperature
    top = logits.real.max(-1, keepdims=True)
    logp = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
    values = np.zeros(len(ids))
    if "value.weight" in adapter:
        values = h @ adapter["value.weight"].reshape(-1) + adapter["value.bias"].reshape(())
    chosen = logp[np.arange(len(ids)), np.asarray(ids)]
    return Reading(chosen, -(np.exp(logp) * logp).sum(-1), values)


# ---- rewards of one discussion -----------------------------------------------------------------


def verification(
    scores: Sequence[Sequence[float]], gamma: float, horizon: str, share: str
) -> list[list[float]]:
    """R(t, a) of the verification part alone, [T][A]; scores are [T][A]."""
    turns, agents = len(scores), len(scores[0])
    team = [sum(row) / agents for row in scores]
    out = []
    for t in range(turns):
        row = []
        for a in range(agents):
            later = [team[u] if share == "team" else scores[u][a] for u in range(turns)]
            if horizon == "current":
                row.append(later[t])
            elif horizon == "last":
                row.append(later[-1])
            else:
                over = sum(gamma ** (u - t) for u in range(t, turns))
                ahead = sum(gamma ** (u - t) * later[u] for u in range(t + 1, turns))
                row.append((scores[t][a] + ahead) / over)
        out.append(row)
    return out


# own change, the others at t − 1 → (part, sign)
REVISION = {
    ("wrong", "right", "wrong"): ("critical", +1),
    ("right", "wrong", "right"): ("critical", -1),
    ("wrong", "right", "right"): ("persuaded", +1),
    ("right", "wrong", "wrong"): ("persuaded", -1),
}
# the others' change, own message at t → (part, sign)
INFLUENCE = {
    ("wrong", "right", "wrong"): ("constructive", +1),
    ("right", "wrong", "right"): ("constructive", -1),
    ("wrong", "right", "right"): ("persuasive", +1),
    ("right", "wrong", "wrong"): ("persuasive", -1),
}
SHAPING = ("critical", "persuaded", "constructive", "persuasive")


def verdict(right: bool) -> str:
    return "right" if right else "wrong"


def majority(correct: Sequence[bool], a: int) -> str:
    """Verdict of everyone but ``a`` in one turn."""
    others = [c for j, c in enumerate(correct) if j != a]
    right = sum(others)
    if 2 * right > len(others):
        return "right"
    return "wrong" if 2 * right < len(others) else "tied"


def shaping(
    correct: Sequence[Sequence[bool]], coefficients: Mapping[str, float], tie: str
) -> list[list[dict[str, float]]]:
    """The four incentives of every message, [T][A], looked up in the tables of the method."""
    turns, agents = len(correct), len(correct[0])
    paid = [[dict.fromkeys(SHAPING, 0.0) for _ in range(agents)] for _ in range(turns)]
    if agents == 1:
        return paid
    for t in range(turns):
        for a in range(agents):
            cell = paid[t][a]
            if t > 0:
                own = (verdict(correct[t - 1][a]), verdict(correct[t][a]))
                for others, weight in camps(correct[t - 1], a, tie):
                    if (*own, others) in REVISION:
                        part, sign = REVISION[(*own, others)]
                        cell[part] += sign * coefficients[part] * weight
            if t < turns - 1:
                mine = verdict(correct[t][a])
                change, weight = swing(correct[t], correct[t + 1], a, tie)
                if (*change, mine) in INFLUENCE:
                    part, sign = INFLUENCE[(*change, mine)]
                    cell[part] += sign * coefficients[part] * weight
    return paid


def camps(correct: Sequence[bool], a: int, tie: str) -> list[tuple[str, float]]:
    """Which verdicts the others gave and how much each counts."""
    if tie == "majority":
        return [(majority(correct, a), 1.0)]
    others = [c for j, c in enumerate(correct) if j != a]
    share = sum(others) / len(others)
    return [("right", share), ("wrong", 1 - share)]


def swing(
    before: Sequence[bool], after: Sequence[bool], a: int, tie: str
) -> tuple[tuple[str, str], float]:
    """From which verdict to which the others moved, and how far."""
    if tie == "majority":
        return (majority(before, a), majority(after, a)), 1.0
    others = [j for j in range(len(before)) if j != a]
    moved = sum(int(after[j]) - int(before[j]) for j in others) / len(others)
    return (("wrong", "right") if moved > 0 else ("right", "wrong")), abs(moved)


# ---- tokens of one message ---------------------------------------------------------------------


def token_rewards(logp_old: Array, logp_ref: Array, reward: float, kl_coef: float) -> Array:
    """−kl_coef (log π_old − log π_ref) at every token, and R at the last one."""
    out = -kl_coef * (logp_old - logp_ref)
    out[-1] += reward
    return out


def gae(rewards: Array, values: Array, lam: float) -> Array:
    """A_k = Σ_{l ≥ 0} λ^l δ_{k+l} with γ = 1 and nothing after the last token."""
    n = len(rewards)
    ahead = np.append(values[1:], 0.0)
    delta = rewards + ahead - values
    return np.array([sum(lam ** (j - k) * delta[j] for j in range(k, n)) for k in range(n)])


def whiten(pieces: Sequence[Array]) -> list[Array]:
    """Mean 0 and variance 1 over all tokens of all messages together; no spread gives zeros."""
    flat = np.concatenate(pieces)
    mean = flat.sum() / flat.size
    deviation = math.sqrt(((flat - mean) ** 2).sum() / flat.size)
    if flat.size == 1 or deviation < 1e-6:
        return [np.zeros_like(piece) for piece in pieces]
    return [(piece - mean) / deviation for piece in pieces]


# ---- the loss of one optimiser step ------------------------------------------------------------


@dataclass(frozen=True)
class Dials:
    """Numbers of the [method] section that the loss and the step need."""

    temperature: float
    kl_coef: float
    lam: float
    clip_low: float
    clip_high: float
    value_clip: float
    value_coef: float
    entropy_coef: float


@dataclass(frozen=True)
class Account:
    """One trained message: ids and everything that stays fixed during an update."""

    prompt: tuple[int, ...]
    ids: tuple[int, ...]
    logp_old: Array
    logp_ref: Array
    values_old: Array
    token_rewards: Array
    advantages: Array  # whitened
    returns: Array


def account(
    model: Llama,
    messages: Sequence[tuple[tuple[int, ...], tuple[int, ...], float]],
    adapter: Mapping[str, Array],
    scale: float,
    dials: Dials,
) -> list[Account]:
    """All messages (prompt, ids, R) of one policy, before its update."""
    fixed: list[tuple[Any, ...]] = []
    for prompt, ids, reward in messages:
        old = read(model, prompt, ids, dials.temperature, adapter, scale)
        ref = read(model, prompt, ids, dials.temperature, {}, scale)
        paid = token_rewards(old.logprobs, ref.logprobs, reward, dials.kl_coef)
        raw = gae(paid, old.values, dials.lam)
        fixed.append((prompt, ids, old.logprobs, ref.logprobs, old.values, paid, raw))
    white = whiten([entry[-1] for entry in fixed])
    return [
        Account(*entry[:-1], advantages, entry[-1] + entry[4])
        for entry, advantages in zip(fixed, white, strict=True)
    ]


def smaller(a: Array, b: Array) -> Array:
    return np.where(a.real <= b.real, a, b)


def larger(a: Array, b: Array) -> Array:
    return np.where(a.real >= b.real, a, b)


def clip(x: Array, low: float, high: float) -> Array:
    return np.where(x.real < low, low, np.where(x.real > high, high, x))


@dataclass(frozen=True)
class Tokens:
    """Per-token terms of one message, each [L]."""

    policy: Array
    value: Array
    entropy: Array
    ratio: Array


def token_terms(
    model: Llama, message: Account, adapter: Mapping[str, Array], scale: float, dials: Dials
) -> Tokens:
    new = read(model, message.prompt, message.ids, dials.temperature, adapter, scale)
    ratio = np.exp(new.logprobs - message.logp_old)
    held = clip(ratio, 1 - dials.clip_low, 1 + dials.clip_high)
    policy = -smaller(ratio * message.advantages, held * message.advantages)
    near = message.values_old + clip(
        new.values - message.values_old, -dials.value_clip, dials.value_clip
    )
    value = 0.5 * larger((new.values - message.returns) ** 2, (near - message.returns) ** 2)
    return Tokens(policy, value, new.entropy, ratio)


def loss(
    model: Llama,
    messages: Sequence[Account],
    adapter: Mapping[str, Array],
    scale: float,
    dials: Dials,
) -> complex:
    """Of one policy in one optimiser step: the sum over its tokens by their number."""
    total: complex = 0.0
    for message in messages:
        terms = token_terms(model, message, adapter, scale, dials)
        total += (
            terms.policy + dials.value_coef * terms.value - dials.entropy_coef * terms.entropy
        ).sum()
    return total / sum(len(message.ids) for message in messages)


def slope(f: Callable[[Weights], complex], at: Weights, name: str, index: tuple[int, ...]) -> float:
    """∂f/∂w of one weight."""
    moved = at[name].astype(complex)
    moved[index] += 1j * STEP
    return float(np.imag(f({**at, name: moved})) / STEP)


def gradient(f: Callable[[Weights], complex], at: Weights) -> Weights:
    """∂f/∂w of every weight; one evaluation each, so only for few weights."""
    return {
        name: np.array([slope(f, at, name, i) for i in np.ndindex(w.shape)]).reshape(w.shape)
        for name, w in at.items()
    }


# ---- the step ----------------------------------------------------------------------------------


def norm(gradients: Weights) -> float:
    return math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))


class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019), β = 0.9 and 0.999."""

    def __init__(self, weight_decay: float, max_norm: float, eps: float) -> None:
        self.decay, self.max_norm, self.eps = weight_decay, max_norm, eps
        self.steps = 0
        self.first: Weights = {}
        self.second: Weights = {}

    def step(self, weights: Weights, gradients: Weights, rates: Mapping[str, float]) -> Weights:
        """Weights after one step; ``rates`` names each weight's learning rate."""
        length = norm(gradients)
        factor = min(1.0, self.max_norm / length) if length > 0 else 1.0
        self.steps += 1
        out = {}
        for name, w in weights.items():
            g = gradients[name] * factor
            m = self.first[name] = 0.9 * self.first.get(name, 0.0) + 0.1 * g
            v = self.second[name] = 0.999 * self.second.get(name, 0.0) + 0.001 * g * g
            m_hat, v_hat = m / (1 - 0.9**self.steps), v / (1 - 0.999**self.steps)
            shrunk = w * (1 - rates[name] * self.decay)
            out[name] = shrunk - rates[name] * m_hat / (np.sqrt(v_hat) + self.eps)
        return out


def lr_factor(step: int, steps: int, warmup: int, schedule: str) -> float:
    """Of rollout round ``step`` (0-based) of ``steps``: a ramp, then the schedule."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    if schedule == "linear":
        return 1 - done
    return 0.5 * (1 + math.cos(math.pi * done)) if schedule == "cosine" else 1.0
