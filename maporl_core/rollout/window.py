"""Fitting a conversation into a context window, and saying what was left out.

In: a thread (one agent's conversation as ids) and what its agent is to read next.  Out: the thread
with its next prompt.  Neighbours: ``chat_codec`` makes ids, ``discussion`` keeps one thread per
agent.

What goes first, in this order, until the prompt fits: the turns between the opening question and
the agent's own last message; then the beginnings of the others' messages (answers stand at the
end); then the agent's own last message.  The question is never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from maporl_core.errors import ModelError
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.rollout.prompts import Seen

Later = Callable[[Seen, Sequence[Seen]], str]
Joining = Callable[[str, Sequence[Seen]], str]


class ContextFull(ModelError):
    """A later turn does not fit the window, whatever is left out."""


@dataclass(frozen=True, slots=True)
class Thread:
    """``opening`` and ``prompt`` are token ids; ``dropped`` counts ids that did not fit so far."""

    opening: tuple[int, ...]
    prompt: tuple[int, ...]
    dropped: int = 0


def fit_opening(codec: ChatCodec, role: str, question: str, budget: int) -> Thread:
    """The first prompt.  Raises ModelError if it is longer than ``budget`` tokens."""
    ids = tuple(codec.opening_ids(role, question))
    if len(ids) > budget:
        raise ModelError(
            f"the question takes {len(ids)} tokens, but the context window leaves {max(0, budget)} "
            "for it; raise discussion.max_context or lower discussion.max_new_tokens"
        )
    return Thread(ids, ids)


def fit_next_prompt(
    codec: ChatCodec,
    thread: Thread,
    own_ids: tuple[int, ...],
    own: Seen,
    others: Sequence[Seen],
    later: Later,
    budget: int,
) -> Thread:
    """The prompt of the next turn, at most ``budget`` tokens long.

    Begins with ``thread.prompt + own_ids`` unless that does not fit; ``dropped`` grows by the
    tokens left out.  Raises ContextFull when not even the bare question and the others' names fit.
    """
    whole = codec.next_ids(own_ids, later(own, others))
    full = len(thread.prompt) + len(own_ids) + len(whole)
    if full <= budget:
        return replace(thread, prompt=(*thread.prompt, *own_ids, *whole))

    def after_own(ids: tuple[int, ...]) -> Callable[[Sequence[Seen]], list[int]]:
        return lambda shown: codec.next_ids(ids, later(own, shown))

    for kept_own in (own_ids, ()):
        room = budget - len(thread.opening) - len(kept_own)
        after = _with_endings(after_own(kept_own), others, room)
        if after is not None:
            prompt = (*thread.opening, *kept_own, *after)
            return Thread(thread.opening, prompt, thread.dropped + full - len(prompt))
    raise _context_full(budget)


def fit_joining(
    codec: ChatCodec,
    role: str,
    thread: Thread,
    question: str,
    others: Sequence[Seen],
    joining: Joining,
    budget: int,
) -> Thread:
    """The first prompt of an agent that speaks after others, at most ``budget`` tokens long.

    ``thread`` is the one that opens with the bare ``question``.  The beginnings of the others'
    messages are left out where they do not fit.  Raises ContextFull when not even their names fit.
    """

    def prompt(shown: Sequence[Seen]) -> list[int]:
        return codec.opening_ids(role, joining(question, shown))

    full = prompt(others)
    fitted = full if len(full) <= budget else _with_endings(prompt, others, budget)
    if fitted is None:
        raise _context_full(budget)
    return Thread(thread.opening, tuple(fitted), len(full) - len(fitted))


def _context_full(budget: int) -> ContextFull:
    return ContextFull(
        f"a later turn needs more than the {budget} tokens that the context window leaves; raise "
        "discussion.max_context, or lower discussion.max_new_tokens or the number of agents"
    )


def _with_endings(
    prompt: Callable[[Sequence[Seen]], list[int]], others: Sequence[Seen], room: int
) -> list[int] | None:
    """Ids of at most ``room`` tokens with as much of the others' endings as fits; None: nothing."""

    def tail(keep: int) -> list[int]:
        return prompt(
            [
                replace(
                    o, text=o.text if len(o.text) <= keep else "…" + o.text[len(o.text) - keep :]
                )
                for o in others
            ]
        )

    low, high = 0, max((len(o.text) for o in others), default=0)
    best = tail(high)
    if len(best) <= room:
        return best
    best = tail(0)
    if len(best) > room:
        return None
    while low < high - 1:
        middle = (low + high) // 2
        ids = tail(middle)
        if len(ids) <= room:
            low, best = middle, ids
        else:
            high = middle
    return best
