"""Several LoRA adapters on one frozen base in one forward: rows choose theirs.

In: a Hugging Face causal LM and the ranks of P policies.  Out: the same model with every target
linear layer wrapped, and per-policy views of the weights for optimisers and files.
Neighbour: ``policy`` owns the model; ``base_update`` and the engines route rows.

All adapters of a layer lie side by side in one pair of matrices, A of shape [R, in] and B of
shape [R, out] with R = Σ ranks.  A row x of policy p gets

    y = base(x) + ((x Aᵀ) ⊙ gate_p) B,   gate_p = α_p / r_p on p's own block of R, 0 elsewhere

which is two small matrix products for any mix of rows, with nothing gathered and no adapter ever
switched.  The gate is part of the graph, so routing other rows between forward and backward
cannot lose a gradient, and a policy without rows gets exactly zero.  A gate of zeros (or none)
is the base: the reference policy costs no second copy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from maporl_core.errors import ModelError

BASE_ROW = -1
"""Policy index of a row that is to be read by the base with adapters off."""


@dataclass(frozen=True, slots=True)
class AdapterShape:
    """Rank r, scaling α / r and dropout of one policy's adapter."""

    rank: int
    alpha: float
    dropout: float = 0.0


class Router:
    """Which policy each row of the running batch belongs to; one per base model."""

    def __init__(self, shapes: Sequence[AdapterShape], device: torch.device) -> None:
        self.shapes = tuple(shapes)
        starts = [0]
        for shape in shapes:
            starts.append(starts[-1] + shape.rank)
        self.blocks = tuple(itertools.pairwise(starts))
        self.total_rank = starts[-1]
        # Row P is the base: all zeros, so index −1 finds it.
        table = torch.zeros(len(shapes) + 1, self.total_rank, device=device)
        for index, ((start, end), shape) in enumerate(zip(self.blocks, shapes, strict=True)):
            table[index, start:end] = shape.alpha / shape.rank
        self._table = table
        self._keeps = torch.tensor([*(1.0 - s.dropout for s in shapes), 1.0], device=device)
        self._drops = any(shape.dropout > 0.0 for shape in shapes)
        self.gate: Tensor | None = None  # [B, R]
        self.keep: Tensor | None = None  # [B]: chance that an input survives dropout
        self.tokens = 0  # B · L of the running forward

    @contextmanager
    def route(self, rows: Tensor | None, training: bool = False) -> Iterator[None]:
        """Send row b of every forward inside to policy ``rows[b]`` (shape [B]; −1: base).

        ``rows`` None sends everything to the base.  With gradient checkpointing the backward
        must run inside as well.  ``training`` turns on each policy's own dropout.
        """
        before = self.gate, self.keep
        if rows is None or not bool((rows >= 0).any()):
            self.gate, self.keep = None, None
        else:
            self.gate = self._table[rows]
            self.keep = self._keeps[rows] if training and self._drops else None
        try:
            yield
        finally:
            self.gate, self.keep = before


class StackedLoRALinear(nn.Module):
    """A frozen linear layer plus the stacked adapters of all policies."""

    def __init__(self, base: nn.Module, router: Router) -> None:
        super().__init__()
        self.base_layer = base
        self.router = router
        in_features, out_features = _features(base)
        device = _device(base)
        rank = router.total_rank
        self.lora_a = nn.Parameter(torch.zeros(rank, in_features, device=device))
        self.lora_b = nn.Parameter(torch.zeros(rank, out_features, device=device))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base_layer(x)
        gate, keep = self.router.gate, self.router.keep
        if gate is None:
            return y
        if not isinstance(y, Tensor):
            raise ModelError(
                f"a {type(self.base_layer).__name__} gives more than one tensor and cannot be "
                "adapted; set target_modules to other layers"
            )
        if x.shape[0] != gate.shape[0]:
            tokens = self._tokens_per_row(x, len(gate))
            gate = gate.repeat_interleave(tokens, 0)
            keep = None if keep is None else keep.repeat_interleave(tokens)
        if keep is not None:
            keep = _per_row(keep, x).expand(x.shape)
            x = x * (torch.bernoulli(keep) / keep)
        hidden = torch.matmul(x, self.lora_a.to(x.dtype).t())
        hidden = hidden * _per_row(gate, hidden)
        flat = torch.addmm(
            y.flatten(0, -2), hidden.flatten(0, -2).to(y.dtype), self.lora_b.to(y.dtype)
        )
        return flat.view(y.shape)

    def _tokens_per_row(self, x: Tensor, rows: int) -> int:
        """L, where the model has flattened [B, L, in] to [B · L, in]."""
        if x.dim() == 2 and x.shape[0] == self.router.tokens:
            return x.shape[0] // rows
        raise ModelError(
            f"this model reshapes its batch before a linear layer ({x.shape[0]} rows for "
            f"{rows}); set target_modules to layers that see the whole batch"
        )

    @property
    def weight(self) -> Tensor:
        """The base layer's: some models look at it, as with PEFT's layers."""
        return self.base_layer.weight  # type: ignore[return-value]

    @property
    def bias(self) -> Tensor | None:
        return self.base_layer.bias  # type: ignore[return-value]


def _per_row(values: Tensor, x: Tensor) -> Tensor:
    """[B] or [B, R] in x's type, ready to multiply x of shape [B, …] or [B, …, R]."""
    values = values.to(x.dtype)
    if values.dim() == 1:
        return values.view(-1, *[1] * (x.dim() - 1))
    return values.view(len(values), *[1] * (x.dim() - 2), -1)


def _features(layer: nn.Module) -> tuple[int, int]:
    if hasattr(layer, "in_features"):
        return int(layer.in_features), int(layer.out_features)  # type: ignore[arg-type]
    weight = layer.weight  # transformers' Conv1D stores [in, out]
    return int(weight.shape[0]), int(weight.shape[1])  # type: ignore[index]


def _device(layer: nn.Module) -> torch.device:
    return next(layer.parameters()).device


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


def target_names(model: nn.Module, target_modules: str | Sequence[str]) -> list[str]:
    """Full names of the layers to wrap, as PEFT resolves them.

    "all-linear" is every linear layer but the output embedding, which is never adapted: the
    update reads hidden states and makes logits of chosen positions only.  Raises ModelError
    when a name matches nothing else.
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    linear = [
        name for name, module in model.named_modules() if _is_linear(module) and module is not head
    ]
    if target_modules == "all-linear":
        return linear
    names: list[str] = []
    for target in target_modules:
        found = [name for name in linear if name == target or name.endswith("." + target)]
        if not found:
            leaves = sorted({name.rsplit(".", 1)[-1] for name in linear})
            raise ModelError(
                f"target_modules: no linear layer is named {target!r}; choose from "
                f"{', '.join(leaves)}"
            )
        names += [name for name in found if name not in names]
    return names


class AdapterStack:
    """All adapters on one base: wraps the model in place and hands out per-policy views."""

    def __init__(
        self, model: nn.Module, shapes: Sequence[AdapterShape], targets: Sequence[str]
    ) -> None:
        device = next(model.parameters()).device
        self.router = Router(shapes, device)
        self.layers: dict[str, StackedLoRALinear] = {}
        model.get_input_embeddings().register_forward_hook(self._count_tokens)  # type: ignore[operator]
        for name in targets:
            parent_name, _, leaf = name.rpartition(".")
            parent = model.get_submodule(parent_name) if parent_name else model
            wrapped = StackedLoRALinear(getattr(parent, leaf), self.router)
            setattr(parent, leaf, wrapped)
            self.layers[name] = wrapped
        for layer in self.layers.values():
            # Kept for the whole run, so that views of the gradient can be bound once.
            layer.lora_a.grad = torch.zeros_like(layer.lora_a)
            layer.lora_b.grad = torch.zeros_like(layer.lora_b)

    def _count_tokens(self, _module: nn.Module, inputs: tuple[Any, ...], _output: Any) -> None:
        self.router.tokens = inputs[0].numel()

    def views(self, index: int) -> dict[str, nn.Parameter]:
        """Policy ``index``'s own weights as parameters that share the stack's memory.

        Keys are "<layer>.lora_A" with shape [r, in] and "<layer>.lora_B" with shape [r, out]
        (PEFT's lora_B transposed).  Their ``grad`` shares memory with the stack's gradient, so
        one backward fills every policy's and an optimiser over these views steps only this one.
        """
        start, end = self.router.blocks[index]
        views: dict[str, nn.Parameter] = {}
        for name, layer in self.layers.items():
            for leaf, stacked in (("lora_A", layer.lora_a), ("lora_B", layer.lora_b)):
                view = nn.Parameter(stacked.data[start:end])
                assert stacked.grad is not None
                view.grad = stacked.grad[start:end]
                views[f"{name}.{leaf}"] = view
        return views

    def zero_grad(self) -> None:
        for layer in self.layers.values():
            for weight in (layer.lora_a, layer.lora_b):
                assert weight.grad is not None
                weight.grad.zero_()

    @torch.no_grad()
    def initialise(self, index: int, seed: int) -> None:
        """LoRA's start: A Kaiming-uniform, B zero, so the policy equals the base exactly."""
        generator = torch.Generator().manual_seed(seed)
        for name, view in self.views(index).items():
            if name.endswith("lora_A"):
                bound = math.sqrt(1.0 / view.shape[1])  # kaiming_uniform_ with a = √5
                fresh = torch.empty(view.shape).uniform_(-bound, bound, generator=generator)
                view.copy_(fresh)
            else:
                view.zero_()
