"""Chat text to token ids and back, so that a conversation is kept as tokens.

In: a tokenizer with any chat template or none.  Out: ids of the opening prompt, ids that follow a
completion (never a re-tokenised copy of what was said), and decoded text.
Neighbours: ``policy`` makes one codec per base, ``discussion`` uses it, ``pocket`` trains with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maporl_core.errors import ModelError
from maporl_core.kit.plain_text import one_line

_SENTINEL = "\u2042maporl\u2042"
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


class ChatCodec:
    """Prompt ids for one tokenizer.

    A template without a system role gets the system text in front of the first user text.
    A template that tells the model the date is told a fixed one.
    Without a template (or ``use_template=False``) plain "User:" / "Assistant:" text is used.
    Strings that spell a special token inside somebody's text are broken up, so that no message
    can end its reader's turn.
    """

    def __init__(self, tokenizer: Any, use_template: bool = True) -> None:
        self.tokenizer = tokenizer
        self.templated = use_template and bool(getattr(tokenizer, "chat_template", None))
        self._special = sorted(
            {str(token) for token in tokenizer.all_special_tokens}
            | {
                str(added)
                for added in tokenizer.added_tokens_decoder.values()
                if getattr(added, "special", False)
            },
            key=len,
            reverse=True,
        )
        template = getattr(tokenizer, "chat_template", None)
        dated = isinstance(template, str) and "strftime_now" in template
        self._options = {"chat_template": f"{_FIXED_DAY}{template}"} if dated else {}
        self._system_role = self.templated and self._has_system_role()
        self.end_ids = self._find_end_ids()
        self._lead = self._find_lead()

    def opening_ids(self, system: str, user: str) -> list[int]:
        """Ids of the first prompt, up to where the agent begins to speak."""
        system, user = self._harmless(system), self._harmless(user)
        if not self.templated:
            head = f"{system}\n\n" if system else ""
            bos = self.tokenizer.bos_token_id
            ids = self._ids(f"{head}User: {user}\n\nAssistant:")
            return ids if bos is None else [int(bos), *ids]
        if system and not self._system_role:
            system, user = "", f"{system}\n\n{user}"
        messages = [{"role": "system", "content": system}] if system else []
        return self._ids(self._render([*messages, {"role": "user", "content": user}]))

    def next_ids(self, completion: Sequence[int], user: str) -> list[int]:
        """Ids between the end of ``completion`` and the agent's next words.

        Closes the agent's turn (unless its last id already did), gives the user text and opens
        the next turn.
        """
        ids = self._ids(self._after_assistant(self._harmless(user)))
        if completion and ids and completion[-1] == ids[0] and ids[0] in self.end_ids:
            return ids[1:]
        return ids

    def closed_ids(self, user: str, answer: str) -> list[int]:
        """Ids of a question and one whole answer to it; the last id is the end token.

        They are those of ``opening_ids("", user)`` followed by what an agent writes there: the
        answer without space around it, spaced as the template does.  Raises ModelError when the
        tokenizer has no end token.
        """
        after = self._ids(self._after_assistant("?"))
        end = after[0] if after and after[0] in self.end_ids else self.tokenizer.eos_token_id
        if end is None:
            raise ModelError("the tokenizer has no end token; set its eos_token")
        text = self._harmless(answer).strip()
        said = self._ids(self._lead + text) if text else []
        return [*self.opening_ids("", user), *said, int(end)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of a completion, without special tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def _render(self, messages: list[dict[str, str]]) -> str:
        try:
            return str(
                self.tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=True, **self._options
                )
            )
        except Exception as error:
            raise ModelError(
                f"the model's chat template failed ({one_line(error)}); "
                'set chat_template = "none" for this base'
            ) from error

    def _after_assistant(self, user: str) -> str:
        if not self.templated:
            return f"\n\nUser: {user}\n\nAssistant:"
        text = self._render(
            [
                {"role": "user", "content": "?"},
                {"role": "assistant", "content": _SENTINEL},
                {"role": "user", "content": user},
            ]
        )
        _, found, after = text.partition(_SENTINEL)
        if found:
            return after
        # A template that drops earlier assistant turns: close the turn, then a fresh one.
        end = self.tokenizer.eos_token or "\n"
        return f"{end}{self._render([{'role': 'user', 'content': user}])}"

    def _find_lead(self) -> str:
        """What the template puts between the opened turn and the agent's first word."""
        if not self.templated:
            return " "
        question = {"role": "user", "content": "?"}
        opened = self._render([question])
        try:
            said = self._render([question, {"role": "assistant", "content": _SENTINEL}])
        except ModelError:  # a template that takes no answer of an agent; next_ids says so
            return ""
        before, found, _ = said.partition(_SENTINEL)
        return before.removeprefix(opened) if found and before.startswith(opened) else ""

    def _has_system_role(self) -> bool:
        try:
            text = self._render(
                [{"role": "system", "content": _SENTINEL}, {"role": "user", "content": "?"}]
            )
        except ModelError:
            return False
        return _SENTINEL in text

    def _find_end_ids(self) -> frozenset[int]:
        ends = set()
        if self.tokenizer.eos_token_id is not None:
            ends.add(int(self.tokenizer.eos_token_id))
        if self.templated:
            after = self._ids(self._after_assistant("?"))
            special = set(self.tokenizer.all_special_ids) | {
                int(index)
                for index, added in self.tokenizer.added_tokens_decoder.items()
                if getattr(added, "special", False)
            }
            if after and after[0] in special:
                ends.add(after[0])
        return frozenset(ends)

    def _ids(self, text: str) -> list[int]:
        # Lone surrogates cannot be encoded; they become the replacement character.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return [int(i) for i in self.tokenizer(clean, add_special_tokens=False)["input_ids"]]

    def _harmless(self, text: str) -> str:
        for token in self._special:
            if len(token) > 1 and token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
        return text
