"""Log-probabilities and entropies of sampled tokens."""

from __future__ import annotations

import pytest
import torch

from maporl_core.learning.token_logprobs import token_logprobs


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_equal_softmax_at_the_sampling_temperature(temperature):
    torch.manual_seed(0)
    hidden, head = torch.randn(9, 5), torch.randn(5, 11)
    targets = torch.randint(0, 11, (9,))
    found, entropy = token_logprobs(
        lambda h: h @ head, hidden, targets, temperature, with_entropy=True
    )
    p = torch.softmax((hidden @ head).double() / temperature, -1)
    assert torch.allclose(found.double(), p[range(9), targets].log(), atol=1e-5)
    assert torch.allclose(entropy.double(), -(p * p.log()).sum(-1), atol=1e-5)


def test_chunks_give_the_same_values_and_gradients():
    torch.manual_seed(0)
    head = torch.randn(5, 11)
    targets = torch.randint(0, 11, (9,))
    results = []
    for limit in (1 << 20, 22):
        hidden = torch.linspace(-1, 1, 45).view(9, 5).clone().requires_grad_()
        found, entropy = token_logprobs(
            lambda h: h @ head, hidden, targets, 0.7, with_entropy=True, max_logits=limit
        )
        (found.sum() + entropy.sum()).backward()
        results.append((found.detach(), entropy.detach(), hidden.grad))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_token_the_model_forbids_keeps_entropy_finite():
    logits = torch.tensor([[0.0, float("-inf"), 1.0]])
    _, entropy = token_logprobs(
        lambda h: logits.expand(len(h), 3),
        torch.zeros(1, 2),
        torch.tensor([0]),
        1.0,
        with_entropy=True,
    )
    assert torch.isfinite(entropy).all()


def test_no_tokens_give_empty_tensors():
    found, entropy = token_logprobs(
        lambda h: h, torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), 1.0
    )
    assert found.shape == (0,)
    assert entropy is None
