"""Which two stored evaluations ``maporl compare`` holds side by side.

In: one or two words, RUN or RUN@WHICH.  Out: two evaluations with their runs, or an error that says
which command makes the missing one.  Neighbours: ``compare`` prints them, ``pairing`` has the rules
for choosing.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from maporl_core.errors import ConfigError, StoreError
from maporl_core.judging.pairing import newest_pair, own_pair
from maporl_core.kit.plain_text import one_line
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import Evaluation, StoreReader
from maporl_core.types import EvalSummary


@dataclass(frozen=True, slots=True)
class Side:
    """One evaluation and the run that holds it."""

    run: RunDir
    evaluation: Evaluation

    @property
    def name(self) -> str:
        """ "pocket: after (trained, step 100)"."""
        summary = self.evaluation.summary
        state = summary.policy_state
        told = state if state != summary.label else ""
        facts = ", ".join(fact for fact in (told, f"step {self.evaluation.step}") if fact)
        return f"{self.run.name}: {summary.label} ({facts})"


@dataclass(frozen=True, slots=True)
class _Named:
    """What one word of the command line means; ``which`` None: to be chosen."""

    run: RunDir
    stored: tuple[Evaluation, ...]
    which: Evaluation | None


def choose(root: Path, first: str, second: str | None) -> tuple[Side, Side]:
    """The two sides of ``maporl compare FIRST [SECOND]``.

    Raises ConfigError for a run or an evaluation that is not there, StoreError when the runs hold
    no two evaluations that go together.
    """
    left = _named(root, first, None)
    if second is None:
        return _within(left)
    right = _named(root, second, left.run)
    if left.which is not None and right.which is not None:
        return Side(left.run, left.which), Side(right.run, right.which)
    if left.run.path == right.run.path and left.which is None and right.which is None:
        raise ConfigError(
            f"{first} and {second} are one run: `maporl compare {left.run.name}` compares its "
            "evaluations before and after, RUN@LABEL names others"
        )
    return _across(left, right)


def _named(root: Path, text: str, same_run: RunDir | None) -> _Named:
    run, which = _split(root, text, same_run)
    with StoreReader(run) as reader:
        stored = reader.evaluations()
    return _Named(run, stored, None if which is None else _find(run, stored, which))


def _split(root: Path, text: str, same_run: RunDir | None) -> tuple[RunDir, str | None]:
    """ "RUN@WHICH", or "@WHICH" of the other word's run.  A folder's own name may hold an @."""
    name, at, which = text.rpartition("@")
    if not at:
        return RunDir.find(root, text), None
    if not which:
        raise ConfigError(f"{text!r}: name an evaluation after the @, by label or number")
    if not name:
        if same_run is None:
            raise ConfigError(f"{text!r}: name a run before the @")
        return same_run, which
    try:
        return RunDir.find(root, name), which
    except ConfigError:
        if "/" in which:  # the @ was part of a path
            return RunDir.find(root, text), None
        raise


def _find(run: RunDir, stored: Sequence[Evaluation], which: str) -> Evaluation:
    """By label, then by number, then by policy state; the newest of several."""
    for matches in (
        [e for e in stored if e.summary.label == which],
        [e for e in stored if str(e.id) == which],
        [e for e in stored if e.summary.policy_state == which],
    ):
        if matches:
            return matches[-1]
    known = ", ".join(f"{one_line(e.summary.label, 40)} (@{e.id})" for e in stored[-12:])
    raise ConfigError(
        f"run {run.name!r} holds no evaluation {one_line(which, 40)!r}; it holds: {known or 'none'}"
    )


def _within(named: _Named) -> tuple[Side, Side]:
    """Before and after of one run, or a named evaluation and the untrained agents'."""
    if named.which is None:
        pair = own_pair([e.summary for e in named.stored])
        if pair is None:
            raise StoreError(_missing_in(named))
        before, after = (named.stored[place] for place in pair)
        return Side(named.run, before), Side(named.run, after)
    if named.which.summary.policy_state == "base":
        raise ConfigError(
            f"{named.run.name}@{named.which.id} is of the untrained agents: name a second "
            "evaluation to hold against it"
        )
    base = [e for e in named.stored if e.summary.policy_state == "base"]
    found = newest_pair([e.summary for e in base], [named.which.summary])
    if found is None:
        raise StoreError(
            f"run {named.run.name!r} holds no evaluation of its untrained agents on these "
            f"questions; make one with: {eval_command(named.run, named.which.summary, base=True)}"
        )
    return Side(named.run, base[found[0]]), Side(named.run, named.which)


def _across(left: _Named, right: _Named) -> tuple[Side, Side]:
    """The newest evaluations of two runs that go together; a named one stays."""
    candidates = [
        [named.which] if named.which is not None else _trained(named) for named in (left, right)
    ]
    for named, found in zip((left, right), candidates, strict=True):
        if not found:
            raise StoreError(
                f"run {named.run.name!r} holds no evaluation of trained agents; make one with: "
                f"maporl eval {shlex.quote(_word(named.run))}"
            )
    pair = newest_pair(*([e.summary for e in found] for found in candidates))
    if pair is None:
        wanted, lacking = (right, left) if left.which is None else (left, right)
        model = candidates[0 if wanted is left else 1][-1].summary
        raise StoreError(
            f"runs {left.run.name!r} and {right.run.name!r} hold no evaluations on the same "
            f"questions; make one with: {eval_command(lacking.run, model)}"
        )
    return Side(left.run, candidates[0][pair[0]]), Side(right.run, candidates[1][pair[1]])


def _trained(named: _Named) -> list[Evaluation]:
    return [e for e in named.stored if e.summary.policy_state != "base"]


def _missing_in(named: _Named) -> str:
    """What a run lacks to be compared with itself."""
    base = [e for e in named.stored if e.summary.policy_state == "base"]
    trained = _trained(named)
    name = shlex.quote(_word(named.run))
    if not named.stored:
        need = f"maporl eval {name} --base, and then: maporl eval {name}"
        return f"run {named.run.name!r} holds no evaluation; make two with: {need}"
    if not base or trained:
        command = eval_command(named.run, trained[-1].summary, base=True)
        who = "untrained"
    else:
        command, who = eval_command(named.run, base[-1].summary), "trained"
    return (
        f"run {named.run.name!r} holds no evaluation of its {who} agents on the same questions; "
        f"make one with: {command}"
    )


def eval_command(run: RunDir, like: EvalSummary, base: bool = False) -> str:
    """The command line that measures a run as another evaluation was made."""
    words = ["maporl", "eval", _word(run)]
    words += ["--base"] if base else []
    words += ["--task", like.task, "--split", like.split, "--questions", str(like.questions)]
    words += ["--temperature", f"{like.temperature:g}", "--seed", str(like.seed)]
    return shlex.join(words)


def _word(run: RunDir) -> str:
    """How a command line names the run: its name below the usual folder, else its path."""
    return run.name if run.path.parent == Path("runs") else str(run.path)
