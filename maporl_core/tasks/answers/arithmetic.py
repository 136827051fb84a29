"""Exact value of an arithmetic expression such as "2 1/2 * (3 + 4)^2", within fixed bounds.

In: short plain text (LaTeX already turned plain by ``numerals``).  Out: a Fraction, never a float.
What is not plain arithmetic raises ``NotArithmetic``; what is, but grows beyond ``MAX_BITS``,
raises ``TooLarge``.  Neither takes more than a few milliseconds, towers of powers included.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

MAX_BITS = 13_500  # of a numerator or denominator: a little over 4,000 digits
MAX_DIGITS = 4000  # of one number as written
MAX_EXPONENT = 1000  # of "1e…" as written
_MAX_TOKENS = 400
_MAX_DEPTH = 30
_MAX_FACTORIAL = 300

_TOKEN = re.compile(
    r"(?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,9}(?![\d.]))?)"
    r"|(?P<power>\*\*|\^)|(?P<sign>[-+*/()!])"
)


class NotArithmetic(ValueError):
    """The text holds something other than numbers, operators and brackets, or makes no sense."""


class TooLarge(NotArithmetic):
    """Plain arithmetic whose value does not fit ``MAX_BITS``."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "n" for a number, otherwise the operator itself
    text: str
    spaced: bool  # stands after white space


def evaluate(text: str) -> Fraction:
    """The value of ``text``.  Raises NotArithmetic, or TooLarge beyond the bounds.

    Knows + - * / ^ (also **), !, brackets, implicit products with a bracket, decimal and
    scientific numbers, and mixed numbers: "2 1/2" is 5/2.
    """
    tokens = _tokens(text)
    if len(tokens) > 1 and _is_date(tokens):
        raise NotArithmetic(text[:40])
    parser = _Parser(tokens)
    value = parser.sum(0)
    if parser.position != len(parser.tokens):
        raise NotArithmetic(text[:40])
    return value


def read_number(text: str) -> Fraction:
    """The exact value of one unsigned decimal or scientific number."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or (exponent and abs(int(exponent)) > MAX_EXPONENT):
        raise TooLarge("number with too many digits")
    whole, _, decimals = mantissa.partition(".")
    value = Fraction(int((whole + decimals) or "0"), 10 ** len(decimals))
    return bounded(value * Fraction(10) ** int(exponent)) if exponent else value


def bounded(value: Fraction) -> Fraction:
    """``value`` itself; TooLarge when its numerator or denominator passes ``MAX_BITS``."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooLarge("value too large")
    return value


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """base^exponent for whole exponents, sized up before it is computed."""
    if exponent.denominator != 1 or (base == 0 and exponent < 0):
        raise NotArithmetic("no exact power")
    if abs(base) == 1 or base == 0:
        # 1, −1 and 0 stay small whatever the exponent; its parity is all that counts.
        return base ** (2 if exponent % 2 == 0 and exponent else int(exponent != 0))
    size = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if size * abs(exponent) > MAX_BITS or abs(exponent) > MAX_BITS:
        raise TooLarge("power too large")
    return bounded(base ** int(exponent))


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        spaced = text[position].isspace()
        if spaced:
            position += 1
            while position < len(text) and text[position].isspace():
                position += 1
            if position == len(text):
                break
        found = _TOKEN.match(text, position)
        if found is None:
            raise NotArithmetic(text[:40])
        kind = "n" if found["number"] else "^" if found["power"] else found["sign"]
        tokens.append(_Token(kind, found[0], spaced))
        position = found.end()
        if len(tokens) > _MAX_TOKENS:
            raise NotArithmetic("too long")
    return tokens


def _is_date(tokens: list[_Token]) -> bool:
    """Whether this looks like 2024-01-05, 12/25/2023 or a code with leading zeros: no sum."""
    if any(re.match(r"0\d", token.text) for token in tokens):
        return True
    return re.fullmatch(r"\d{1,2}/\d{1,2}/\d{4}", "".join(t.text for t in tokens)) is not None


class _Parser:
    """Recursive descent; ``depth`` counts brackets, signs and powers that are still open."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def _kind(self, ahead: int = 0) -> str:
        at = self.position + ahead
        return self.tokens[at].kind if at < len(self.tokens) else ""

    def sum(self, depth: int) -> Fraction:
        value = self.product(depth)
        while (kind := self._kind()) in ("+", "-"):
            self.position += 1
            right = self.product(depth)
            value = bounded(value + right if kind == "+" else value - right)
        return value

    def product(self, depth: int) -> Fraction:
        value = self.signed(depth)
        while True:
            kind = self._kind()
            if kind not in ("*", "/", "("):
                return value
            if kind != "(":  # a bracket right after a factor multiplies
                self.position += 1
            right = self.signed(depth)
            if kind == "/" and right == 0:
                raise NotArithmetic("division by zero")
            value = bounded(value / right if kind == "/" else value * right)

    def signed(self, depth: int) -> Fraction:
        if depth > _MAX_DEPTH:
            raise NotArithmetic("nested too deeply")
        if (kind := self._kind()) in ("+", "-"):
            self.position += 1
            value = self.signed(depth + 1)
            return -value if kind == "-" else value
        return self.raised(depth)

    def raised(self, depth: int) -> Fraction:
        value = self.atom(depth)
        while self._kind() == "!":
            self.position += 1
            if value.denominator != 1 or value < 0:
                raise NotArithmetic("no factorial")
            if value > _MAX_FACTORIAL:
                raise TooLarge("factorial too large")
            value = bounded(Fraction(factorial(int(value))))
        if self._kind() == "^":
            self.position += 1
            value = power(value, self.signed(depth + 1))
        return value

    def atom(self, depth: int) -> Fraction:
        kind = self._kind()
        if kind == "(":
            self.position += 1
            value = self.sum(depth + 1)
            if self._kind() != ")":
                raise NotArithmetic("open bracket")
            self.position += 1
            return value
        if kind != "n":
            raise NotArithmetic("number expected")
        value = read_number(self.tokens[self.position].text)
        self.position += 1
        return value + self._mixed_part()

    def _mixed_part(self) -> Fraction:
        """The 1/2 of "2 1/2": whole numbers, a space before, a proper fraction; else 0."""
        first, slash, last = (self._kind(ahead) for ahead in range(3))
        if (first, slash, last) != ("n", "/", "n"):
            return Fraction(0)
        whole, over, _, under = self.tokens[self.position - 1 : self.position + 3]
        if not over.spaced or not all(part.text.isdigit() for part in (whole, over, under)):
            return Fraction(0)
        numerator, denominator = read_number(over.text), read_number(under.text)
        if not 0 < numerator < denominator:
            return Fraction(0)
        self.position += 3
        return numerator / denominator
