"""One's own question, put to the agents: untrained, trained, or one after the other.

In: an ``Assembly``, a question and whose words (base or trained).  Out: the discussion with its
scores and rewards, and the text while it is generated.  Neighbour: ``cli`` prints it.

Without a gold answer nothing can be scored by rule: agents then see no scores, and nothing is paid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from maporl_core.assembly import Assembly, assemble
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_core.judging.verifier.keeper import kept_verifier
from maporl_core.kit.offline import offline
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.progress import Progress
from maporl_core.rollout.discussion import Listeners, hold
from maporl_core.runs.run_state import load_newest_verifier, load_policy_state
from maporl_core.store.paths import RunDir
from maporl_core.types import Discussion, Message, Pay, Place, Problem

ANSWER_FORMS = (
    *("{}", "The answer is {}.", "\\boxed{{{}}}", "#### {}", "<answer>{}</answer>"),
    "0 + 0 = 0 + {0} = {0}",  # the worked step that the built-in agents write
)
"""How a message may give an answer: every task reads one of these."""


@dataclass(frozen=True, slots=True)
class Debate:
    """``paid`` is None where there was no gold answer to score by."""

    policy_state: str
    discussion: Discussion
    paid: Mapping[Place, Pay] | None

    @property
    def rewards(self) -> tuple[tuple[Pay, ...], ...] | None:
        """What each message was paid, as the discussion's messages stand."""
        if self.paid is None:
            return None
        return tuple(
            tuple(self.paid[Place(0, m.turn, m.agent, m.branch)] for m in row)
            for row in self.discussion.messages
        )


def question_of_ones_own(assembly: Assembly, question: str, gold: str | None) -> Problem:
    """A problem of the run's task with this question; ``gold`` as the task writes answers.

    Raises ConfigError for a gold answer that no message could ever match.
    """
    problem = Problem("own", question, gold, assembly.config.task.name, "own")
    if gold is not None and not any(
        assembly.task.is_correct(assembly.task.extract(form.format(gold.strip())), problem)
        for form in ANSWER_FORMS
    ):
        raise ConfigError(
            f"gold answer {one_line(gold, 60)!r}: task {assembly.config.task.name} cannot read "
            "that as an answer, so every message would be wrong; write it as the task's own "
            "answers are written"
        )
    return problem


def debate(
    assembly: Assembly,
    problem: Problem,
    policy_state: str,
    *,
    temperature: float,
    seed: int,
    on_text: Callable[[int, int, str], None] | None = None,
    on_turn: Callable[[Sequence[Message]], None] | None = None,
) -> Debate:
    """Discuss one problem with the adapters as they are, or without ("base").

    ``on_text`` hears (turn, agent, text so far), ``on_turn`` each finished turn, scored.
    Two calls with the same seed differ by the policies alone.
    """
    verifier = assembly.config.verifier
    scored = problem.gold is not None or verifier.on_model
    judges = assembly.judges()
    if not scored:
        judges = replace(judges, score=lambda items: [None] * len(items))

    def text(_problem: int, turn: int, agent: int, so_far: str) -> None:
        if on_text is not None:
            on_text(turn, agent, so_far)

    def spoken(_problem: int, row: Sequence[Message]) -> None:
        if on_turn is not None:
            on_turn(row)

    rules = assembly.rules(seed, temperature, untrained=policy_state == "base")
    listeners = Listeners(watched=frozenset({0}), text=text, spoken=spoken)
    with offline():  # all is loaded
        discussion = hold([problem], [0], assembly.speakers, judges, rules, listeners)[0]
    paid = assembly.scheme.pay([discussion]) if scored else None
    return Debate(policy_state, discussion, paid)


def ask(
    run: RunDir | None,
    config: RunConfig,
    question: str,
    gold: str | None,
    state: str,
    *,
    temperature: float,
    seed: int,
    on_turn: Callable[[Sequence[Message]], None] | None,
    progress: Progress,
) -> Debate:
    """Load the agents of a run, or without one the untrained ones, and put one question to them.

    The newest verifier of the run scores, whatever ``state`` speaks.
    """
    assembly = assemble(config, progress, kept_verifier(run, config))
    state = "base" if run is None else state
    if run is not None and state != "base":
        load_policy_state(run, assembly.policies, state)
    if run is not None:
        load_newest_verifier(run, assembly.policies)
    problem = question_of_ones_own(assembly, question, gold)
    return debate(assembly, problem, state, temperature=temperature, seed=seed, on_turn=on_turn)
