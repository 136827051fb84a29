"""The tokenizer of a built-in model: byte-level BPE in which each word of the task is one token.

In: a Variant.  Out: a Hugging Face fast tokenizer with chat template.  Lossless on any text,
because whatever is no word of the task falls apart into bytes.  Neighbours: ``build`` saves it,
``lessons`` encodes with it.

Every part of a chat starts with a space ("<|agent|> 12 + 9"), so a word or number has the same
single token at the start of a message as anywhere else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from maporl_core.rollout.prompts import STYLES, Seen
from maporl_core.runs.pocket.variants import Markers, Variant
from maporl_core.tasks.pocket import NAMES, OBJECTS, TEMPLATES, VERBS

AGENT_NAMES = ("Ada", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Hal")
TRUST_ROLE = "Trust scores."  # the one role (system text) that the models are taught
CONTEXT = 1024  # tokens the models accept


def make_tokenizer(variant: Variant) -> PreTrainedTokenizerFast:
    """Train the tokenizer of a variant; a pure function of it."""
    markers = variant.markers
    special = [AddedToken(marker, special=True) for marker in markers.all()]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(variant.words), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4096,  # more than there is to merge: training ends with every word whole
        min_frequency=1,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[] if variant.markers_last else special,
    )
    core.train_from_iterator(_vocabulary_text(), trainer)
    core.add_special_tokens(special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=markers.pad,
        bos_token=markers.begin,
        eos_token=markers.end,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    tokenizer.chat_template = _chat_template(markers)
    return tokenizer


def _chat_template(markers: Markers) -> str:
    """One marker per part; only an agent's message is closed by the end token."""
    content = "{{ ' ' + message['content'] | trim }}"
    return (
        "{% for message in messages %}"
        "{% if message['role'] == 'assistant' %}"
        f"{markers.agent}{content}{markers.end}"
        "{% elif message['role'] == 'system' %}"
        f"{markers.system}{content}"
        "{% else %}"
        f"{markers.user}{content}"
        "{% endif %}{% endfor %}"
        f"{{% if add_generation_prompt %}}{markers.agent}{{% endif %}}"
    )


def _vocabulary_text() -> Iterator[str]:
    """Each word the task and the compact prompts can show, in every surrounding they have."""
    for number in range(100):
        yield f" {number} +"
    yield f" {TRUST_ROLE}"
    rng = random.Random("pocket/tokenizer")
    for template in TEMPLATES:
        for name in NAMES:
            for things in OBJECTS:
                (now1, past1), (now2, past2) = rng.choice(VERBS["+"]), rng.choice(VERBS["-"])
                yield " " + template.format(
                    name=name,
                    things=things,
                    a="7 or 9",
                    b=8,
                    c=6,
                    now1=now1,
                    past1=past1,
                    now2=now2,
                    past2=past2,
                )
    later = STYLES["compact"].later
    for name in AGENT_NAMES:
        for score in (None, *(digit / 10 + 0.05 for digit in range(10))):
            seen = Seen(name, "8: 7 + 8 = 15 - 6 = 9", score)
            yield " " + later(seen, [seen])
