"""Lessons as tensors: ids as a run would make them, and what the loss asks at each place.

In: lessons and the codec that runs use, so that what is taught and what is read later cannot
drift apart.  Out: a Batch.  Neighbours: ``lessons`` before, ``build`` after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.models.chat_codec import ChatCodec
from maporl_core.runs.pocket.lessons import Lesson, Said


@dataclass(frozen=True, slots=True)
class Batch:
    """B discussions, right-padded to length L, and the N tokens that agents said in them.

    ``ids`` [B, L].  For the n-th said token: ``where[n]`` is the flat position (in B · L) of the
    token before it, ``target[n]`` its id; it is ``twin[n]`` with probability ``chance[n]``
    instead.  ``decides[n]`` marks the one token of a message that chooses a reading; elsewhere
    ``chance`` is 0.
    """

    ids: Tensor
    where: Tensor
    target: Tensor
    twin: Tensor
    chance: Tensor
    decides: Tensor


class Encoder:
    """Turns lessons into ids with one codec; every word and every message is encoded once.

    No token of these tokenizers crosses the space before a word, so a prompt's ids are the
    template's own and then those of its words.
    """

    def __init__(self, codec: ChatCodec) -> None:
        self.codec = codec
        self._said: dict[str, tuple[int, ...]] = {}
        self._word: dict[str, tuple[int, ...]] = {}
        self._frame: dict[str | None, tuple[list[int], list[int]]] = {}

    def prompt(self, role: str | None, user: str) -> list[int]:
        """What ``codec.opening_ids(role, user)`` gives; ``next_ids`` after an end for None."""
        if role not in self._frame:
            word, (mark,) = "Ada", self._ids("Ada")
            if role is None:
                ids = self.codec.next_ids([self.codec.tokenizer.eos_token_id], word)
            else:
                ids = self.codec.opening_ids(role, word)
            place = ids.index(mark)
            self._frame[role] = ids[:place], ids[place + 1 :]
        head, tail = self._frame[role]
        return [*head, *self._ids(user), *tail]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in text.split(" "):
            if word not in self._word:
                found = self.codec.tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
                self._word[word] = tuple(found)
            ids += self._word[word]
        return ids

    def said(self, text: str) -> tuple[int, ...]:
        """Ids of an agent's message with its end token, as the chat template renders it."""
        if text not in self._said:
            self._said[text] = (*self._ids(text), self.codec.tokenizer.eos_token_id)
        return self._said[text]

    def batch(self, lessons: Sequence[Lesson]) -> Batch:
        rows: list[list[int]] = []
        where: list[tuple[int, int]] = []
        asked: list[tuple[int, int, float, bool]] = []
        for index, lesson in enumerate(lessons):
            row = self.prompt(lesson.role, lesson.user[0])
            for turn, said in enumerate(lesson.agent):
                if turn:
                    row += self.prompt(None, lesson.user[turn])
                where += [(index, len(row) - 1 + k) for k in range(len(self.said(said.text)))]
                asked += self._ask(said)
                row += self.said(said.text)
            rows.append(row)
        length = max(map(len, rows))
        ids = torch.full((len(rows), length), self.codec.tokenizer.pad_token_id)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row)
        target, twin, chance, decides = zip(*asked, strict=True)
        return Batch(
            ids=ids,
            where=torch.tensor([index * length + place for index, place in where]),
            target=torch.tensor(target),
            twin=torch.tensor(twin),
            chance=torch.tensor(chance),
            decides=torch.tensor(decides),
        )

    def _ask(self, said: Said) -> list[tuple[int, int, float, bool]]:
        """(target, twin, chance, decides) per token; the texts part at the smudged number."""
        ids, twin = self.said(said.text), self.said(said.twin)
        parting = next(k for k, pair in enumerate(zip(ids, twin, strict=False)) if len({*pair}) > 1)
        return [
            (i, twin[k], said.chance, True) if k == parting else (i, i, 0.0, False)
            for k, i in enumerate(ids)
        ]
