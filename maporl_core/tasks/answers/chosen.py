"""The letter that a sentence chooses: "So B is the correct answer.", "I would pick B".

In: a message that has no box, tag or "the answer is".  Out: a capital letter; None where no letter
is chosen or several are.  A letter that is only the article, or that is only named beside others,
is not chosen.  Neighbour: ``choices`` reads explicit answers before it asks here.
"""

from __future__ import annotations

import re
import unicodedata

_END = r"(?![\w'’-])"
_OPEN = r"[(\[*\"'“‘`_]*"
_CLOSE = r"[)\]*\"'”’`_]*"
_NOUN = r"(?:option|choice|answer|letter|alternative|possibility)"
_KIND = r"(?:correct|right|best|true|likeliest|most\s+likely|most\s+plausible|only|valid|accurate)"
_SURE = r"(?:\s+(?:clearly|definitely|probably|therefore|thus|indeed|obviously|surely))?"
_ONE = rf"(?:the\s+)?(?:{_NOUN}\s+)?{_OPEN}(?P<letter>[A-Z]){_END}{_CLOSE}"
# Ways of saying that a letter is the answer.
_WAYS = tuple(
    re.compile(pattern)
    for pattern in (
        # "B is correct", "option B must be the right one", "B is my choice"
        rf"{_ONE}(?i:\s*,?\s*(?:is|must\s+be|has\s+to\s+be|should\s+be|seems(?:\s+to\s+be)?|looks|appears"
        rf"(?:\s+to\s+be)?|would\s+be){_SURE}\s+(?:(?:the|my|our)\s+)?(?:final\s+)?(?:{_KIND}|{_NOUN}|pick"
        r"|winner|one)\b)",
        # "my choice: B", "the correct option is B", "my pick would be (B)"
        rf"(?i:\b(?:{_NOUN}|pick|selection|vote|verdict|guess|solution|conclusion)\s*(?:(?:is|would\s+be"
        rf"|must\s+be|has\s+to\s+be|remains|=){_SURE}\s*:?|[:=]|\s[-\u2013\u2014])\s*){_ONE}",
        # "I would pick B", "choosing option B", "go with B"
        r"(?i:\b(?:pick(?:ed|ing)?|choos(?:e|ing)|chose|select(?:ed|ing)?|go(?:ing)?\s+(?:with|for)|went"
        r"\s+with|opt(?:ed|ing)?\s+for|vot(?:e|ed|ing)\s+for|settl(?:e|ed|ing)\s+(?:on|for)|stick\s+with"
        r"|answer|say|conclude(?:\s+that\s+it\s+is)?)\s+)" + _ONE,
        # "it must be B", "so it's B", "therefore B"
        r"(?i:\b(?:(?:it|this|that)(?:\s+(?:is|must\s+be|has\s+to\s+be|leaves)|['’]s)|must\s+be|leaves"
        r"(?:\s+(?:us|only))*(?:\s+with)?|therefore|thus|hence|so|points\s+to|finally)[\s,:]+)"
        + _ONE,
    )
)
_ALONE = (
    re.compile(r"\b(?i:option|choice)\s*\(?(?P<letter>[A-Z])\b"),
    re.compile(r"[(\[](?P<letter>[A-Z])[)\]]"),
)
_ARTICLE = re.compile(r"\s+(?!(?i:because|since|as|for|over|is|was|and|or|not|instead)\b)[A-Za-z]")
_ANOTHER = rf"\s*,?\s*(?i:or|and|and/or|nor|/|&)\s*(?i:also\s+)?(?i:{_NOUN}\s+)?[(\[*]*[A-Z]{_END}"
_MORE = re.compile(_CLOSE + _ANOTHER)
_BEFORE = re.compile(
    rf"[A-Z]{_END}{_CLOSE}\s*,?\s*(?i:or|and|and/or|nor|/|&)\s*(?i:{_NOUN}\s+)?[(\[*]*$"
)
_CLAUSE = re.compile(r"[,.;:!?\n]|\bbut\b")
_DENIED = re.compile(
    r"\b(?:not|isn['’]t|no|neither|nor|never|cannot|if|whether|unless)\b|n['’]t\b", re.IGNORECASE
)
_DENIED_AFTER = re.compile(
    rf"{_CLOSE}\s*(?:is|was|can|could|would|does|must|should)\s*(?:not\b|n['’]t\b|never\b)"
    rf"|{_CLOSE}\s*(?:is|was)\s+(?:wrong|incorrect|false|ruled\s+out|impossible|excluded)\b|{_CLOSE}\s*\?",
    re.IGNORECASE,
)
_SEARCHED = 20_000  # characters at the end of a message that are searched for a choice


def plain_letters(text: str) -> str:
    """Full-width, circled and bold mathematical letters as plain ones."""
    if text.isascii():
        return text
    return "".join(map(_plain_letter, text))


def _plain_letter(char: str) -> str:
    if char.isascii() or (char.isalpha() and ord(char) < 0x2100):
        return char
    folded = unicodedata.normalize("NFKC", char)
    return folded if folded.isascii() and len(folded) == 1 else char


def asserted_letter(text: str) -> str | None:
    """The letter that the last choosing sentence names; else the only option that is named."""
    end = text[-_SEARCHED:]
    said = [found for way in _WAYS for found in way.finditer(end) if _counts(end, found)]
    if said:
        last = max(said, key=lambda found: found.start("letter"))
        start = last.start("letter")
        if _MORE.match(end, last.end("letter")) or _BEFORE.search(end, max(0, start - 30), start):
            return None
        return last["letter"]
    for pattern in _ALONE:
        named = {x["letter"] for x in pattern.finditer(text) if not _denied(text, x)}
        if named:
            return named.pop() if len(named) == 1 else None
    return None


def _counts(text: str, found: re.Match[str]) -> bool:
    """Whether the letter is meant as one and not denied."""
    if _denied(text, found):
        return False
    end = found.end("letter")
    is_word = found["letter"] in "AI" and text[end : end + 1] in ("", " ", "\n", "\t")
    return not (is_word and end == found.end() and _ARTICLE.match(text, end))


def _denied(text: str, found: re.Match[str]) -> bool:
    start = found.start("letter")
    before = _CLAUSE.split(text[max(0, start - 40) : start])[-1]
    return bool(_DENIED.search(before) or _DENIED_AFTER.match(text, found.end("letter")))
