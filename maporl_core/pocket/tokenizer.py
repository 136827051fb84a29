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

from maporl_core.pocket.variants import Variant
from maporl_core.prompts import STYLES, Seen
from maporl_core.tasks.pocket import NAMES, OBJECTS, TEMPLATES, VERBS

AGENT_NAMES = ("Ada", "Bo", "Cy", "Dee", "Eli", "Fay", "Gus", "Hal")
CONTEXT = 1024  # tokens the models accept


def make_tokenizer(variant: Variant) -> PreTrainedTokenizerFast:
    """Train the tokenizer of a variant; a pure function of it."""
    pad, begin, _, _, _, end = variant.markers
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
        special_tokens=[AddedToken(marker, special=True) for marker in variant.markers],
    )
    core.train_from_iterator(_vocabulary_text(), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=pad,
        bos_token=begin,
        eos_token=end,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
    tokenizer.chat_template = _chat_template(variant)
    return tokenizer


def _chat_template(variant: Variant) -> str:
    """One marker per part; an agent's message alone is closed by the end token."""
    _, _, system, user, agent, end = variant.markers
    return (
        "{% for message in messages %}"
        "{% if message['role'] == 'assistant' %}"
        f"{agent}{{{{ ' ' + message['content'] | trim }}}}{end}"
        "{% elif message['role'] == 'system' %}"
        f"{system}{{{{ ' ' + message['content'] | trim }}}}"
        "{% else %}"
        f"{user}{{{{ ' ' + message['content'] | trim }}}}"
        "{% endif %}{% endfor %}"
        f"{{% if add_generation_prompt %}}{agent}{{% endif %}}"
    )


def _vocabulary_text() -> Iterator[str]:
    """Each word the task and the compact prompts can show, in every surrounding they have."""
    for number in range(100):
        yield f" {number} +"
    rng = random.Random("pocket/tokenizer")
    for template in TEMPLATES:
        for name in NAMES:
            for things in OBJECTS:
                (now1, past1), (now2, past2) = rng.choice(VERBS["+"]), rng.choice(VERBS["-"])
                yield " " + template.format(
                    **{"name": name, "things": things, "a": "7 or 9", "b": 8, "c": 6},
                    **{"now1": now1, "past1": past1, "now2": now2, "past2": past2},
                )
    worked = "7 + 8 = 15 - 6 = 9"
    later = STYLES["compact"].later
    for name in AGENT_NAMES:
        for score in (None, *(digit / 10 + 0.05 for digit in range(10))):
            for others in ((), (Seen(name, worked, score),), (Seen(name, worked, score),) * 2):
                yield " " + later(Seen(name, worked, score), others)
