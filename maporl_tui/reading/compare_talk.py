"""A question of one's own while both sides answer it: the worker's events become two debates.

In: events of ``runs.answer_worker``.  Out: two ``Debate`` records as far as they are known, and
where things stand.  Pure.  Neighbours: ``questioner`` owns the worker, the screen shows
the debates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from maporl_tui.reading.debate_made import columns_of
from maporl_tui.reading.debate_records import Debate, Said, change_of

State = Literal["loading", "answering", "finished", "withdrawn", "failed"]


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """What was typed; without ``question`` held-out question ``number`` (1-based) is asked.

    None: as the run's evaluations have it.
    """

    question: str | None = None
    gold: str | None = None
    number: int = 1
    temperature: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """Who answers on one side, once the worker has said so."""

    agents: tuple[str, ...] = ()
    turns: int = 0


@dataclass(slots=True)
class Talk:
    """One question.  ``ask`` is its number with the worker; ``stage`` what is being loaded."""

    asked: OwnQuestion
    voices: tuple[Voice, Voice] = (Voice(), Voice())
    ask: int | None = None
    state: State = "loading"
    stage: str = "starting"
    question: str = ""
    gold: str | None = None
    problem: str | None = None
    _texts: dict[tuple[int, int, int], str] = field(default_factory=dict)
    _turns: dict[tuple[int, int], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    _done: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.question = self.asked.question or ""
        self.gold = self.asked.gold

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return self.state in ("loading", "answering")

    @property
    def scored(self) -> bool:
        """Whether some message has a score; a learned verifier needs no gold answer for it."""
        return any(said["score"] is not None for row in self._turns.values() for said in row)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take one event of the worker; those of other questions change nothing."""
        kind, ask = event.get("event"), event.get("ask")
        if not self.busy or (ask is not None and ask != self.ask):
            return
        if kind == "stage":
            self.stage = str(event.get("text", ""))
        elif kind == "ready":
            self.voices = voices(event)
            self.state = "answering"
        elif kind in ("problem", "gone"):
            self.state, self.problem = "failed", str(event.get("text", ""))
        elif kind == "question":
            self.state = "answering"
            self.question, self.gold = str(event["question"]), event.get("gold")
        elif kind == "text":
            self._texts[event["side"], event["turn"], event["agent"]] = str(event["text"])
        elif kind == "turn":
            self._turns[event["side"], event["turn"]] = event["messages"]
        elif kind == "done":
            self._done[event["side"]] = event
        elif kind == "finished":
            self.state = "finished"
        elif kind == "cancelled":
            self.state = "withdrawn"

    def debate(self, side: int) -> Debate | None:
        """One side's answer so far; None before the worker has said who answers."""
        voice = self.voices[side]
        if not voice.agents:
            return None
        done = self._done.get(side)
        turns = voice.turns
        if done is not None:  # agents that agree stop before the last turn
            turns = 1 + max((turn for s, turn in self._turns if s == side), default=0)
        rows: list[tuple[Said | None, ...]] = []
        last: dict[int, Said] = {}  # what each agent has said so far
        for turn in range(turns):
            row = [
                self._said(side, turn, agent, name, last.get(agent))
                for agent, name in enumerate(voice.agents)
            ]
            last |= {said.agent: said for said in row if said is not None}
            rows.append(tuple(row))
        return Debate(
            key=None,
            step=0,
            split="own",
            problem_id="own question",
            question=self.question,
            gold=self.gold,
            agents=voice.agents,
            columns=columns_of(len(voice.agents), ()),
            rows_TC=tuple(rows),
            stopped_early=bool(done and done.get("stopped_early")),
            version=self.ask,
        )

    def _said(
        self, side: int, turn: int, agent: int, name: str, before: Said | None
    ) -> Said | None:
        messages = self._turns.get((side, turn))
        if messages is None:
            text = self._texts.get((side, turn, agent))
            if text is None:
                return Said(name, turn, agent, status="waiting")
            return Said(name, turn, agent, text=text, status="writing")
        speaking = [one["agent"] for one in messages]
        if agent not in speaking:
            return None
        place = speaking.index(agent)
        message = messages[place]
        said = Said(
            name=name,
            turn=turn,
            agent=agent,
            text=message["text"],
            answer=message["answer"],
            correct=message["correct"],
            score=message["score"],
            reward=self._reward(side, turn, place),
            finish=message["finish"],
            dropped=message["dropped_context"],
            status="scored",
        )
        if before is None or not before.is_over:
            return said
        return replace(said, change=change_of(before, said))

    def _reward(self, side: int, turn: int, place: int) -> float | None:
        done = self._done.get(side)
        if done is None or done.get("rewards") is None:
            return None
        return float(done["rewards"][turn][place]["total"])


def voices(ready: Mapping[str, Any]) -> tuple[Voice, Voice]:
    """Who answers, from the worker's "ready"."""
    first, second = (
        Voice(tuple(side["agents"]), int(side["turns"])) for side in ready["sides"][:2]
    )
    return first, second
