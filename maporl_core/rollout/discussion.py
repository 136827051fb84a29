"""Turns × agents over engines: problems in, Discussions out.

In: problems, the speakers (one per agent: engine, codec, policy, role), the rules, and two
functions, ``grade`` (text → answer, correctness) and ``score`` (one turn's messages → v).
Out: Discussions with every message graded and scored.
Neighbours: ``prompts`` words what is read, ``context`` fits it into the window, ``train``,
``evaluate`` and ``debate`` call ``hold``.

All agents of a turn speak at once: prompts of turn t show messages of turn t−1 only.  The prompt
of turn t begins with the exact ids of turn t−1's prompt and completion, unless the context window
forced something out, which is recorded in the message.  A discussion whose next turn does not fit,
whatever is left out, ends with the turn before; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from maporl_core.kit.seeds import stable_seed
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.rollout.engine.base import Completion, Engine, Request, Sampling
from maporl_core.rollout.prompts import STYLES, Seen
from maporl_core.rollout.window import ContextFull, Thread, fit_next_prompt, fit_opening
from maporl_core.types import Discussion, Message, Problem

Grade = Callable[[str, Problem], tuple[str | None, bool | None]]
"""The answer a message gives (None: none) and whether it is right (None: no gold answer)."""

Score = Callable[[Sequence[Problem], Sequence[Message], Sequence[int]], Sequence[float | None]]
"""Verifier scores in [0, 1] of one turn's messages, None for "not scored"; one seed per message."""

Same = Callable[[str, str, Problem], bool]
"""Whether two answers to one problem are the same answer."""

OnText = Callable[[int, int, int, str], None]
"""Text as it is generated: (index of the problem, turn, agent, all text so far)."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """One agent at the table."""

    name: str
    role: str
    policy: str
    engine: Engine
    codec: ChatCodec
    context: int  # window in tokens


@dataclass(frozen=True, slots=True)
class Rules:
    """How one set of discussions is held.

    ``base_turns`` is the number of first turns spoken by the base with adapters off: 1 for
    ``train_turns = "discussion"``, 0 for "all", T for the untrained agents.
    """

    turns: int
    feedback: bool
    consensus_stop: bool
    style: str
    sampling: Sampling
    base_turns: int
    seed: int
    max_batch: int  # messages generated at once


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears a discussion while it is held.

    ``text`` hears the problems whose indices are in ``watched`` as they are generated; ``spoken``
    hears each finished turn of those problems; ``turn`` the number of messages of every turn.
    Any of them may raise to abandon the discussions.
    """

    turn: Callable[[int], None] | None = None
    watched: frozenset[int] = frozenset()
    text: OnText | None = None
    spoken: Callable[[int, Sequence[Message]], None] | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """What a task and a verifier say of messages; plain functions, so no stage knows the other."""

    prompt: Callable[[Problem], str]
    grade: Grade
    score: Score
    same: Same


def hold(
    problems: Sequence[Problem],
    seats: Sequence[int],
    speakers: Sequence[Speaker],
    bench: Bench,
    rules: Rules,
    listeners: Listeners | None = None,
) -> list[Discussion]:
    """Let all speakers discuss each problem; one Discussion per problem, in order.

    ``seats`` numbers the problems for their seeds (a position in the data, so the same problem at
    the same place is discussed the same way again).
    Raises ModelError when a context window is shorter than an opening prompt.
    """
    per_chunk = max(1, rules.max_batch // len(speakers))
    discussions: list[Discussion] = []
    for start in range(0, len(problems), per_chunk):
        end = min(start + per_chunk, len(problems))
        table = _Table(
            problems, seats, range(start, end), speakers, bench, rules, listeners or Listeners()
        )
        try:
            while not table.finished():
                table.turn()
        finally:  # also when a listener gave the discussions up
            for engine in {id(s.engine): s.engine for s in speakers}.values():
                engine.forget()
        discussions += table.discussions()
    return discussions


def opening_threads(
    problem: Problem, speakers: Sequence[Speaker], bench: Bench, rules: Rules
) -> list[Thread]:
    """Every agent's thread with its first prompt; agents that read the same share the work.

    Raises ModelError when the question does not fit somebody's context window.
    """
    question = STYLES[rules.style].opening(bench.prompt(problem))
    made: dict[tuple[int, str, int], Thread] = {}
    threads = []
    for speaker in speakers:
        key = (id(speaker.codec), speaker.role, speaker.context)
        if key not in made:
            room = speaker.context - rules.sampling.max_new_tokens
            made[key] = fit_opening(speaker.codec, speaker.role, question, room)
        threads.append(made[key])
    return threads


class _Table:
    """The discussions of one chunk of problems while they are being held."""

    def __init__(
        self,
        problems: Sequence[Problem],
        seats: Sequence[int],
        chunk: range,
        speakers: Sequence[Speaker],
        bench: Bench,
        rules: Rules,
        listeners: Listeners,
    ) -> None:
        self.problems, self.seats, self.speakers = problems, seats, speakers
        self.bench, self.rules, self.listeners = bench, rules, listeners
        self.style = STYLES[rules.style]
        self.held: dict[int, list[tuple[Message, ...]]] = {q: [] for q in chunk}
        self.live = list(chunk)
        self.stopped: set[int] = set()
        self.threads: dict[tuple[int, int], Thread] = {}
        self.turns_held = 0
        for q in chunk:
            for a, thread in enumerate(opening_threads(problems[q], speakers, bench, rules)):
                self.threads[q, a] = thread

    def finished(self) -> bool:
        return not self.live or self.turns_held == self.rules.turns

    def turn(self) -> None:
        """All agents of all live problems speak once, are graded and scored."""
        t = self.turns_held
        if t > 0:
            self._read_each_other()
        if not self.live:
            return
        places = [(q, a) for q in self.live for a in range(len(self.speakers))]
        completions = self._speak(t, places)
        messages = [
            self._message(t, q, a, completion)
            for (q, a), completion in zip(places, completions, strict=True)
        ]
        scores = self.bench.score(
            [self.problems[q] for q, _ in places],
            messages,
            [self._seed("score", q, t, a) for q, a in places],
        )
        scored = [replace(m, score=v) for m, v in zip(messages, scores, strict=True)]
        for position, q in enumerate(list(self.live)):
            first = position * len(self.speakers)
            row = tuple(scored[first : first + len(self.speakers)])
            self.held[q].append(row)
            if self.rules.consensus_stop and t + 1 < self.rules.turns and self._agree(q, row):
                self.stopped.add(q)
                self.live.remove(q)
            if self.listeners.spoken is not None and q in self.listeners.watched:
                self.listeners.spoken(q, row)
        self.turns_held += 1
        if self.listeners.turn is not None:
            self.listeners.turn(len(scored))

    def discussions(self) -> list[Discussion]:
        names = tuple(speaker.name for speaker in self.speakers)
        return [
            Discussion(self.problems[q], names, tuple(turns), q in self.stopped)
            for q, turns in self.held.items()
        ]

    def _seed(self, use: str, q: int, t: int, a: int) -> int:
        return stable_seed(self.rules.seed, use, self.seats[q], t, a)

    def _policy(self, t: int, a: int) -> str | None:
        return None if t < self.rules.base_turns else self.speakers[a].policy

    def _read_each_other(self) -> None:
        """Extend every live thread by what its agent now sees of the turn before.

        A problem whose next prompts do not all fit is live no longer: its discussion is over.
        """
        for q in list(self.live):
            try:
                read = [self._next_thread(q, a) for a in range(len(self.speakers))]
            except ContextFull:
                self.live.remove(q)
                continue
            for a, thread in enumerate(read):
                self.threads[q, a] = thread

    def _next_thread(self, q: int, a: int) -> Thread:
        """One agent's thread with the prompt of its next turn.  Raises ContextFull."""
        row, reader = self.held[q][-1], self.speakers[a]
        seen = [
            Seen(speaker.name, message.text, message.score if self.rules.feedback else None)
            for speaker, message in zip(self.speakers, row, strict=True)
        ]
        return fit_next_prompt(
            reader.codec,
            self.threads[q, a],
            row[a].ids,
            seen[a],
            [s for b, s in enumerate(seen) if b != a],
            self.style.later,
            reader.context - self.rules.sampling.max_new_tokens,
        )

    def _speak(self, t: int, places: Sequence[tuple[int, int]]) -> list[Completion]:
        """One engine call per engine, however many agents and policies share it."""
        by_engine: dict[int, list[int]] = {}
        for i, (_, a) in enumerate(places):
            by_engine.setdefault(id(self.speakers[a].engine), []).append(i)
        completions: list[Completion | None] = [None] * len(places)
        for members in by_engine.values():
            engine = self.speakers[places[members[0]][1]].engine
            requests = [
                Request(
                    tuple(self.threads[places[i]].prompt),
                    self._policy(t, places[i][1]),
                    self._seed("sample", places[i][0], t, places[i][1]),
                    conversation=places[i],
                )
                for i in members
            ]
            listener = self._listener(t, [places[i] for i in members])
            for i, completion in zip(
                members, engine.generate(requests, self.rules.sampling, listener), strict=True
            ):
                completions[i] = completion
        return [completion for completion in completions if completion is not None]

    def _listener(
        self, t: int, places: Sequence[tuple[int, int]]
    ) -> Callable[[int, Sequence[int]], None] | None:
        on_text, watched = self.listeners.text, self.listeners.watched
        if on_text is None or not any(q in watched for q, _ in places):
            return None

        def heard(index: int, ids: Sequence[int]) -> None:
            q, a = places[index]
            if q in watched:
                on_text(q, t, a, self.speakers[a].codec.decode(ids))

        return heard

    def _message(self, t: int, q: int, a: int, completion: Completion) -> Message:
        thread = self.threads[q, a]
        text = self.speakers[a].codec.decode(completion.ids)
        answer, correct = self.bench.grade(text, self.problems[q])
        return Message(
            turn=t,
            agent=a,
            policy=self._policy(t, a),
            prompt_ids=tuple(thread.prompt),
            ids=completion.ids,
            logprobs=completion.logprobs,
            text=text,
            finish=completion.finish,
            answer=answer,
            correct=correct,
            dropped_context=thread.dropped,
        )

    def _agree(self, q: int, row: Sequence[Message]) -> bool:
        first = row[0].answer
        return first is not None and all(
            m.answer is not None and self.bench.same(first, m.answer, self.problems[q])
            for m in row[1:]
        )
