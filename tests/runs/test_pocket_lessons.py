"""What the built-in models are taught: naive discussions, roles, and the ids and odds of both."""

from __future__ import annotations

import math
import random

import pytest
import torch

from maporl_core.models.chat_codec import ChatCodec
from maporl_core.runs.pocket.batches import Encoder
from maporl_core.runs.pocket.lessons import Lesson, Said, Shape, chance, draw_lesson, draw_shape
from maporl_core.runs.pocket.network import fresh_network
from maporl_core.runs.pocket.teach import lesson_loss
from maporl_core.runs.pocket.tokenizer import TRUST_ROLE, make_tokenizer
from maporl_core.runs.pocket.variants import VARIANT
from maporl_core.tasks.pocket import PocketTask

TOKENIZER = make_tokenizer(VARIANT["pocket"])
CODEC = ChatCodec(TOKENIZER)


def draw(seed: int, shape: Shape, **options: float) -> Lesson:
    return draw_lesson(random.Random(seed), shape, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("readings", "own", "odds"),
    [
        ([1, 1, 1], 0, (1 + 1 + 0.5) / 3),
        ([1, 0, 0], 0, (1 + 0 + 0.5) / 3),
        ([0, 1, 0], 0, (0 + 0.5 + 0.5) / 3),
        ([0, 1, 0], 1, (1 + 0 + 0.5) / 3),
        ([1], 0, (1 + 0.5 + 0.5) / 3),
    ],
)
def test_naive_agents_keep_take_or_solve_afresh_in_equal_parts(
    readings: list[int], own: int, odds: float
) -> None:
    for scores in ([0.9, 0.1, 0.1], [0.1, 0.9, 0.9]):
        assert chance(readings, own, scores[: len(readings)], 0.0) == pytest.approx(odds)


def test_leaning_agents_take_the_best_digit_and_share_a_tie() -> None:
    assert chance([0, 1, 0], 0, [0.31, 0.88, 0.52], 1.0) == 1.0
    assert chance([0, 1, 0], 0, [0.95, 0.88, 0.52], 1.0) == 0.0
    assert chance([0, 1, 0], 0, [0.85, 0.88, 0.52], 1.0) == 0.5  # both shown as 8
    naive = chance([0, 1, 0], 0, [0.3, 0.9, 0.5], 0.0)
    assert chance([0, 1, 0], 0, [0.3, 0.9, 0.5], 0.1) == pytest.approx(0.9 * naive + 0.1)


def test_later_prompts_show_every_message_of_the_turn_before_with_its_score() -> None:
    lesson = draw(0, Shape(agents=3, turns=3))
    assert len(lesson.user) == len(lesson.agent) == 3
    for turn in (1, 2):
        shown = lesson.user[turn].split("; ")
        assert len(shown) == 3
        assert f" {lesson.agent[turn - 1].text} (" in shown[0]


def test_without_feedback_no_score_is_shown_and_the_role_is_not_given() -> None:
    for seed in range(20):
        lesson = draw(seed, Shape(3, 3, feedback=False), trusting=True, leaning=1.0)
        assert "(" not in "".join(lesson.user)
        assert lesson.role == ""
        assert all(0.1 < said.chance < 0.9 for said in lesson.agent)


def test_an_agent_told_to_trust_scores_takes_the_best_one() -> None:
    for seed in range(200):
        lesson = draw(seed, Shape(3, 2), trusting=True)
        assert lesson.role == TRUST_ROLE
        shown = [part.rsplit(" (", 1) for part in lesson.user[1].split("; ")]
        best = max(digit for _, digit in shown)
        texts = {text.split(" ", 1)[1] for text, digit in shown if digit == best}
        said = lesson.agent[1]
        if len(texts) == 1:
            assert said.text in texts
            assert said.chance == 0.0


def test_naive_accuracy_is_one_half_in_every_turn() -> None:
    counts = [0, 0, 0]
    rng = random.Random(1)
    for _ in range(3000):
        lesson = draw_lesson(rng, Shape(3, 3))
        for turn, said in enumerate(lesson.agent):
            counts[turn] += said.text < said.twin
    # Which text is drawn is a fair coin in each turn: four standard deviations.
    assert all(abs(count - 1500) < 4 * 3000**0.5 / 2 for count in counts)


def test_every_number_of_agents_and_turns_up_to_four_is_taught() -> None:
    rng = random.Random(0)
    shapes = [draw_shape(rng) for _ in range(2000)]
    pairs = {(shape.agents, shape.turns) for shape in shapes}
    assert pairs == {(a, t) for a in range(1, 5) for t in range(1, 5)}
    assert {shape.feedback for shape in shapes} == {True, False}


def test_lessons_use_no_numbers_of_the_other_splits() -> None:
    asked = {draw(seed, Shape(1, 1)).user[0] for seed in range(300)}
    for split in ("train", "test"):
        assert not asked & {p.question for p in PocketTask().problems(split, 0, 300, seed=0)}


def test_taught_ids_are_those_that_a_run_would_make() -> None:
    encoder = Encoder(CODEC)
    for seed in range(10):
        lesson = draw(seed, Shape(3, 3), trusting=seed % 2 == 0)
        batch = encoder.batch([lesson])
        prompt = CODEC.opening_ids(lesson.role, lesson.user[0])
        for turn, said in enumerate(lesson.agent):
            if turn:
                prompt += CODEC.next_ids(prompt, lesson.user[turn])
            start = len(prompt)
            message = TOKENIZER(f" {said.text}", add_special_tokens=False)["input_ids"]
            prompt += [*message, TOKENIZER.eos_token_id]
            said_here = (batch.where >= start - 1) & (batch.where < len(prompt) - 1)
            assert batch.target[said_here].tolist() == prompt[start:]
            assert CODEC.decode(prompt[start:]).strip() == said.text
        assert batch.ids[0].tolist() == prompt


def test_one_token_of_a_message_decides_and_its_twin_is_the_other_reading() -> None:
    said = Said("9: 12 + 9 = 21 - 4 = 17", "7: 12 + 7 = 19 - 4 = 15", 0.25)
    batch = Encoder(CODEC).batch([Lesson("", ("?",), (said,))])
    nine, seven = (TOKENIZER.convert_tokens_to_ids(f"Ġ{n}") for n in (9, 7))
    assert batch.decides.tolist() == [True] + [False] * 11
    assert (int(batch.target[0]), int(batch.twin[0])) == (nine, seven)
    assert batch.chance.tolist() == [0.25] + [0.0] * 11


def test_rows_of_different_lengths_are_asked_at_their_own_places() -> None:
    encoder = Encoder(CODEC)
    lessons = [draw(seed, Shape(2, 2)) for seed in range(5)]
    together = encoder.batch(lessons)
    flat = together.ids.flatten()
    alone = [encoder.batch([lesson]) for lesson in lessons]
    assert together.target.tolist() == [i for batch in alone for i in batch.target.tolist()]
    assert flat[together.where + 1].tolist() == together.target.tolist()


def test_the_loss_is_the_divergence_from_the_taught_odds() -> None:
    network = fresh_network(VARIANT["pocket"], TOKENIZER, seed=0)
    said = Said("9: 12 + 9 = 21 - 4 = 17", "7: 12 + 7 = 19 - 4 = 15", 0.25)
    batch = Encoder(CODEC).batch([Lesson("", ("12 pens",), (said,))])
    logits = network(input_ids=batch.ids).logits[0].log_softmax(-1).detach()
    expected, weights = 0.0, 0.0
    for n, place in enumerate(batch.where.tolist()):
        target, twin = int(batch.target[n]), int(batch.twin[n])
        loss, weight = -float(logits[place, target]), 1.0
        if n == 0:
            weight = 5.0
            loss = 0.75 * loss - 0.25 * float(logits[place, twin])
            loss += 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
        expected, weights = expected + weight * loss, weights + weight
    assert float(lesson_loss(network, batch).detach()) == pytest.approx(
        expected / weights, rel=1e-5
    )


def test_number_tokens_start_as_waves_so_equal_steps_look_alike() -> None:
    network = fresh_network(VARIANT["pocket"], TOKENIZER, seed=0)
    table = network.get_input_embeddings().weight.detach()
    numbers = table[[TOKENIZER.convert_tokens_to_ids(f"Ġ{n}") for n in range(100)]]
    near = torch.cosine_similarity(numbers[10:90], numbers[11:91]).mean()
    far = torch.cosine_similarity(numbers[10:50], numbers[47:87]).mean()
    assert near > far + 0.1
