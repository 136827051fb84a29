r"""Numbers in messages: finding the answer, its exact value, and one spelling per value.

In: a message, or an answer as somebody wrote it ("$1,234.50", "−3", "\frac{1}{2}", "18 dollars").
Out: exact Fractions; plain numbers are never compared as floats.  Neighbours: ``spans`` says
where to look, ``arithmetic`` evaluates, ``maths`` falls back on this for plain numbers.

Read as numbers: signs, thousands separators (1,234 · 1{,}234 · 1 234 with a fixed space, those of
``separators``), currency and unit words, a/b and mixed numbers, scientific and power notation,
"million" and the like; those in words and with short scales through ``number_words``.
A percent sign counts as a unit: "50%" is 50.  Bounds: ``arithmetic.MAX_DIGITS``, ``MAX_BITS``.
"""

from __future__ import annotations

import re
from collections import deque
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise

from maporl_core.tasks.answers import number_words, sentences, spans
from maporl_core.tasks.answers.arithmetic import NotArithmetic, TooLarge, evaluate
from maporl_core.tasks.answers.literals import LITERAL, literal_at, literals, ungrouped
from maporl_core.tasks.answers.plain import plain_latex
from maporl_core.tasks.answers.separators import no_dashes, unspaced, usual

_LAST_WORDS = 600  # characters that are searched for a number in words
_LAST_FEW = 64  # numbers at the end of a text that are looked at
_MAX_PLACES = 60  # decimals of a canonical spelling
_MAX_ANSWER = 9_000  # characters of an explicit answer; a longer one is no number

_GLUED = re.compile(r"(?<![\w.,])\d[\d.]*,\d")
# What stands between two numbers to choose from, after "between" also "and".
_RANGE = re.compile(r"\s*(?:[^\W\d_]{1,30}\s+)?(?P<word>to|or|and)\s*[$€£¥₹]?\s*", re.IGNORECASE)
_CURRENCY_CODE = re.compile(r"\b(?:USD|EUR|GBP|INR|Rs\.?|RM)\s?(?=[-\d])")
_MINUS_WORD = re.compile(r"(?<![\d)%]\s)\b(?:minus|negative)\s+(?=[$€£¥₹]?\.?\d)", re.IGNORECASE)
# What may stand between two numbers of one worked line: units, then an operator or "=".
_LINK = re.compile(
    r"[\s$€£¥₹%)\]]*(?:[A-Za-z%][A-Za-z%\s]{0,30}?)?\s*(?P<op>[-+*/x=])[\s$€£¥₹(\[]*"
)
# What may stand around the one number of an explicit answer; operators and brackets may not.
_BEFORE = re.compile(
    r"(?:(?:(?!(?:not|no)\b)[^\W\d_]{2,}|[aA≈~])[\s:,.'’≈~]++)*[$€£¥₹]?\s*"
    r"|(?:[^\W\d_]{2,}\s*:)?\s*(?:[-+]\s*[$€£¥₹]?|[$€£¥₹]\s?-)\s*"
)
_AFTER = re.compile(r"\s*(?![xyznabei]\b)(?:[^\d+*/^\\=<>|{}!-]|[/-](?=\s?[A-Za-z])|\^[23]\b)*")
# "#### Step 2" and "#### 3. Compute the rest" are headings, not answers.
_HEADING = re.compile(r"\d{1,3}[.):]\s+\S|[A-Za-z][^=]*$")
_SEVERAL = re.compile(r"=[^=]*[,;]\s*[A-Za-z\\]\w*\s*=")  # "a = 1, b = 2"
_ALONE = re.compile(r"\s*[-+−]?[$€£¥₹]?\d{1,3}(?: \d{3})+(?:\.\d+)?\.?\s*")  # "1 000"
_WRAPPING = " \t\r\n*_`\"'“”‘’$"


def extract_number(text: str) -> str | None:
    """The number a message gives as its answer, in ``canonical`` spelling; None for none.

    An explicit answer counts before the last number of the text.  A message that uses a box is
    read by its boxes alone: an empty, unclosed or unreadable one gives no answer.
    """
    seen = spans.visible(text)
    return None if seen is None else number_in(number_words.unshortened(seen))


def number_in(seen: str) -> str | None:
    """The number of a message without its thinking; here "5k" is a product, as in formulas."""
    box = spans.last_box(seen)
    if box.written:
        value = number(box.content) if box.content is not None else None
    else:
        value = _explicit_number(seen)
    return None if value is None else canonical(value)


def _explicit_number(text: str) -> Fraction | None:
    content = spans.tagged(text)
    if content is not None and (value := number(content)) is not None:
        return value
    for line in spans.marked(text):
        if not _HEADING.match(line) and (value := number(line)) is not None:
            return value
    for line in spans.statements(text):
        if (value := stated_number(line)) is not None:
            return value
        if _is_several(line):
            return None
    cleaned = _clean(text)
    if _ALONE.fullmatch(text):
        return number(text)
    if not any(map(str.isdecimal, cleaned)):
        return _last_word(text)
    return _last_number(cleaned)


def _last_word(text: str) -> Fraction | None:
    """The number of a message without any digit: "Eighteen.", "So she has eighteen eggs."."""
    sentences = [part for part in re.split(r"[.!?\n]+", text[-_LAST_WORDS:]) if part.strip()]
    if not sentences:
        return None
    if len(sentences) == 1 and (value := number(sentences[0])) is not None:
        return value
    word = number_words.only_word(sentences[-1])
    return None if word is None else Fraction(word)


def _last_number(cleaned: str) -> Fraction | None:
    """The last number of a text; only the last few are worked out, however many there are."""
    for found in reversed(deque(LITERAL.finditer(cleaned), maxlen=_LAST_FEW)):
        if (literal := literal_at(cleaned, found)) is not None:
            return literal.value
    return None


def stated_number(line: str) -> Fraction | None:
    """The number of "the answer is <line>": its first one, or what a chain from there equals.

    "18 because 2 * 9 = 18" is 18; "16 - 7 = 9 eggs" is 9; "the sum of 3 parts is 12" is 12.
    """
    end = sentences.sentence_end(line)
    start = sentences.claim_start(line[:end])
    if start and any(map(str.isdecimal, line[start:end])):
        line = line[start:]
    line = number_words.in_digits(line)
    cleaned = _clean(line)
    found = list(literals(cleaned))
    if not found or _is_several(line):
        return None
    opening = cleaned[: found[0].start].strip()
    if opening.endswith(("(", "[")) or opening.startswith("\\"):
        return number(sentences.first_sentence(line))
    value, sums = found[0].value, False
    first = found[0]
    for left, right in pairwise(found):
        link = _LINK.fullmatch(cleaned, left.end, right.start)
        if link is None and not (right.signed and cleaned[left.end : right.start].strip() == "-"):
            break
        if link is not None and link["op"] == "=":
            value, sums, first = right.value, False, right
        else:
            sums = True
            value = _value_of(cleaned[first.start : right.end])
    return value if not sums or value is not None else found[0].value


def _is_several(line: str) -> bool:
    """Whether a statement begins with several numbers that could each be meant.

    "5 or 6", "3 to 5", "3–5", "between 3 and 5", "12,5", but not "3 and 5".
    """
    cleaned = _clean(line)
    first, second = [*islice(literals(cleaned), 2), None, None][:2]
    glued = _GLUED.search(cleaned)
    if glued is not None and (first is None or glued.start() < first.start):
        return True
    if first is None or second is None or first.value == second.value:
        return False
    link = _RANGE.fullmatch(cleaned, first.end, second.start)
    opening = cleaned[: first.start].rstrip(" $€£¥₹").lower()
    return link is not None and (link["word"].lower() != "and" or opening.endswith("between"))


def number(answer: str) -> Fraction | None:
    """The exact value of an answer on its own; None when it is not one number.

    Knows "x = 5", "18 dollars", "$1,234.50.", arithmetic such as "2 * 9", and what the module
    docstring lists.  Two numbers ("3, 4", "5 or 6") and expressions with variables are none.
    """
    return _number(answer) if len(answer) <= _MAX_ANSWER else None


@lru_cache(maxsize=4096)
def _number(answer: str) -> Fraction | None:
    try:
        return _read(answer)
    except TooLarge:
        return None


def too_large(answer: str) -> bool:
    """Whether this is plain arithmetic, but with a value out of bounds, like 9^(9^(9^9))."""
    if len(answer) > _MAX_ANSWER:
        return False
    try:
        _read(answer)
    except TooLarge:
        return True
    return False


def same_number(answer: str, gold: str) -> bool:
    """Whether both are numbers of exactly the same value."""
    value = number(answer)
    return value is not None and value == gold_number(gold)


def gold_number(gold: str) -> Fraction | None:
    """The value of a gold answer, also with GSM8K's "#### " before it; None if it is none."""
    return number(number_words.unshortened(gold.rpartition("####")[2]))


def canonical(value: Fraction) -> str:
    """One spelling per value: "18", "-0.5", or "1/3" where decimals never end, or very late."""
    if value.denominator == 1:
        return str(value.numerator)
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    if rest != 1 or places > _MAX_PLACES:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _clean(text: str) -> str:
    text = usual(plain_latex(no_dashes(text)))
    text = _CURRENCY_CODE.sub("$", text)
    return _MINUS_WORD.sub("-", text)


def _read(answer: str) -> Fraction | None:
    """The value of an explicit answer, or None; raises TooLarge."""
    cleaned = _clean(answer)
    if not any(map(str.isdecimal, cleaned)):
        cleaned = _clean(number_words.in_digits(cleaned))
    cleaned = unspaced(cleaned.strip(_WRAPPING))
    if _SEVERAL.search(cleaned):
        return None
    cleaned = cleaned.rpartition("=")[2].strip(_WRAPPING).removesuffix(".").strip(_WRAPPING)
    expression = cleaned.removesuffix("%").replace("{", "(").replace("}", ")")
    try:
        return evaluate(ungrouped(expression))
    except TooLarge:
        raise
    except NotArithmetic:
        pass
    found = list(literals(cleaned))
    if len(found) != 1:
        return None
    (only,) = found
    if not _BEFORE.fullmatch(cleaned, 0, only.start) or not _AFTER.fullmatch(cleaned, only.end):
        return None
    return only.value


def _value_of(text: str) -> Fraction | None:
    try:
        return evaluate(ungrouped(re.sub(r"[A-Za-z%]{2,}", " ", text)))
    except NotArithmetic:
        return None
