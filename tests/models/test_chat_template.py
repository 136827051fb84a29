"""Templates with habits of their own: what agents read is whole, and said once."""

from __future__ import annotations

from typing import Any

import pytest
from chat_samples import CHATML, Recorder
from small import small_llama, word_tokenizer

from maporl_core.config.schema import BaseModelConfig
from maporl_core.errors import ModelError
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.models.policy import Base, LoadedModel

DATED = "{{ strftime_now('%d %b %Y') }}" + CHATML
PARTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for part in m.content %}"
    "{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
USER_PARTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'user' %}"
    "{{ m.content[0].text }}{% else %}{{ m.content + '' }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
DROPS = (
    "<s>{% if messages[0].role != 'system' %}[sys]be good[/sys]{% endif %}"
    "{% for m in messages %}{% if m.role != 'assistant' %}[{{ m.role }}]{{ m.content }}"
    "[/{{ m.role }}]{% endif %}{% endfor %}{% if add_generation_prompt %}[agent]{% endif %}"
)
BOS_EACH_TURN = (
    "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }} </s>"
    "{% else %}<s>[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
)
SYSTEM_EACH_TURN = (
    "{% for m in messages %}{% if m.role == 'user' %}<|system|>be good</s>{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}<|assistant|>"
)
DEFAULT_RULES_EACH_TURN = (
    "{% set rules = messages[0].content if messages[0].role == 'system' else 'Be good.' %}"
    "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}({{ rules }}){% endif %}"
    "<{{ m.role }}>{{ m.content }}</s>{% endfor %}<assistant>"
)
RULES_IN_THE_LAST_USER_TEXT = (
    "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] "
    "{% if loop.last and messages[0].role == 'system' %}{{ messages[0].content }}\n\n{% endif %}"
    "{{ m.content }}[/INST]{% elif m.role == 'assistant' %} {{ m.content }}</s>{% endif %}"
    "{% endfor %}"
)
LAST_ONLY = "<|user|>{{ messages[-1].content }}</s><|assistant|>"
NO_QUESTION = "{% for m in messages %}<|im_start|>{{ m.role }}<|im_end|>{% endfor %}"


class Bossy(Recorder):
    """A tokenizer with a BOS."""

    def __init__(self, template: Any, bos: str = "<s>", eos: str = "</s>") -> None:
        super().__init__(template, eos)
        self.special[bos] = 3
        self.inner.add_special_tokens({"bos_token": bos, "eos_token": eos})
        self.bos_token, self.bos_token_id = bos, 3
        self.all_special_tokens, self.all_special_ids = list(self.special), [1, 2, 3]


def two_turns(tokenizer: Recorder, system: str = "") -> tuple[str, str]:
    """The first prompt, and the second one."""
    codec = ChatCodec(tokenizer)
    opening = codec.opening_ids(system, "why?")
    said = [*tokenizer("Because.")["input_ids"], 1]
    again = [*opening, *said, *codec.next_ids(said, "sure?")]
    return tokenizer.decode(opening), tokenizer.decode(again)


@pytest.mark.parametrize(
    "named",
    [{"default": DATED, "tool_use": "tools"}, {"chat": DATED}],
    ids=["default", "only one"],
)
def test_named_templates_tell_the_same_fixed_date_as_a_single_one(named: dict[str, str]) -> None:
    single, several = two_turns(Recorder(DATED)), two_turns(Recorder(named))
    assert several == single
    assert several[0].startswith("26 Jul 2024<|im_start|>user\nwhy?")


def test_named_templates_without_a_default_one_are_refused_with_their_names() -> None:
    with pytest.raises(ModelError, match='named rag, tool_use and none of them is "default"'):
        ChatCodec(Recorder({"rag": CHATML, "tool_use": CHATML}))


@pytest.mark.parametrize("template", [PARTS, USER_PARTS], ids=["all", "user"])
def test_a_template_that_walks_content_as_parts_shows_every_text(template: str) -> None:
    first, second = two_turns(Recorder(template), "be kind")
    assert first == (
        "<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\nwhy?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert second == (
        f"{first}Because.<|im_end|>\n<|im_start|>user\nsure?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_template_that_leaves_out_the_question_is_refused() -> None:
    with pytest.raises(ModelError, match="leaves out what the user says; set chat_template"):
        ChatCodec(Recorder(NO_QUESTION))


def test_earlier_answers_that_a_template_drops_are_continued_without_a_new_head() -> None:
    first, second = two_turns(Bossy(DROPS))
    assert first == "<s>[sys]be good[/sys][user]why?[/user][agent]"
    assert second == f"{first}Because.</s>[user]sure?[/user][agent]"


def test_a_template_with_a_bos_in_every_turn_gives_one_bos_and_each_end_once() -> None:
    first, second = two_turns(Bossy(BOS_EACH_TURN))
    assert first == "<s>[INST] why? [/INST]"
    assert second == f"{first}Because.</s>[INST] sure? [/INST]"


def test_a_bos_that_marks_every_turn_stays_where_the_template_puts_it() -> None:
    tokenizer = Bossy(CHATML, bos="<|im_start|>", eos="<|im_end|>")
    _, second = two_turns(tokenizer)
    assert second.count("<|im_start|>") == 4


@pytest.mark.parametrize(
    "template", [SYSTEM_EACH_TURN, DEFAULT_RULES_EACH_TURN], ids=["fixed", "default"]
)
def test_a_system_text_in_every_turn_is_refused(template: str) -> None:
    with pytest.raises(ModelError, match="tells the system text again in every turn"):
        ChatCodec(Bossy(template))


def test_rules_that_a_template_puts_before_the_last_user_text_are_told_once() -> None:
    first, second = two_turns(Bossy(RULES_IN_THE_LAST_USER_TEXT), "be kind")
    assert first == "<s>[INST] be kind\n\nwhy?[/INST]"
    assert second == f"{first}Because.</s>[INST] sure?[/INST]"


def test_a_template_that_keeps_only_the_last_message_is_refused() -> None:
    with pytest.raises(ModelError, match="keeps only the last message"):
        ChatCodec(Bossy(LAST_ONLY))


def test_every_end_id_of_the_generation_settings_ends_a_message() -> None:
    model, tokenizer = small_llama(), word_tokenizer()
    model.generation_config.eos_token_id = [1, 7, 9, 10_000]
    base = Base("main", BaseModelConfig(model="small"), LoadedModel(model, tokenizer, 64), {}, 0)
    assert base.codec.end_ids == {1, 7, 9}  # the last one is beyond the vocabulary of 64
    assert base.codec.decode([5, 6, 9]) == "w5 w6"
    model.generation_config.eos_token_id = 9
    base = Base("main", BaseModelConfig(model="small"), LoadedModel(model, tokenizer, 64), {}, 0)
    assert base.codec.end_ids == {1, 9}
