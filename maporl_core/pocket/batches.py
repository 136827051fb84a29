"""Lessons as tensors: ids as a run would make them, and what the loss asks at each place.

In: lessons and the codec that runs use, so that what is taught and what is read later cannot
drift apart.  Out: a Batch.  Neighbours: ``lessons`` before, ``build`` after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from maporl_core.chat import ChatCodec
from maporl_core.pocket.lessons import Lesson, Said


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
    """Turns lessons into ids with one codec; what an agent says is encoded once per text."""

    def __init__(self, codec: ChatCodec) -> None:
        self.codec = codec
        self._said: dict[str, tuple[int, ...]] = {}
        self._opening = tuple(codec.opening_ids("", "?"))

    def said(self, text: str) -> tuple[int, ...]:
        """Ids of an agent's message with its end token, as the chat template renders it."""
        if text not in self._said:
            turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": text}]
            tokenizer = self.codec.tokenizer
            rendered = tokenizer.apply_chat_template(turn, tokenize=False)
            ids = tuple(tokenizer(rendered, add_special_tokens=False)["input_ids"])
            self._said[text] = ids[len(self._opening) :]
        return self._said[text]

    def batch(self, lessons: Sequence[Lesson]) -> Batch:
        rows: list[list[int]] = []
        where: list[tuple[int, int]] = []
        asked: list[tuple[int, int, float, bool]] = []
        for index, lesson in enumerate(lessons):
            row = list(self.codec.opening_ids(lesson.role, lesson.user[0]))
            for turn, said in enumerate(lesson.agent):
                if turn:
                    row += self.codec.next_ids(row, lesson.user[turn])
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
