"""A run that is killed and resumed is the run that was not, bit for bit."""

from __future__ import annotations

from pathlib import Path

from commands import command, tiny
from kills.kill_resume import KINDS, kill_and_compare, table
from kills.killed_run import PHASES
from kills.run_account import account, differences


def test_killed_at_random_moments_and_resumed_equals_never_killed(tmp_path: Path) -> None:
    tallies = kill_and_compare(tmp_path, KINDS[:1], kills=4, seed=1, say=lambda _: None)
    (tally,) = tallies.values()
    assert tally.differing == []
    assert sum(tally.kills.values()) == 4
    assert len(tally.kills) >= 3  # different phases, chosen by what was hit least
    assert set(PHASES) < set(table(tallies).splitlines()[0].split(" | ")) | {"|"}


def test_any_difference_between_two_runs_is_seen(tmp_path: Path) -> None:
    runs = []
    for seed in (0, 1):
        root = tmp_path / str(seed)
        words = ("run", tiny(tmp_path), "--root", root, "--set", f"seed={seed}", "--steps", 1)
        words += ("--set", "discussion.max_new_tokens=12")  # whole messages: their pay differs
        assert command(tmp_path, *words)[0] == 0
        runs.append(account(root / "tiny"))
    assert differences(runs[0], runs[0]) == []
    assert set(differences(*runs)) >= {
        "adapters and value heads",
        "optimisers, KL coefficient and random states",
        "metrics",
        "discussions",
        "rewards",
        "evaluations",
    }
