"""The discussions of one batch while they are held, turn by turn.

In: seats, speakers, rules, judges, listeners.  Out: Discussions.  Neighbours: ``discussion`` makes
tables, ``topology`` says who speaks and reads what, ``prompts`` words what is read, ``window`` fits
it into the context.

The prompt of an agent's next message begins with the exact ids of its last prompt and message,
unless the context window forced something out, which is recorded in the message.  A discussion
whose next turn does not fit, whatever is left out, ends with the turn before; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from maporl_core.rollout.engine.base import Completion, Request
from maporl_core.rollout.prompts import STYLES, Seen
from maporl_core.rollout.seats import Judges, Listeners, Rules, Seat, Speaker
from maporl_core.rollout.topology.base import Slot
from maporl_core.rollout.window import (
    ContextFull,
    Thread,
    fit_joining,
    fit_next_prompt,
    fit_opening,
)
from maporl_core.types import Discussion, Judged, Message, Problem


class _Place(NamedTuple):
    """Whose message of the present turn; ``d`` is the index of the discussion."""

    d: int
    agent: int
    branch: int


@dataclass(slots=True)
class _Live:
    """A discussion as far as it is held; ``slot`` is its next turn."""

    held: Discussion
    slot: Slot | None = None


def opening_threads(
    problem: Problem, speakers: Sequence[Speaker], judges: Judges, rules: Rules
) -> list[Thread]:
    """Every agent's thread with its first prompt; agents that read the same share the work.

    Raises ModelError when the question does not fit somebody's context window.
    """
    question = STYLES[rules.style].opening(judges.prompt(problem))
    made: dict[tuple[int, str, int], Thread] = {}
    threads = []
    for speaker in speakers:
        key = (id(speaker.codec), speaker.role, speaker.context)
        if key not in made:
            room = speaker.context - rules.sampling.max_new_tokens
            made[key] = fit_opening(speaker.codec, speaker.role, question, room)
        threads.append(made[key])
    return threads


class Table:
    def __init__(
        self,
        seats: Sequence[Seat],
        chunk: range,
        speakers: Sequence[Speaker],
        judges: Judges,
        rules: Rules,
        listeners: Listeners,
    ) -> None:
        """``chunk`` are the indices among ``seats`` of the discussions held here."""
        self.seats, self.speakers = seats, speakers
        self.judges, self.rules, self.listeners = judges, rules, listeners
        self.style = STYLES[rules.style]
        names = tuple(speaker.name for speaker in speakers)
        self.all = {
            d: _Live(Discussion(seats[d].problem, names, (), sample=seats[d].sample)) for d in chunk
        }
        self.live = list(chunk)
        self.turns_held = 0
        self.threads: dict[tuple[int, int], Thread] = {}
        for d in chunk:
            opened = opening_threads(seats[d].problem, speakers, judges, rules)
            for agent, thread in enumerate(opened):
                self.threads[d, agent] = thread
            self.all[d].slot = rules.topology.next(self.all[d].held)

    def discussions(self) -> list[Discussion]:
        return [each.held for each in self.all.values()]

    def turn(self) -> bool:
        """The next turn of all live discussions, graded and scored; False when there is none."""
        self.live = [d for d in self.live if self.all[d].slot is not None]
        if self.turns_held > 0:
            self._read()
        if not self.live:
            return False
        t = self.turns_held
        places = [
            _Place(d, agent, branch)
            for d in self.live
            for agent in self._slot(d).speakers
            for branch in range(self.rules.candidates)
        ]
        scored = self._judge(
            [
                self._message(t, place, completion)
                for place, completion in zip(places, self._speak(t, places), strict=True)
            ],
            places,
        )
        rows: dict[int, list[Message]] = {}
        for place, message in zip(places, scored, strict=True):
            rows.setdefault(place.d, []).append(message)
        for d, row in rows.items():
            self._add(d, tuple(row) if self.rules.candidates == 1 else self._chosen(d, row))
        self.turns_held += 1
        if self.listeners.turn is not None:
            self.listeners.turn(len(scored))
        return True

    def _slot(self, d: int) -> Slot:
        slot = self.all[d].slot
        assert slot is not None
        return slot

    def _add(self, d: int, row: tuple[Message, ...]) -> None:
        """Put a turn to its discussion, and see whether and how that goes on."""
        held = self.all[d].held
        held = replace(held, messages=(*held.messages, row))
        slot = self.rules.topology.next(held)
        if slot is not None and self.rules.consensus_stop and self._agree(held):
            held, slot = replace(held, stopped_early=True), None
        self.all[d] = _Live(held, slot)
        if self.listeners.spoken is not None and d in self.listeners.watched:
            self.listeners.spoken(d, held.said(held.turns - 1))

    def _chosen(self, d: int, row: Sequence[Message]) -> tuple[Message, ...]:
        """Mark which candidate of each speaker the discussion goes on with."""
        taken = {}
        for agent in self._slot(d).speakers:
            candidates = [message for message in row if message.agent == agent]
            taken[agent] = self.judges.choose(self.seats[d].problem, candidates)
        return tuple(replace(m, chosen=m.branch == taken[m.agent]) for m in row)

    def _agree(self, held: Discussion) -> bool:
        """Whether everybody has spoken and stands at the same answer."""
        spoken = [held.by(agent) for agent in range(len(held.agents))]
        if not all(spoken):
            return False
        answers = [messages[-1].answer for messages in spoken]
        first = answers[0]
        return first is not None and all(
            answer is not None and self.judges.same(first, answer, held.problem)
            for answer in answers[1:]
        )

    # Reading ----------------------------------------------------------------------------------

    def _read(self) -> None:
        """Extend the threads of all who speak next by what they now see.

        A discussion whose next prompts do not all fit is live no longer.
        """
        for d in list(self.live):
            try:
                read = {agent: self._next_thread(d, agent) for agent in self._slot(d).speakers}
            except ContextFull:
                self.live.remove(d)
                continue
            for agent, thread in read.items():
                self.threads[d, agent] = thread

    def _next_thread(self, d: int, agent: int) -> Thread:
        """One agent's thread with the prompt of its next message.  Raises ContextFull."""
        held, reader = self.all[d].held, self.speakers[agent]
        others = [
            self._seen(message)
            for message in self.rules.topology.reads(agent, held)
            if message.agent != agent
        ]
        room = reader.context - self.rules.sampling.max_new_tokens
        thread, own = self.threads[d, agent], held.by(agent)
        if not own:
            question = self.style.opening(self.judges.prompt(held.problem))
            return fit_joining(
                reader.codec, reader.role, thread, question, others, self.style.joining, room
            )
        later = self.style.later
        return fit_next_prompt(
            reader.codec, thread, own[-1].ids, self._seen(own[-1]), others, later, room
        )

    def _seen(self, message: Message) -> Seen:
        score = message.score if self.rules.feedback else None
        return Seen(self.speakers[message.agent].name, message.text, score)

    # Speaking ---------------------------------------------------------------------------------

    def _policy(self, t: int, agent: int) -> str | None:
        return None if t < self.rules.base_turns else self.speakers[agent].policy

    def _seed(self, use: str, t: int, place: _Place) -> int:
        return self.seats[place.d].seed(self.rules.seed, use, t, place.agent, place.branch)

    def _speak(self, t: int, places: Sequence[_Place]) -> list[Completion]:
        """One engine call per engine, however many agents and policies share it."""
        by_engine: dict[int, list[int]] = {}
        for i, place in enumerate(places):
            by_engine.setdefault(id(self.speakers[place.agent].engine), []).append(i)
        completions: list[Completion | None] = [None] * len(places)
        for members in by_engine.values():
            engine = self.speakers[places[members[0]].agent].engine
            requests = [
                Request(
                    self.threads[place.d, place.agent].prompt,
                    self._policy(t, place.agent),
                    self._seed("sample", t, place),
                    conversation=(place.d, place.agent),
                )
                for place in (places[i] for i in members)
            ]
            listener = self._listener(t, [places[i] for i in members])
            for i, completion in zip(
                members, engine.generate(requests, self.rules.sampling, listener), strict=True
            ):
                completions[i] = completion
        return [completion for completion in completions if completion is not None]

    def _listener(
        self, t: int, places: Sequence[_Place]
    ) -> Callable[[int, Sequence[int]], None] | None:
        on_text, watched = self.listeners.text, self.listeners.watched
        if on_text is None or not any(place.d in watched for place in places):
            return None

        def heard(index: int, ids: Sequence[int]) -> None:
            d, agent, branch = places[index]
            if d in watched and branch == 0:
                on_text(d, t, agent, self.speakers[agent].codec.decode(ids))

        return heard

    # Judging ----------------------------------------------------------------------------------

    def _message(self, t: int, place: _Place, completion: Completion) -> Message:
        thread = self.threads[place.d, place.agent]
        text = self.speakers[place.agent].codec.decode(completion.ids)
        answer, correct = self.judges.grade(text, self.seats[place.d].problem)
        return Message(
            turn=t,
            agent=place.agent,
            policy=self._policy(t, place.agent),
            prompt_ids=thread.prompt,
            ids=completion.ids,
            logprobs=completion.logprobs,
            text=text,
            finish=completion.finish,
            answer=answer,
            correct=correct,
            dropped_context=thread.dropped,
            branch=place.branch,
            phase=self._slot(place.d).phase,
        )

    def _judge(self, messages: Sequence[Message], places: Sequence[_Place]) -> list[Message]:
        """Messages with the verifier's scores, all asked at once."""
        earlier = {
            d: tuple(m for t in range(self.turns_held) for m in self.all[d].held.said(t))
            for d in self.live
        }
        asked = [
            Judged(
                self.seats[place.d].problem,
                message,
                earlier[place.d],
                self._seed("score", self.turns_held, place),
            )
            for place, message in zip(places, messages, strict=True)
        ]
        scores = self.judges.score(asked)
        return [replace(m, score=v) for m, v in zip(messages, scores, strict=True)]
