"""Chat text to token ids and back, so that a conversation is kept as tokens.

In: a tokenizer with any chat template or none.  Out: ids of the opening prompt, ids that follow a
completion (never a re-tokenised copy of what was said), and decoded text.
Neighbours: ``chat_template`` knows what the template writes, ``policy`` makes one codec per base,
``rollout.discussion`` uses it, ``runs.pocket`` trains with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from maporl_core.errors import ModelError
from maporl_core.models.chat_template import ChatTemplate


class ChatCodec:
    """Prompt ids for one tokenizer.

    A template without a system role gets the system text in front of the first user text.
    A template that tells the model the date is told a fixed one.
    Without a template (or ``use_template=False``) plain "User:" / "Assistant:" text is used.
    Strings that spell a special token inside somebody's text are broken up, so that no message
    can end its reader's turn.
    A message ends with the tokenizer's end token, the template's end of turn, or one of ``ends``:
    further ids that the model was taught to end with.
    """

    def __init__(self, tokenizer: Any, use_template: bool = True, ends: Iterable[int] = ()) -> None:
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
        self._template = ChatTemplate(tokenizer) if self.templated else None
        self.end_ids = self._find_end_ids() | frozenset(ends)
        self._lead = self._template.lead() if self._template else " "

    def opening_ids(self, system: str, user: str) -> list[int]:
        """Ids of the first prompt, up to where the agent begins to speak."""
        system, user = self._harmless(system), self._harmless(user)
        if self._template is None:
            head = f"{system}\n\n" if system else ""
            bos = self.tokenizer.bos_token_id
            ids = self._ids(f"{head}User: {user}\n\nAssistant:")
            return ids if bos is None else [int(bos), *ids]
        return self._ids(self._template.opening(system, user))

    def next_ids(self, completion: Sequence[int], user: str) -> list[int]:
        """Ids between the end of ``completion`` and the agent's next words.

        Closes the agent's turn (unless its last id already did), gives the user text and opens
        the next turn.
        """
        ids = self._ids(self._after_assistant(self._harmless(user)))
        end = completion[-1] if completion else None
        if end not in self.end_ids or end not in ids:
            return ids
        closing = ids.index(end)  # some templates put a space before the end token
        before = str(self.tokenizer.decode(ids[:closing]))
        return ids if before.strip() else ids[closing + 1 :]

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
        """Text of a completion, without special tokens and the id that ended it."""
        said = ids[:-1] if ids and ids[-1] in self.end_ids else ids
        return str(self.tokenizer.decode(list(said), skip_special_tokens=True))

    def _after_assistant(self, user: str) -> str:
        if self._template is None:
            return f"\n\nUser: {user}\n\nAssistant:"
        return self._template.after(user)

    def _find_end_ids(self) -> frozenset[int]:
        ends = set()
        if self.tokenizer.eos_token_id is not None:
            ends.add(int(self.tokenizer.eos_token_id))
        if self._template is not None:
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
