"""A tokenizer's chat template, asked piece by piece what it writes around what is said.

In: a tokenizer with a chat template of any kind.  Out: the text of an opening prompt, the text
between an assistant's words and its next ones, and what stands before its first word.
Neighbour: ``chat_codec`` turns the pieces into token ids.

What a template does is found by rendering a mark and looking where it comes out.  A whole
conversation is never rendered: what was said is kept as ids, so only the pieces between are needed.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from maporl_core.errors import ModelError
from maporl_core.kit.plain_text import one_line

_WITHOUT = 'set chat_template = "none" for this base'
_MARK, _LATER, _RULE = "\u2042maporl\u2042", "\u2042later\u2042", "\u2042rule\u2042"
_SYSTEM = re.compile(r"(?<![a-z])sys(tem)?(?![a-z])", re.IGNORECASE)
_FIXED_DAY = (
    "{%- macro strftime_now(format) -%}{{ format"
    + "".join(
        f"|replace('%{code}', '{text}')"
        for code, text in (
            *(("-d", "26"), ("d", "26"), ("e", "26"), ("b", "Jul"), ("h", "Jul"), ("B", "July")),
            *(("-m", "7"), ("m", "07"), ("Y", "2024"), ("y", "24"), ("A", "Friday"), ("a", "Fri")),
            *(("F", "2024-07-26"), ("H", "12"), ("I", "12"), ("p", "PM"), ("M", "00"), ("S", "00")),
        )
    )
    + " }}{%- endmacro -%}"
)
"""Put in front of templates that tell the model the day: it is the same one in every run, so that a
seed gives the same run tomorrow.  It is the day that the published templates fall back to."""


class ChatTemplate:
    """What one template writes.  Raises ModelError where it fails or leaves out the question."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        template = _chosen(tokenizer.chat_template)
        self._options: dict[str, str] = {}
        if "strftime_now" in template:
            self._options["chat_template"] = f"{_FIXED_DAY}{template}"
        elif template is not tokenizer.chat_template:
            self._options["chat_template"] = template
        self._parts: set[str] = set()
        """Roles whose content the template walks as a list of parts."""
        if not self._shows("user", []):
            raise ModelError(f"the model's chat template leaves out what the user says; {_WITHOUT}")
        self._shows("assistant", [self._says("user", "?")])
        self._system_role = self._has_system_role()
        self._foreign_bos = self._bos_that_only_opens()
        self._user_head = self._head_where_answers_are_dropped()
        self._check_the_middle()

    def opening(self, system: str, user: str) -> str:
        """The first prompt, up to where the agent begins to speak."""
        if system and not self._system_role:
            system, user = "", f"{system}\n\n{user}"
        rules = [self._says("system", system)] if system else []
        text = self._render([*rules, self._says("user", user)])
        if not self._foreign_bos:
            return text
        before, bos, rest = text.partition(self._foreign_bos)
        return f"{before}{bos}{self._without_bos(rest)}"

    def after(self, user: str) -> str:
        """From the end of an agent's words, through what the user says, to the agent's turn.

        Holds neither a second BOS nor a second system text, and begins by closing the turn.
        """
        if self._user_head is not None:
            end = self._tokenizer.eos_token or "\n"
            opened = self._render([self._says("user", user)])
            head, _, _ = self._render([self._says("user", _MARK)]).partition(_MARK)
            return f"{end}{self._user_head}{opened.removeprefix(head)}"
        return self._without_bos(self._after_assistant(user))

    def lead(self) -> str:
        """What stands between the opened turn and the agent's first word."""
        question = self._says("user", "?")
        opened = self._render([question])
        try:
            said = self._render([question, self._says("assistant", _MARK)])
        except ModelError:  # a template that takes no answer of an agent; ``after`` says so
            return ""
        before, found, _ = said.partition(_MARK)
        return before.removeprefix(opened) if found and before.startswith(opened) else ""

    def _says(self, role: str, text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}] if role in self._parts else text
        return {"role": role, "content": content}

    def _render(self, messages: list[dict[str, Any]], opens: bool = True) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=opens, **self._options
                )
            )
        except Exception as error:
            raise ModelError(
                f"the model's chat template failed ({one_line(error)}); {_WITHOUT}"
            ) from error

    def _shows(self, role: str, before: list[dict[str, Any]]) -> bool:
        """Whether what a role says comes out, as plain text or else as a list of parts."""
        failed = None
        for parts in (set(), {role}):
            kept, self._parts = self._parts, self._parts | parts
            try:
                if _MARK in self._render([*before, self._says(role, _MARK)]):
                    return True
            except ModelError as error:
                failed = failed or error
            self._parts = kept
        if failed is not None and not before:
            raise failed
        return False

    def _has_system_role(self) -> bool:
        for parts in (set(), {"system"}):
            self._parts |= parts
            try:
                if _MARK in self._render([self._says("system", _MARK), self._says("user", "?")]):
                    return True
            except ModelError:
                continue
        self._parts.discard("system")
        return False

    def _after_assistant(self, user: str, rules: str = "") -> str:
        """What a rendered conversation holds after an assistant's words; "" if it drops them."""
        system = [self._says("system", rules)] if rules else []
        question, answer = self._says("user", "?"), self._says("assistant", _MARK)
        text = self._render([*system, question, answer, self._says("user", user)])
        return text.partition(_MARK)[2]

    def _bos_that_only_opens(self) -> str:
        """The BOS, if it opens a prompt and marks nothing else (some mark every turn with it)."""
        bos = getattr(self._tokenizer, "bos_token", None)
        if not bos or bos == self._tokenizer.eos_token:
            return ""
        opening = self._render([self._says("user", "?")])
        return str(bos) if opening.count(bos) == 1 and opening.lstrip().startswith(bos) else ""

    def _without_bos(self, text: str) -> str:
        return text.replace(self._foreign_bos, "") if self._foreign_bos else text

    def _head_where_answers_are_dropped(self) -> str | None:
        """What opens a later user's turn where earlier answers are left out; None: they are kept.

        It is read between two users' words, with the close of the first one's turn taken off.
        """
        talk = [self._says("user", _MARK), self._says("assistant", "!")]
        if self._after_assistant(_LATER):
            return None
        _, found, rest = self._render([*talk, self._says("user", _LATER)]).partition(_MARK)
        between, later, _ = rest.partition(_LATER)
        if not found or not later:
            raise ModelError(f"the model's chat template keeps only the last message; {_WITHOUT}")
        between = self._without_bos(between)
        head, _, post = self._render([self._says("user", _MARK)], opens=False).partition(_MARK)
        head = self._without_bos(head)
        if between.endswith(head):
            return head
        if post and between.startswith(post):
            return between.removeprefix(post)
        common = 0
        while common < min(len(head), len(between)) and head[-common - 1] == between[-common - 1]:
            common += 1
        return between[len(between) - common :]

    def _check_the_middle(self) -> None:
        """Raises ModelError where a system text would come again in mid-conversation."""
        again = bool(_SYSTEM.search(self.after(_LATER)))
        if self._system_role and self._user_head is None:
            with suppress(ModelError):  # rules and answers do not go together: no such prompt
                again = again or self._replaces_rules()
        if again:
            raise ModelError(
                f"the model's chat template tells the system text again in every turn; {_WITHOUT}"
            )

    def _replaces_rules(self) -> bool:
        """Whether a text of the template's own stands in mid-conversation where no rules are."""
        plain = self._after_assistant(_LATER)
        ruled = self._after_assistant(_LATER, rules=_RULE)
        before, found, behind = ruled.partition(_RULE)
        if not found:
            return plain != ruled
        if not plain.startswith(before) or not plain.endswith(behind):
            return False
        return bool(plain[len(before) : len(plain) - len(behind)].strip())


def _chosen(template: Any) -> str:
    """One template, or of several named ones that for plain chat."""
    if isinstance(template, str):
        return template
    named = dict(template)
    if "default" in named:
        return str(named["default"])
    if len(named) == 1:
        return str(next(iter(named.values())))
    raise ModelError(
        f"the model has chat templates named {one_line(', '.join(named), 80)} and none of them is "
        f'"default"; {_WITHOUT}'
    )
