r"""Numbers in messages: finding the answer, its exact value, and one spelling per value.

In: a message, or an answer as somebody wrote it ("$1,234.50", "−3", "\frac{1}{2}", "18 dollars").
Out: exact Fractions; plain numbers are never compared as floats.  Neighbours: ``spans`` says
where to look, ``arithmetic`` evaluates, ``maths`` falls back on this for plain numbers.

Read as numbers: signs, thousands separators (1,234 · 1{,}234 · 1 234 with a fixed space, those of
``separators``), currency and unit words, a/b and mixed numbers, scientific and power notation,
"million" and the like.
A percent sign counts as a unit: "50%" is 50.  Bounds: ``arithmetic.MAX_DIGITS``, ``MAX_BITS``.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise

from maporl_core.tasks.answers import spans
from maporl_core.tasks.answers.arithmetic import (
    NotArithmetic,
    TooLarge,
    bounded,
    evaluate,
    power,
    read_number,
)
from maporl_core.tasks.answers.plain import plain_latex
from maporl_core.tasks.answers.separators import no_dashes, unspaced, usual

_LAST_FEW = 64  # numbers at the end of a text that are looked at
_MAX_PLACES = 60  # decimals of a canonical spelling
_MAX_ANSWER = 2_000  # characters of an explicit answer; a longer one is no number

# Nothing here repeats a group possessively: Python before 3.11.5 reads "(...)*+" wrongly.
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_GROUPED = r"\d{1,3}(?:,\d{3}){1,40}(?!\d|,\d)"
_INDIAN = r"\d{1,2}(?:,\d{2}(?!\d)){1,20},\d{3}(?!\d|,\d)"
# One number in running text.  What is glued to a word (H2O, x_1), a power or a slash, and parts
# of dates, versions and lists (5/12/2023, 1.2.3, "12,5"), is none.  The sign is looked for apart.
_LITERAL = re.compile(
    r"(?<![^\W_])(?<!\w_)(?<![.^/])(?<!\d,)"
    rf"(?P<body>(?>(?:{_GROUPED}|{_INDIAN}|\d++)(?:\.\d++)?|\.\d++))"
    r"(?:(?P<exp>e[-+]?\d{1,9})(?!\w)"
    r"|(?:\s?[*x]\s?(?P<ten>10))?\s?(?:\^|\*\*)\s?\(?(?P<power>[-+]?\d{1,9}+)\)?"
    r"|\s(?P<over>\d{1,9}+)/(?P<under>\d{1,9}+)(?!\d|/|\.\d)"
    r"|/(?P<divisor>\d++(?:\.\d++)?)(?!\d|/|\.\d))?"
    r"(?![.,/]\d)"
    r"(?:\s?(?P<scale>hundred|thousand|million|billion|trillion)s?\b)?",
    re.IGNORECASE,
)
_GLUED = re.compile(r"(?<![\w.,])\d[\d.]*,\d")
# What stands between two numbers to choose from, after "between" also "and".
_RANGE = re.compile(r"\s*(?:[^\W\d_]{1,30}\s+)?(?P<word>to|or|and)\s*[$€£¥₹]?\s*", re.IGNORECASE)
_MINUS = re.compile(r"(?:(?P<left>\S)(?P<space>\s*))?-(?P<gap>\s*)[$€£¥₹]?\s?$")
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
_WRAPPING = " \t\r\n*_`\"'“”‘’$"


@dataclass(frozen=True, slots=True)
class _Literal:
    start: int
    end: int
    value: Fraction | None  # None: a number, but out of bounds
    signed: bool


def extract_number(text: str) -> str | None:
    """The number a message gives as its answer, in ``canonical`` spelling; None for none.

    An explicit answer counts before the last number of the text.  A message that uses a box is
    read by its boxes alone: an empty, unclosed or unreadable one gives no answer.
    """
    seen = spans.visible(text)
    if seen is None:
        return None
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
    return _last_number(_clean(text))


def _last_number(cleaned: str) -> Fraction | None:
    """The last number of a text; only the last few are worked out, however many there are."""
    for found in reversed(deque(_LITERAL.finditer(cleaned), maxlen=_LAST_FEW)):
        if (literal := _literal(cleaned, found)) is not None:
            return literal.value
    return None


def stated_number(line: str) -> Fraction | None:
    """The number of "the answer is <line>": its first one, or what a chain from there equals.

    "18 because 2 * 9 = 18" is 18; "16 - 7 = 9 eggs" is 9.
    """
    cleaned = _clean(line)
    literals = list(_literals(cleaned))
    if not literals or _is_several(line):
        return None
    opening = cleaned[: literals[0].start].strip()
    if opening.endswith(("(", "[")) or opening.startswith("\\"):
        return number(spans.first_sentence(line))
    value, sums = literals[0].value, False
    first = literals[0]
    for left, right in pairwise(literals):
        link = _LINK.fullmatch(cleaned, left.end, right.start)
        if link is None and not (right.signed and cleaned[left.end : right.start].strip() == "-"):
            break
        if link is not None and link["op"] == "=":
            value, sums, first = right.value, False, right
        else:
            sums = True
            value = _value_of(cleaned[first.start : right.end])
    return value if not sums or value is not None else literals[0].value


def _is_several(line: str) -> bool:
    """Whether a statement begins with several numbers that could each be meant.

    "5 or 6", "3 to 5", "3–5", "between 3 and 5", "12,5", but not "3 and 5".
    """
    cleaned = _clean(line)
    first, second = [*islice(_literals(cleaned), 2), None, None][:2]
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
    return number(gold.rpartition("####")[2])


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
    cleaned = unspaced(_clean(answer).strip(_WRAPPING))
    if _SEVERAL.search(cleaned):
        return None
    cleaned = cleaned.rpartition("=")[2].strip(_WRAPPING).removesuffix(".").strip(_WRAPPING)
    expression = cleaned.removesuffix("%").replace("{", "(").replace("}", ")")
    try:
        return evaluate(_ungrouped(expression))
    except TooLarge:
        raise
    except NotArithmetic:
        pass
    literals = list(_literals(cleaned))
    if len(literals) != 1:
        return None
    (only,) = literals
    if not _BEFORE.fullmatch(cleaned, 0, only.start) or not _AFTER.fullmatch(cleaned, only.end):
        return None
    return only.value


def _ungrouped(text: str) -> str:
    """Thousands separators and currency signs taken out; a stray comma stays and spoils it."""
    text = re.sub(r"[$€£¥₹]\s?(?=[-.\d])", "", text)
    if "," not in text:
        return text
    return re.sub(
        rf"(?<![\d.,])(?:{_GROUPED}|{_INDIAN})", lambda found: found[0].replace(",", ""), text
    )


def _value_of(text: str) -> Fraction | None:
    try:
        return evaluate(_ungrouped(re.sub(r"[A-Za-z%]{2,}", " ", text)))
    except NotArithmetic:
        return None


def _literals(cleaned: str) -> Iterator[_Literal]:
    for found in _LITERAL.finditer(cleaned):
        if (literal := _literal(cleaned, found)) is not None:
            yield literal


def _literal(cleaned: str, found: re.Match[str]) -> _Literal | None:
    """The number found there; None for one that is none, such as 5/0."""
    minus = _is_minus(cleaned, found.start())
    try:
        value = _literal_value(found)
    except TooLarge:
        return _Literal(found.start(), found.end(), None, minus)
    except NotArithmetic:
        return None
    return _Literal(found.start(), found.end(), -value if minus else value, minus)


def _literal_value(found: re.Match[str]) -> Fraction:
    value = read_number(found["body"].replace(",", "") + (found["exp"] or ""))
    if found["power"]:
        exponent = Fraction(int(found["power"]))
        value = value * power(Fraction(10), exponent) if found["ten"] else power(value, exponent)
    elif found["over"]:
        if int(found["under"]) == 0:
            raise NotArithmetic("division by zero")
        value += Fraction(int(found["over"]), int(found["under"]))
    elif found["divisor"]:
        divisor = read_number(found["divisor"])
        if divisor == 0:
            raise NotArithmetic("division by zero")
        value /= divisor
    if found["scale"]:
        value *= 10 ** _SCALES[found["scale"].lower()]
    return bounded(value)


def _is_minus(text: str, start: int) -> bool:
    """Whether the number that starts there has a minus sign: "-3", "-$5", "$-5", "= - 3".

    No sign is the hyphen of "5-3" or "total-5", or the dash of a list ("- 3 eggs").
    """
    found = _MINUS.search(text, max(0, start - 12), start)
    if found is None:
        return False
    left, space = found["left"] or "", found["space"] or ""
    if not found["gap"]:
        return bool(space) or not (left.isalnum() or left in tuple(")]}%.-_"))
    return left in ("=", "(", ":") and "\n" not in space
