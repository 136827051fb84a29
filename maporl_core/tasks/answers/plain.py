r"""Unicode and LaTeX ways of writing a number or an operator, turned into plain ASCII ones.

In: any text.  Out: "−3" → "-3", "１８" → "18", "2½" → "2 1/2", "10²²" → "10^22",
"\dfrac{1}{2}" → "1/2", "1{,}234" → "1,234", "\text{km}" → " km ".  Letters of other scripts stay.
Neighbours: ``numerals`` and ``maths`` clean answers with it before they read them.
"""

from __future__ import annotations

import re
import unicodedata

_HYPHENS = "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d\u207b\u208b"
_FIXED_SPACES = "\u00a0\u2007\u2008\u2009\u202f"  # used inside numbers; other spaces are not
_EXPLICIT = {
    **dict.fromkeys(map(ord, _HYPHENS), "-"),
    **dict.fromkeys(map(ord, _FIXED_SPACES), "\u00a0"),
    **dict.fromkeys(map(ord, "×⋅·∙✕✖∗"), "*"),
    **dict.fromkeys(map(ord, "÷∕⁄"), "/"),
    **dict.fromkeys(map(ord, "≈≃≅"), "="),
    ord("٫"): ".",
    ord("٬"): ",",
    ord("％"): "%",
    ord("∞"): r"\infty ",
    ord("π"): r"\pi ",
    ord("√"): r"\sqrt ",
    ord("°"): r"^\circ ",
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")


class _Fold(dict[int, str]):
    """Code point → replacement, worked out the first time it is seen."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = char
        if char.isdecimal():
            folded = str(unicodedata.decimal(char))
        elif unicodedata.category(char) == "Cf":  # zero-width and bidi marks
            folded = ""
        elif unicodedata.category(char) == "Zs":
            folded = " "
        elif 0xFF01 <= code <= 0xFF5E:  # full-width forms of ! … ~
            folded = chr(code - 0xFEE0)
        elif "⁄" in (spelled := unicodedata.normalize("NFKC", char)):
            folded = " " + spelled.replace("⁄", "/")  # ½ → 1/2, after a space: 2½ is mixed
        self[code] = folded
        return folded


_FOLD = _Fold(_EXPLICIT)
_FOLD.update({code: chr(code) for code in range(128)})

_SIMPLE_FRACTION = re.compile(
    r"(?P<whole>\d\s{0,3})?\\[cdt]?frac\s*(?:\{\s*(?P<a>-?\d+)\s*\}|(?P<c>\d))"
    r"\s*(?:\{\s*(?P<b>\d+)\s*\}|(?P<d>\d))"
)
_FRACTION = re.compile(r"\\[cdt]?frac\s*\{([^{}]{0,200})\}\s*\{([^{}]{0,200})\}")
_STYLED = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|math(?:rm|bf|it|sf|tt)|mbox|hbox|operatorname|emph)\*?"
    r"\s*\{([^{}]{0,200})\}"
)
# Spacings that LaTeX writers put between groups of thousands: 1{,}234, 1,\!234, 1\,234.  A comma
# with a space that is no \! separates a list, as in "1,\,234".
THOUSANDS = re.compile(
    r"(?<=\d)(?:[ ]?\{[ ]?(?:\\!)?,[ ]?(?:\\!)?[ ]?\}(?:\\!)?|(?:\\!)?[ ]?,[ ]?\\!|\\!,|\\[,!;: ]"
    r"|\{\\[,!;: ]\}|\{\\?[ ]\}|\\(?:thinspace|nobreakspace)(?:\{\})?"
    r"|\\(?:text|mathord|mathpunct)\{,\}|~|\u00a0)"
    r"[ ]?(?=\d{3}(?!\d))"
)
_REPLACED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (r"\\(?:left|right|displaystyle|big|Big|bigl|bigr|limits|nolimits)(?![A-Za-z])", ""),
        (r"\\[()\[\]]|\$\$|\\!", ""),
        (r"\\(?:cdot|times|ast)(?![A-Za-z])", "*"),
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\(?:approx|simeq|cong)(?![A-Za-z])|\\doteq", "="),
        (r"\^\s*\{?\s*\\(?:circ|degree)(?![A-Za-z])\s*\}?|\\degree(?![A-Za-z])", " "),
        (r"\\(?:quad|qquad|enspace|thinspace)(?![A-Za-z])|\\[,;:> ]|~|\u00a0", " "),
        (r"\\([$%#&_])", r"\1"),
        (r"\^\s*\{\s*([-+]?\w{1,9})\s*\}", r"^\1"),
        (r"(?<=\d)_(?=\d{3}(?!\d))", ","),
        (r"(?<=[A-Za-z})])_(?:\{[^{}]{0,40}\}|\w)", ""),  # a subscript is part of a name
    )
)


def plain(text: str) -> str:
    """Unicode digits, signs, spaces and fractions as ASCII."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda found: "^" + found[0].translate(_SUPERSCRIPTS), text)
    return text.translate(_FOLD)


def plain_latex(text: str) -> str:
    """``plain`` text, with the LaTeX of numbers, units and operators turned plain as well."""
    text = plain(text)
    if "\\" in text or "{" in text or "~" in text or "\u00a0" in text:
        text = THOUSANDS.sub(",", text)
        text = _SIMPLE_FRACTION.sub(_as_ratio, text)
        for _ in range(6):
            text, styled = _STYLED.subn(r" \1 ", text)
            text, fractions = _FRACTION.subn(r"((\1)/(\2))", text)
            if not styled and not fractions:
                break
    if "\\" in text or "{" in text or "_" in text or "~" in text or "\u00a0" in text:
        for pattern, new in _REPLACED:
            text = pattern.sub(new, text)
    return text


def _as_ratio(found: re.Match[str]) -> str:
    ratio = f"{found['a'] or found['c']}/{found['b'] or found['d']}"
    # "2\frac{1}{2}" is a mixed number; "{\frac{1}{2}}" must not stick to what is before it.
    return f"{found['whole'].strip()} {ratio}" if found["whole"] else ratio
