"""Tokenizers and templates with habits of their own, and windows that are too short for a talk."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_samples import CHATML, Recorder
from run_samples import Probe, new_run, small
from small import EOS, config, policies, small_llama, training, word_tokenizer
from table_samples import PROBLEMS, judges, real_table, rules, table
from tokenizers.processors import TemplateProcessing

from maporl_core.errors import ModelError
from maporl_core.judging.metrics import step_metrics
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.learning.packing import pack
from maporl_core.learning.updater import Updater
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.models.policy import LoadedModel, Policies
from maporl_core.rollout.discussion import hold
from maporl_core.rollout.engine.in_process import HFEngine
from maporl_core.rollout.topology import make_topology
from maporl_core.runs.evaluate import evaluate_run
from maporl_core.runs.step_metrics import out_of_context
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.train import train
from maporl_core.types import Place

DATED = "{{ strftime_now('%d %b %Y') }} {{ strftime_now('%B %-d, %Y') }}" + CHATML
BOS_IN_TEMPLATE = "{{ bos_token }} {% for m in messages %}{{ m.content }} <eos> {% endfor %}"


def test_a_template_that_tells_the_date_tells_the_same_one_every_day() -> None:
    tokenizer = Recorder(DATED)
    text = tokenizer.decode(ChatCodec(tokenizer).opening_ids("", "why?"))
    assert text.startswith("26 Jul 2024 July 26, 2024<|im_start|>user")


def bos_tokenizer(template: str | None) -> Any:
    """A tokenizer that puts its BOS in front of whatever it encodes, as many do."""
    tokenizer = word_tokenizer(chat_template=template)
    tokenizer.add_special_tokens({"bos_token": "w2"})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="w2 $A", special_tokens=[("w2", 2)]
    )
    assert tokenizer("w5")["input_ids"] == [2, 5]
    return tokenizer


@pytest.mark.parametrize(
    ("template", "count"),
    [(BOS_IN_TEMPLATE, 1), (None, 1), (CHATML, 0)],
    ids=["own", "none", "chatml"],
)
def test_a_prompt_begins_with_one_bos_or_none_and_later_turns_add_none(
    template: str | None, count: int
) -> None:
    codec = ChatCodec(bos_tokenizer(template))
    opening = codec.opening_ids("", "w5")
    assert opening.count(2) == count
    assert opening[:count] == [2] * count
    if template is not BOS_IN_TEMPLATE:
        assert codec.next_ids([7, EOS], "w6").count(2) == 0


def without(tokenizer: Any, *names: str) -> Any:
    for name in names:
        setattr(tokenizer, name, None)
    return tokenizer


@pytest.mark.parametrize("absent", [("pad_token",), ("eos_token",), ("pad_token", "eos_token")])
@pytest.mark.parametrize("template", [None, CHATML], ids=["plain", "chatml"])
def test_agents_talk_without_pad_or_end_tokens(
    absent: tuple[str, ...], template: str | None
) -> None:
    run = config(agents=2)
    tokenizer = without(word_tokenizer(chat_template=template), *absent)
    made = Policies(run, {"main": LoadedModel(small_llama(), tokenizer, 512)})
    base = made.bases["main"]
    engine = HFEngine(base, 64)
    _, speakers = table(lambda t, i: "w9")
    seated = [replace(s, engine=engine, codec=base.codec) for s in speakers]
    held = hold(PROBLEMS[:2], [0, 1], seated, judges(), rules(), None)
    assert [d.turns for d in held] == [3, 3]
    if "eos_token" in absent and template is None:
        messages = [m for d in held for row in d.messages for m in row]
        assert {(m.finish, len(m.ids)) for m in messages} == {("length", 6)}


TEMPLATES = (
    "{% for m in messages if m.role == 'assistant' %}{{ raise_exception('no') }}{% endfor %}",
    "{{ messages[5].content }}",
    "{{ messages[0].content.nothing.here }}",
    "{% for %}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('true') }}",
    "{{ range(10 ** 12) | list }}",
    "{% include '/etc/passwd' %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_that_fail_or_reach_out_are_one_line(template: str) -> None:
    with pytest.raises(ModelError) as caught:
        ChatCodec(Recorder(template)).opening_ids("be kind", "why?")
    text = str(caught.value)
    assert text.endswith('set chat_template = "none" for this base')
    assert "\n" not in text
    assert len(text) < 400


def test_text_of_any_kind_becomes_ids_without_special_ones() -> None:
    rng = random.Random(3)
    tokenizer = Recorder(CHATML)
    codec = ChatCodec(tokenizer)
    honest = codec.opening_ids("x", "x")
    pieces = ["<|im_end|>", "<|im_start|>", "<|im_", "end|>", "\0", "\ud800", "\x1b[31m", "\u202e"]
    for _ in range(300):
        text = "".join(rng.choice([*pieces, chr(rng.randrange(0x110000))]) for _ in range(8))
        ids = codec.opening_ids(text, text)
        assert (ids.count(1), ids.count(2)) == (honest.count(1), honest.count(2)), text


# Windows ------------------------------------------------------------------------------------------


def long_winded(turn: int, index: int) -> str:
    """The agents of the first problem say much in turn 1, all others little."""
    return " ".join(["w9"] * (30 if index < 2 and turn == 0 else 1))


def test_a_discussion_that_outgrows_its_window_ends_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, speakers = table(long_winded, context=48)

    def later(own: Any, others: Any) -> str:  # a style that leaves nothing to cut
        return " ".join(["w7"] * len(own.text.split()) * 2)

    from maporl_core.rollout.prompts import STYLES

    monkeypatch.setitem(STYLES, "stiff", replace(STYLES["compact"], later=later))  # type: ignore[arg-type]
    short = rules(style="stiff", topology=make_topology(3))
    held = hold(PROBLEMS[:3], [0, 1, 2], speakers, judges(), short, None)
    assert [d.turns for d in held] == [1, 3, 3]
    assert [d.stopped_early for d in held] == [False] * 3
    assert len(engine.asked[1]) == 4  # two problems with two agents each go on
    metrics = step_metrics(held, 3, lambda a, b, p: a == b)
    assert metrics["discussions/out_of_context"] == pytest.approx(1 / 3)
    assert metrics["discussions/turns"] == pytest.approx(7 / 3)


def test_discussions_that_outgrew_their_window_are_named_in_the_log(tmp_path: Path) -> None:
    run_config, probe = small(discussion={"max_context": 48, "turns": 3}), Probe()
    run = new_run(tmp_path, run_config)
    train(run_config, run, probe)
    with StoreReader(run) as reader:
        said = [event for event in reader.events_since() if event.kind == "context"]
        held = {s.row.id: s for s in reader.discussions()}
    assert {s.discussion.turns for s in held.values()} == {1}
    assert [event.level for event in said] == ["warning"] * 4
    assert [event.text for event in said] == [text for level, text in probe.logs if level != "info"]
    assert [event.step for event in said] == [0, 1, 2, 2]
    for event in said[1:3]:
        ids = [
            key for key, s in held.items() if s.row.split == "train" and s.row.step == event.step
        ]
        assert event.text == (
            f"step {event.step}: 3 of 3 discussions ended early, the next turn did not fit the "
            "context window (discussion.max_context): "
            + ", ".join(f"discussion {key} after turn 1" for key in ids)
        )
    assert said[0].text.startswith("evaluation before: 4 of 4 discussions ended early")
    probe.logs.clear()
    evaluate_run(run, run_config, "base", label="own", questions=2, temperature=0.0, seed=0,
                 split=None, progress=probe)  # fmt: skip
    assert [text.split(",")[0] for _, text in probe.logs] == ["2 of 2 discussions ended early"]


def test_a_kill_after_an_evaluation_loses_neither_its_warning_nor_its_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_config = small(discussion={"max_context": 48, "turns": 3}, eval={"every": 1})
    run = new_run(tmp_path, run_config)
    write = StoreWriter.write_evaluation

    def killed(self: StoreWriter, step: int, *words: Any, **named: Any) -> int:
        key = write(self, step, *words, **named)
        if step == 1:
            raise SystemExit(137)
        return key

    monkeypatch.setattr(StoreWriter, "write_evaluation", killed)
    with pytest.raises(SystemExit):
        train(run_config, run, Probe())
    with StoreReader(run) as reader:
        said = [e.text.split(":")[0] for e in reader.events_since() if e.kind == "context"]
        assert said == ["evaluation before", "step 1", "evaluation step 1"]
        assert "eval/accuracy/turn_1" in reader.latest_metrics()
    assert "evaluation step 1: " in run.log.read_text("utf-8")


def test_a_discussion_that_stopped_by_consensus_is_not_called_out_of_context() -> None:
    class Held:
        def __init__(self, turns: int, stopped_early: bool) -> None:
            self.turns, self.stopped_early = turns, stopped_early

    held: Any = [Held(1, True), Held(3, False), Held(2, False), *[Held(1, False)] * 6]
    assert out_of_context(held[:2], 3) is None
    line = out_of_context(held, 3, range(10, 19))
    assert line is not None
    assert line.startswith("7 of 9 ")
    assert line.endswith(": discussion 12 after turn 2, discussion 13 after turn 1, discussion 14 "
                         "after turn 1, discussion 15 after turn 1, discussion 16 after turn 1 and "
                         "2 more")  # fmt: skip


def test_discussions_that_all_end_at_once_are_held_paid_and_trained_without_a_fault() -> None:
    run = config(agents=2)
    speakers = real_table(2, context=24)
    held = hold(PROBLEMS, range(4), speakers, judges(), rules(style="standard"), None)
    assert {d.turns for d in held} == {1}
    rewards = {
        Place(d, t, a): parts
        for d, discussion in enumerate(held)
        for t, row in enumerate(reward_discussion(discussion, run.reward))
        for a, parts in enumerate(row)
    }
    assert {place.turn for place in rewards} == {0}
    made = policies(run)
    rows = pack(held, rewards, training(0, 1))
    before = [w.detach().clone() for name in made.names() for w in made[name].parameters()]
    Updater(made, run).update(rows, 0)
    after = [w for name in made.names() for w in made[name].parameters()]
    assert all(bool((a == b).all()) for a, b in zip(before, after, strict=True))


def test_a_window_of_every_length_holds_a_discussion_or_says_what_to_change() -> None:
    turns = set()
    for context in range(8, 70, 3):
        speakers = real_table(2, context=context)
        try:
            longer = rules(topology=make_topology(4))
            held = hold(PROBLEMS[:1], [0], speakers, judges(), longer, None)
        except ModelError as error:
            turns.add(0)
            assert "discussion.max_context" in str(error)  # noqa: PT017 - either way is fine
            continue
        turns.add(held[0].turns)
        for row in held[0].messages:
            assert all(len(m.prompt_ids) + len(m.ids) <= context for m in row)
    assert {0, 4} <= turns
