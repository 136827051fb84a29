"""The noisy verifier errs exactly as much as its AUROC says, and the same way every time."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from judged_samples import judged

from maporl_core.judging.verifier.noisy import (
    CONCENTRATION,
    NoisyVerifier,
    beta_parameters,
    mirrored_auroc,
)
from maporl_core.types import Message, Problem

GOLD = Problem("p1", "1 + 1?", "2", "sums", "train")


def message(turn, agent, correct, answer="2"):
    return Message(turn, agent, "A", (1,), (2,), (-0.5,), "2", "stop", answer, correct)


def scores(verifier, correct, count):
    messages = [message(0, 0, correct)] * count
    return np.array(verifier.score(judged([GOLD] * count, messages, range(count))))


def measured_auroc(right, wrong):
    """Mann–Whitney: the share of (right, wrong) pairs in which right scores higher."""
    return float(np.searchsorted(np.sort(wrong), right).mean() / len(wrong))


@pytest.mark.parametrize("auroc", [0.5, 0.6, 0.8, 0.95, 0.99])
def test_measured_auroc_is_the_stated_one(auroc):
    verifier = NoisyVerifier(auroc)
    count = 4000
    right, wrong = scores(verifier, True, count), scores(verifier, False, count)[::-1]
    # Standard error of an AUROC from 4000 + 4000 draws is below .007; the seeds are fixed.
    assert measured_auroc(right, wrong) == pytest.approx(auroc, abs=0.015)
    assert ((right >= 0) & (right <= 1) & (wrong >= 0) & (wrong <= 1)).all()


def test_spread_at_the_default_auroc_is_that_of_a_learned_verifier():
    verifier = NoisyVerifier(0.95)
    right, wrong = scores(verifier, True, 4000), scores(verifier, False, 4000)
    assert right.mean() == pytest.approx(0.715, abs=0.005)
    assert wrong.mean() == pytest.approx(0.285, abs=0.005)
    assert right.std() == pytest.approx(0.171, abs=0.005)
    assert wrong.std() == pytest.approx(0.171, abs=0.005)


@pytest.mark.parametrize("a", [3, 4, 5])
def test_quadrature_agrees_with_the_closed_form_for_b_one(a):
    # X = U^(1/a), so P(X + X' < 1) = a·B(a, a + 1) = 1 / binomial(2a, a).
    assert mirrored_auroc(a, 1.0) == pytest.approx(1 - 1 / math.comb(2 * a, a), abs=1e-6)


@pytest.mark.parametrize("auroc", [0.5, 0.5001, 0.7, 0.95, 0.9999, 1 - 1e-9])
def test_parameters_solve_for_the_auroc_at_fixed_concentration(auroc):
    a, b = beta_parameters(auroc)
    assert a + b == pytest.approx(CONCENTRATION)
    assert a >= b > 0
    assert mirrored_auroc(a, b) == pytest.approx(auroc, abs=1e-7)


def test_at_chance_right_and_wrong_have_the_same_distribution():
    assert beta_parameters(0.5) == pytest.approx((CONCENTRATION / 2, CONCENTRATION / 2))


def test_unparsable_message_scores_exactly_zero():
    assert NoisyVerifier(0.6).score(judged([GOLD], [message(0, 0, False, None)], [1])) == [0.0]


def test_score_depends_on_seed_problem_turn_and_agent_and_on_nothing_else():
    verifier = NoisyVerifier(0.9)

    def one(problem, message, seed):
        return verifier.score(judged([problem], [message], [seed]))[0]

    base = one(GOLD, message(1, 2, True), 7)
    other = replace(GOLD, id="p2")
    reworded = replace(message(1, 2, True), text="so it is 2", ids=(9, 9), policy=None)
    assert one(replace(GOLD, question="?"), reworded, 7) == base
    assert NoisyVerifier(0.9).score(judged([GOLD], [message(1, 2, True)], [7])) == [base]
    different = {
        base,
        one(GOLD, message(1, 2, True), 8),
        one(other, message(1, 2, True), 7),
        one(GOLD, message(2, 2, True), 7),
        one(GOLD, message(1, 1, True), 7),
    }
    assert len(different) == 5


def test_batch_and_order_do_not_change_a_score():
    verifier = NoisyVerifier(0.9)
    messages = [message(t, a, a == 0) for t in range(2) for a in range(3)]
    seeds = range(6)
    together = verifier.score(judged([GOLD] * 6, messages, seeds))
    backwards = verifier.score(judged([GOLD] * 6, messages[::-1], list(seeds)[::-1]))
    alone = [
        verifier.score(judged([GOLD], [m], [s]))[0] for m, s in zip(messages, seeds, strict=True)
    ]
    assert together == backwards[::-1] == alone


def test_another_process_draws_the_same_score():
    script = (
        "from maporl_core.types import Judged, Message, Problem\n"
        "from maporl_core.judging.verifier.noisy import NoisyVerifier\n"
        "problem = Problem('p1', '1 + 1?', '2', 'sums', 'train')\n"
        "message = Message(0, 0, 'A', (1,), (2,), (-0.5,), '2', 'stop', '2', True)\n"
        "print(NoisyVerifier(0.9).score([Judged(problem, message, seed=5)])[0].hex())\n"
    )
    here = NoisyVerifier(0.9).score(judged([GOLD], [message(0, 0, True)], [5]))[0]
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    there = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert there.stdout.strip() == here.hex()


def test_odd_problem_ids_are_no_obstacle():
    for identity in ("\udcff", "", "a\x00b", "é" * 1000):
        (score,) = NoisyVerifier(0.8).score(
            judged([replace(GOLD, id=identity)], [message(0, 0, True)], [3])
        )
        assert 0 < score < 1
