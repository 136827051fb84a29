"""Which charts a run has: one per question a person asks of it, made from the metrics it wrote.

In: names of metrics.  Out: ``ChartSpec``: titles, curves, their letters and colours.  Pure.
Neighbours: ``curves`` makes pictures of them, ``screens.dashboard`` shows those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

TONES = 8
"""Colours of curves: 1 to 6 as agents have them, 7 plain text, 8 muted."""
_PLAIN, _MUTED = 7, 8

_KEYS = "abcdefghijklmnopqrstuvwxyz123456789"


@dataclass(frozen=True, slots=True)
class SeriesSpec:
    """One curve: its metric, its name in the legend, the letter at its end, its colour (1 …)."""

    metric: str
    label: str
    key: str
    tone: int


@dataclass(frozen=True, slots=True)
class ChartSpec:
    """One chart.  ``hide_zero``: curves that are 0 throughout are left out.

    ``markers``: the curves beside which evaluations of the same turn are drawn as marks.
    """

    id: str
    title: str
    series: tuple[SeriesSpec, ...]
    hide_zero: bool = False
    markers: tuple[SeriesSpec, ...] = ()


def charts_of(
    names: Iterable[str], policies: Sequence[str] = (), declared: Sequence[str] = ()
) -> tuple[ChartSpec, ...]:
    """The charts for the metrics that a run has written, in the order they are shown.

    ``policies`` is the order in which they get their colours; those not named come after.
    ``declared``: the parts of the run's reward, in their order.
    """
    known = set(names)
    found = (*_of_pay(known, policies, declared), *_of_training(known, policies))
    kept = (_only(spec, known) for spec in (_accuracy(known), *found))
    return tuple(spec for spec in kept if spec.series)


def _accuracy(known: set[str]) -> ChartSpec:
    series = _per_turn(known, "accuracy")
    return ChartSpec("accuracy", "accuracy per turn", series, markers=series)


def _of_pay(
    known: set[str], policies: Sequence[str], declared: Sequence[str]
) -> tuple[ChartSpec, ...]:
    """What is paid, and what staying near the base costs."""
    parts = [
        SeriesSpec(f"reward/{part}", part, key, i % 6 + 1)
        for i, (part, key) in enumerate(zip(declared, part_letters(declared), strict=True))
    ]
    total = SeriesSpec("reward/total", "total", "T", _PLAIN)
    coefficient = SeriesSpec("kl_coef", "coefficient", "k", _MUTED)
    kl = (*_per_policy(known, "kl", policies), coefficient)
    return (
        ChartSpec("reward", "reward and its parts", (total, *parts), hide_zero=True),
        ChartSpec("kl", "KL to the base", kl),
    )


def _of_training(known: set[str], policies: Sequence[str]) -> tuple[ChartSpec, ...]:
    """Losses, messages, votes, the verifier and speed."""
    turns = _turns(known, "accuracy")
    last = turns[-1] if turns else 0
    return (
        ChartSpec(
            "losses",
            "losses",
            (
                SeriesSpec("ppo/policy_loss", "policy", "p", 1),
                SeriesSpec("ppo/value_loss", "value", "v", 2),
            ),
        ),
        ChartSpec("entropy", "entropy", _per_policy(known, "entropy", policies)),
        ChartSpec(
            "length",
            "message length (tokens)",
            (SeriesSpec("messages/length", "mean", "m", 1),),
        ),
        ChartSpec("agreement", "agreement per turn", _per_turn(known, "agreement")),
        ChartSpec(
            "votes",
            "votes in the last turn",
            (
                SeriesSpec(f"accuracy/turn_{last}", "mean", "a", _PLAIN),
                SeriesSpec(f"majority/turn_{last}", "majority", "m", 1),
                SeriesSpec(f"oracle/turn_{last}", "oracle", "o", 2),
            ),
        ),
        ChartSpec(
            "cut",
            "unreadable messages",
            (
                SeriesSpec("messages/unparsable", "no answer", "n", 1),
                SeriesSpec("messages/unfinished", "cut off", "c", 2),
            ),
        ),
        ChartSpec(
            "verifier",
            "verifier against the rule",
            (
                SeriesSpec("verifier/gap", "score − correctness", "g", 1),
                SeriesSpec("verifier/disagreement", "disagrees", "d", 2),
                SeriesSpec("verifier/auroc", "AUROC", "a", _MUTED),
            ),
        ),
        ChartSpec(
            "speed",
            "tokens per second",
            (
                SeriesSpec("speed/rollout_tokens_per_second", "rollout", "r", 1),
                SeriesSpec("speed/update_tokens_per_second", "update", "u", 2),
            ),
        ),
    )


def _only(spec: ChartSpec, known: set[str]) -> ChartSpec:
    series = tuple(one for one in spec.series if one.metric in known)
    return replace(spec, series=series)


def _turns(known: set[str], group: str) -> list[int]:
    pattern = re.compile(rf"{re.escape(group)}/turn_(\d+)")
    return sorted(int(match[1]) for name in known if (match := pattern.fullmatch(name)))


def _per_turn(known: set[str], group: str) -> tuple[SeriesSpec, ...]:
    return tuple(
        SeriesSpec(f"{group}/turn_{turn}", f"turn {turn}", str(turn % 10), (turn - 1) % 6 + 1)
        for turn in _turns(known, group)
    )


def _per_policy(known: set[str], metric: str, order: Sequence[str]) -> tuple[SeriesSpec, ...]:
    """One curve per policy, and one for all of them together where there are several."""
    suffix = f"/{metric}"
    names = sorted(
        name.removeprefix("policy/").removesuffix(suffix)
        for name in known
        if name.startswith("policy/") and name.endswith(suffix)
    )
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    own = tuple(
        SeriesSpec(f"policy/{name}{suffix}", name, key, i % 6 + 1)
        for i, (name, key) in enumerate(zip(names, letters(names), strict=True))
    )
    return own if len(names) == 1 else (*own, SeriesSpec(f"ppo{suffix}", "all", "*", _PLAIN))


def letters(names: Sequence[str]) -> tuple[str, ...]:
    """One letter per name: its first where that tells them apart, else numbers."""
    firsts = [name[:1] for name in names]
    if len(set(firsts)) == len(names) and all(f.isascii() and f.isalnum() for f in firsts):
        return tuple(firsts)
    return tuple("123456789abcdefghijklmnopqrstuvwxyz"[i % 35] for i in range(len(names)))


def part_letters(names: Sequence[str]) -> tuple[str, ...]:
    """One letter per name: the first of its own that none before it has, else any that is left."""
    taken: list[str] = []
    for name in names:
        own = [letter for letter in name.lower() if letter.isascii() and letter.isalnum()]
        free = (letter for letter in (*own, *_KEYS) if letter not in taken)
        taken.append(next(free, "·"))
    return tuple(taken)


def head_text(
    visible: Sequence[int], count: int, part: str, steps: tuple[int, int], crosshair: bool
) -> str:
    """The line above the charts: which of them, of which steps, and the keys that lead on."""
    which = f"{visible[0] + 1}–{visible[-1] + 1}" if len(visible) > 1 else str(visible[0] + 1)
    pieces = [f"charts {which} of {count}", f"{part}steps {steps[0]}–{steps[1]}"]
    if crosshair:
        pieces.append("←→ crosshair, ↑↓ chart")
    elif len(visible) < count:
        pieces.append("arrows: more")
    return " · ".join(pieces)
