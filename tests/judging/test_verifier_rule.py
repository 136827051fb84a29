"""The rule verifier scores a message by its verdict, and says what to do without one."""

from __future__ import annotations

import pytest
from judged_samples import judged

from maporl_core.config.schema import VerifierConfig
from maporl_core.errors import DataError
from maporl_core.judging.verifier.chosen import make_verifier
from maporl_core.judging.verifier.noisy import NoisyVerifier
from maporl_core.judging.verifier.rule import RuleVerifier
from maporl_core.types import Message, Problem

GOLD = Problem("p1", "1 + 1?", "2", "sums", "train")
NO_GOLD = Problem("p2", "Why?", None, "essays", "train")


def message(correct, answer="2"):
    return Message(0, 0, "A", (1,), (2,), (-0.5,), "2", "stop", answer, correct)


def test_right_scores_one_wrong_and_unparsable_score_zero():
    messages = [message(True), message(False), message(False, None), message(True, None)]
    assert RuleVerifier().score(judged([GOLD] * 4, messages, [1, 2, 3, 4])) == [1.0, 0.0, 0.0, 0.0]


def test_no_messages_give_no_scores():
    assert RuleVerifier().score(judged([], [], [])) == []


@pytest.mark.parametrize("verifier", [RuleVerifier(), NoisyVerifier(0.9)])
@pytest.mark.parametrize("answer", ["2", None])
def test_task_without_gold_answers_is_refused_naming_problem_and_remedy(verifier, answer):
    with pytest.raises(DataError, match=r"'p2' of task 'essays' has none: give every problem"):
        verifier.score(judged([NO_GOLD], [message(None, answer)], [0]))


@pytest.mark.parametrize("verifier", [RuleVerifier(), NoisyVerifier(0.9)])
def test_message_that_was_never_graded_is_refused(verifier):
    with pytest.raises(DataError, match="grade it with the task"):
        verifier.score(judged([GOLD], [message(None)], [0]))


def test_config_chooses_the_verifier():
    assert isinstance(make_verifier(VerifierConfig()), RuleVerifier)
    noisy = make_verifier(VerifierConfig(kind="noisy", auroc=0.8))
    assert isinstance(noisy, NoisyVerifier)
    assert noisy.auroc == 0.8
