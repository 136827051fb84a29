"""Drawing tokens: the distribution, its log-probabilities, and what a seed decides."""

from __future__ import annotations

import pytest
import torch

from maporl_core.rollout.engine.sampling import greedy, sample, uniforms


def logits(rows: int, vocabulary: int, seed: int = 0, scale: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocabulary, generator=generator) * scale


def by_definition(row: torch.Tensor, uniform: float, temperature: float) -> int:
    """The first token whose cumulative probability exceeds the uniform number, in fp64."""
    cumulative = (row.double() / temperature).softmax(-1).cumsum(-1)
    return int((cumulative <= uniform).sum().clamp_max(len(row) - 1))


@pytest.mark.parametrize("vocabulary", [1, 5, 127, 128, 129, 1000])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_token_is_the_inverse_of_the_cumulative_distribution(
    vocabulary: int, temperature: float
) -> None:
    rows = logits(200, vocabulary)
    uniform = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tokens, logprobs = sample(rows, uniform, temperature)
    expected = [by_definition(*pair, temperature) for pair in zip(rows, uniform, strict=True)]
    assert tokens.tolist() == expected
    right = (rows.double() / temperature).log_softmax(-1).gather(1, tokens[:, None])[:, 0]
    assert (logprobs - right).abs().max() < 1e-5


def test_frequencies_match_the_probabilities() -> None:
    row = logits(1, 300, scale=1.5)
    draws = uniforms([9], 40_000)[0]
    tokens, _ = sample(row.expand(40_000, -1), draws, 0.8)
    observed = torch.bincount(tokens, minlength=300).double()
    expected = (row[0].double() / 0.8).softmax(-1) * 40_000
    often = expected > 5
    chi_square = ((observed - expected).square() / expected)[often].sum().item()
    degrees = int(often.sum()) - 1
    assert degrees > 50
    assert abs(chi_square - degrees) < 4 * (2 * degrees) ** 0.5


def test_impossible_tokens_are_never_drawn_at_either_end_of_the_unit_interval() -> None:
    row = torch.full((1, 400), float("-inf"))
    row[0, [130, 131, 260]] = torch.tensor([0.0, -30.0, 0.0])
    almost_one = 1 - 2**-53
    ends = torch.tensor([0.0, almost_one, 0.25, 0.75], dtype=torch.float64)
    tokens, logprobs = sample(row.expand(4, -1), ends, 1.0)
    assert tokens.tolist() == [130, 260, 130, 260]
    assert logprobs.tolist() == pytest.approx([-0.6931471805599453] * 4)


def test_greedy_takes_the_likeliest_and_reports_the_unscaled_distribution() -> None:
    rows = logits(20, 77)
    tokens, logprobs = greedy(rows)
    assert torch.equal(tokens, rows.argmax(-1))
    right = rows.double().log_softmax(-1).amax(-1)
    assert (logprobs - right).abs().max() < 1e-5


def test_uniforms_of_a_seed_do_not_depend_on_company_or_length() -> None:
    alone = uniforms([123456789], 4)[0]
    together = uniforms([5, 123456789, -7], 9)
    assert torch.equal(together[1, :4], alone)
    assert not torch.equal(together[0], together[2])
    assert together.dtype == torch.float64
    assert bool(((together >= 0) & (together < 1)).all())


def test_seeds_of_63_bits_and_their_neighbours_differ() -> None:
    first, second = uniforms([2**63 - 1, 2**63 - 2], 3)
    assert not torch.equal(first, second)


def test_logits_that_are_not_numbers_show_in_the_log_probability() -> None:
    bad = torch.full((2, 130), float("nan"))
    tokens, logprobs = sample(bad, torch.tensor([0.1, 0.9], dtype=torch.float64), 1.0)
    assert bool(logprobs.isnan().all())
    assert bool((tokens < 130).all())
