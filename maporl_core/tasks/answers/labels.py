"""Natural-language-inference labels in messages: entailment, neutral or contradiction.

In: a message.  Out: one of ``LABELS``, or None where none is asserted or several are.
Words count in every inflection ("contradictory", "entails"); what is negated is not asserted
("not a contradiction"); a statement such as "Answer: …" decides over what stands around it.
"""

from __future__ import annotations

import re

from maporl_core.tasks.answers import spans

LABELS = ("entailment", "neutral", "contradiction")

_WORD = re.compile(
    r"\b(?P<un>non[- ]?)?(?:(?P<entailment>entail(?:s|ed|ing|ments?|able)?)"
    r"|(?P<neutral>neutral(?:ity|ly)?)"
    r"|(?P<contradiction>contradict(?:s|ed|ing|ions?|ory|orily|ive)?))\b",
    re.IGNORECASE,
)
# Where a negation ends: at punctuation, and where another thought begins.
_CLAUSE = re.compile(
    r"[.,;:!?()\n\u2013\u2014]|\b(?:but|and|so|hence|thus|therefore|because|since|while|whereas"
    r"|although|however|instead(?!\s+of)|rather(?!\s+than))\b",
    re.IGNORECASE,
)
_NEGATOR = re.compile(
    r"\b(?:not|no|never|neither|nor|without|cannot|hardly|isnt|doesnt|dont|cant|wont"
    r"|rather\s+than|instead\s+of|as\s+opposed\s+to|far\s+from|fails?\s+to|unlike)\b|n['’]t\b",
    re.IGNORECASE,
)
_NO_NEGATOR = re.compile(r"\b(?:no\s+doubt|not\s+only|no\s+question)\b", re.IGNORECASE)
_DENIED_AFTER = re.compile(
    r"\W{0,4}(?:(?:is|are|was|does|do|can|could|would|should|may)\s*(?:not\b|n['’]t\b)"
    r"|(?:is|are|was|can\s+be|must\s+be)\s+(?:ruled\s+out|excluded|impossible|wrong|incorrect|false)"
    r"|(?:[:=?]|[-\u2013\u2014]\s)\s*(?:no|false|wrong)\b)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
# A sentence that says what the answer is: it decides over all others.
_DECISIVE = re.compile(
    r"\b(?:answer|label|verdict|conclusion|conclude|classification|judge?ment|final|finally|overall"
    r"|therefore|thus|hence|relation|relationship|in\s+short)\b|(?:^|[,;:]\s*)\s*so\b",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"\b(?:it|this|that|is|a|an|the|are|i|say|choose|pick|my|as|of|classified|labell?ed|be|would"
    r"|they|hypothesis|premise|statement|pair|case|type|class|logical|logically|clear|clearly)\b",
    re.IGNORECASE,
)
_SENTENCE_LENGTH = 2_000  # characters of one sentence that are looked at


def extract_label(text: str) -> str | None:
    """The label a message gives; None for none, or for several that nothing decides between."""
    seen = spans.visible(text)
    if seen is None:
        return None
    box = spans.last_box(seen)
    if box.written:
        return only_label(box.content) if box.content is not None else None
    content = spans.tagged(seen)
    if content is not None and _WORD.search(content):
        return only_label(content)
    for line in spans.marked(seen):
        if _WORD.search(line):
            return only_label(line)
    sentences = [
        part[-_SENTENCE_LENGTH:]
        for part in _SENTENCE_END.split(seen.replace("_", " "))
        if _WORD.search(part)
    ]
    for sentence in reversed(sentences):
        if _DECISIVE.search(sentence):
            return only_label(_after_marker(sentence))
    whole = _decide(set().union(*map(asserted, sentences)), sentences) if sentences else None
    if whole is None and sentences and _is_bare(sentences[-1]):
        return only_label(sentences[-1])
    return whole


def only_label(text: str) -> str | None:
    """The one label that ``text`` asserts; None for none or several.

    "Neither entailment nor contradiction" leaves neutral.
    """
    text = text.replace("_", " ")
    return _decide(asserted(text), [text])


def asserted(text: str) -> set[str]:
    """Labels that are named and not negated."""
    return _named(text)[0]


def _decide(found: set[str], texts: list[str]) -> str | None:
    if len(found) == 1:
        return next(iter(found))
    denied = set().union(*(_named(text)[1] for text in texts))
    if not found and len(denied) == len(LABELS) - 1:
        return next(label for label in LABELS if label not in denied)
    return None


def _named(text: str) -> tuple[set[str], set[str]]:
    """(asserted, negated) labels; a label that is both counts as asserted."""
    said: set[str] = set()
    denied: set[str] = set()
    text = _NO_NEGATOR.sub(" ", text)
    clause_start = 0
    boundaries = iter([*(end for end in _CLAUSE.finditer(text)), None])
    boundary = next(boundaries)
    for word in _WORD.finditer(text):
        while boundary is not None and boundary.end() <= word.start():
            clause_start = boundary.end()
            boundary = next(boundaries)
        before = text[max(clause_start, word.start() - 200) : word.start()]
        negated = bool(word["un"] or _NEGATOR.search(before))
        if not negated:
            negated = _DENIED_AFTER.match(text, word.end()) is not None
        (denied if negated else said).add(str(word.lastgroup))
    return said, denied - said


def _after_marker(sentence: str) -> str:
    """What a decisive sentence says after its last marker, if a label stands there."""
    markers = list(_DECISIVE.finditer(sentence))
    after = sentence[markers[-1].end() :]
    return after if _WORD.search(after) else sentence


def _is_bare(sentence: str) -> bool:
    """Whether a sentence says nothing but a label: "It is a contradiction"."""
    rest = _FILLER.sub("", _WORD.sub("", sentence))
    return not re.search(r"\w", rest) and len(asserted(sentence)) == 1
