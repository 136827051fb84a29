"""The tokenizers of the built-in models: lossless, one token per word, a thrifty chat template."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maporl_core.models.assets import VARIANTS
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.rollout.prompts import STYLES, Seen
from maporl_core.runs.pocket.tokenizer import AGENT_NAMES, TRUST_ROLE, make_tokenizer
from maporl_core.runs.pocket.variants import VARIANT
from maporl_core.tasks.pocket import PocketTask

TOKENIZERS = {name: make_tokenizer(VARIANT[name]) for name in VARIANTS}
MESSAGE = "9: 12 + 9 = 21 - 4 = 17"

each = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)


def ids_of(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize("name", VARIANTS)
@given(text=st.text())
def test_any_text_comes_back_unchanged(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    special = [token for token in tokenizer.all_special_tokens if token in text]
    assert special or tokenizer.decode(ids_of(tokenizer, text)) == text


@each
def test_the_tasks_own_text_comes_back_unchanged(tokenizer: Any) -> None:
    for problem in PocketTask().problems("test", 0, 200, seed=0):
        text = f" {problem.question}"
        assert tokenizer.decode(ids_of(tokenizer, text)) == text


@each
def test_every_number_word_and_score_is_one_token(tokenizer: Any) -> None:
    numbers = [str(n) for n in range(100)]
    scores = [f"({digit})" for digit in range(10)]
    for word in (*numbers, *scores, *AGENT_NAMES, "+", "-", "="):
        assert len(ids_of(tokenizer, f" {word}")) == 1, word
    for problem in PocketTask().problems("test", 0, 500, seed=0):
        for word in problem.question.split():
            most = 1 if word.isalnum() else 2  # a comma or stop may be a token of its own
            assert len(ids_of(tokenizer, f" {word}")) <= most, word


@each
def test_a_number_is_the_same_token_wherever_prompts_put_it(tokenizer: Any) -> None:
    codec = ChatCodec(tokenizer)
    (nine,) = ids_of(tokenizer, " 9")
    own = ids_of(tokenizer, f" {MESSAGE}")
    assert own[0] == nine  # right after the agent's marker
    later = STYLES["compact"].later(Seen("Ada", MESSAGE, 0.5), [Seen("Bo", MESSAGE, 0.2)])
    following = codec.next_ids([*own, tokenizer.eos_token_id], later)
    assert following.count(nine) == 4  # two messages, each with the reading and the operand
    assert codec.opening_ids("", "9 pens")[1] == nine  # right after the user's marker


@each
def test_a_message_takes_twelve_tokens_and_a_later_prompt_fourteen_per_agent(
    tokenizer: Any,
) -> None:
    codec = ChatCodec(tokenizer)
    message = [*ids_of(tokenizer, f" {MESSAGE}"), tokenizer.eos_token_id]
    assert len(message) == 12
    seen = [Seen(name, MESSAGE, 0.5) for name in AGENT_NAMES[:3]]
    following = codec.next_ids(message, STYLES["compact"].later(seen[0], seen[1:]))
    assert len(following) == 2 + 3 * 14 - 1  # two markers; name, text, score, ";" but the last
    questions = [p.question for p in PocketTask().problems("test", 0, 200, seed=0)]
    assert max(len(codec.opening_ids("", question)) for question in questions) <= 22


@each
def test_the_chat_template_keeps_roles_apart_and_every_prefix_stable(tokenizer: Any) -> None:
    messages = [
        {"role": "system", "content": TRUST_ROLE},
        {"role": "user", "content": "Mia has 12 pens"},
        {"role": "assistant", "content": f" {MESSAGE} "},
        {"role": "user", "content": "Bo 9"},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    begun = tokenizer.apply_chat_template(messages[:2], tokenize=False, add_generation_prompt=True)
    assert text.startswith(f"{begun} {MESSAGE}{tokenizer.eos_token}")
    assert text.count(tokenizer.eos_token) == 1
    assert TRUST_ROLE in begun


@each
def test_special_tokens_are_single_different_ids(tokenizer: Any) -> None:
    special = tokenizer.all_special_ids
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert len({*special}) == len(special) >= 3
    for marker in (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token):
        assert len(ids_of(tokenizer, marker)) == 1


def test_the_two_models_share_neither_markers_nor_ids() -> None:
    first, second = (TOKENIZERS[name] for name in VARIANTS)
    assert not {*VARIANT["pocket"].markers.all()} & {*VARIANT["pocket-b"].markers.all()}
    assert len(first) != len(second)
    assert first.eos_token_id != second.eos_token_id
    assert ids_of(first, f" {MESSAGE}") != ids_of(second, f" {MESSAGE}")


def test_making_a_tokenizer_twice_gives_the_same_one() -> None:
    for name, tokenizer in TOKENIZERS.items():
        assert make_tokenizer(VARIANT[name]).get_vocab() == tokenizer.get_vocab()
        assert len(tokenizer) <= 700
