"""Kills training runs at random moments, resumes them, and compares them with straight runs.

    python tests/kills/kill_resume.py --kills 50
    python tests/kills/kill_resume.py --kills 8 --kind "learned verifier" --out RESULT.json

In: a number of kills and a seed.  Out: a table per phase and per kind of run, and
``benchmarks/results/kill_resume.json``; exit code 1 if any resumed run differs from its straight
twin in a single bit.  Neighbours: ``killed_run`` is the process that is killed, ``run_account``
says what is compared.

Every kind of run is trained once without a break.  Its twin is killed with SIGKILL again and again:
a phase is chosen, the one that was hit least so far, and the kill comes at a random moment of a
random one of its occurrences.  Which phase it really hit is what the process said last.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from kills.run_account import account, differences

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "kill_resume.json"
STEPS = 12
BASE = f"""
extends = "{{preset}}"
[discussion]
turns = 2
style = "compact"
max_new_tokens = 8
[train]
steps = {STEPS}
problems_per_step = 2
[update]
epochs = 1
minibatches = 2
lr = 1e-3
[eval]
questions = 2
every = 4
[checkpoint]
every = 3
keep = 2
{{toml}}
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of run: a preset, keys changed, and more TOML."""

    name: str
    keys: Mapping[str, str] = field(default_factory=dict)
    preset: str = "pocket"
    toml: str = '[[agents]]\nname = "Ada"\n[[agents]]\nname = "Bo"\n'


_TEAM = '[policies.team]\n[[agents]]\nname = "Ada"\npolicy = "team"\n'
_TEAM += '[[agents]]\nname = "Bo"\npolicy = "team"\n'
_DROPOUT = '[policies.Ada]\ndropout = 0.1\n[[agents]]\nname = "Ada"\npolicy = "Ada"\n'
_DROPOUT += '[[agents]]\nname = "Bo"\n'

KINDS = (
    Kind("noisy verifier, save every 3 steps", {"verifier.kind": "noisy"}),
    Kind("rule verifier, save every step", {"verifier.kind": "rule", "checkpoint.every": "1"}),
    Kind("one shared policy", toml=_TEAM),
    Kind("two bases", preset="pocket-hetero"),
    Kind("adaptive KL coefficient", {"method.kl_target": "0.05", "method.kl_horizon": "100"}),
    Kind("all turns trained, dropout", {"train.train_turns": "all"}, toml=_DROPOUT),
    Kind("falling learning rate, one agent", {"update.schedule": "cosine",
                                              "update.warmup_steps": "3",
                                              "train.train_agents": '["Ada"]'}),
    Kind("saved at the end only", {"checkpoint.every": "0"}),
    Kind("learned verifier, fitted anew", {"verifier.refit_every": "2", "task.options.lean": "0.5",
                                           "train.problems_per_step": "60"},
         preset="pocket-verifier"),
)  # fmt: skip


@dataclass(slots=True)
class Tally:
    """What happened to one kind of run."""

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    differing: list[str] = field(default_factory=list)


class Killer:
    """Trains, kills and resumes runs below ``root``."""

    def __init__(self, root: Path, seed: int) -> None:
        from kills.killed_run import PHASES, attempt

        self.root, self.dice = root, random.Random(seed)
        self.phases, self._attempt = PHASES, attempt
        self.hits: Counter[str] = Counter()
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["kills.killed_run"])

    def compare(self, kind: Kind, kills: int) -> Tally:
        """Straight against killed and resumed, until ``kills`` kills have hit."""
        config = self._config(kind)
        straight = self.root / "straight" / config.stem
        self._go(config, straight, None)
        wanted = account(straight)
        tally = Tally()
        while sum(tally.kills.values()) < kills:
            cut = self.root / f"cut-{tally.runs}" / config.stem
            left = kills - sum(tally.kills.values())
            for _ in range(left):
                phase = self._go(config, cut, self._moment())
                if phase is None:
                    break
                self.hits[phase] += 1
                tally.kills[phase] += 1
            else:
                self._go(config, cut, None)
            tally.runs += 1
            tally.differing += differences(wanted, account(cut))
            shutil.rmtree(cut.parent)
        return tally

    def _config(self, kind: Kind) -> Path:
        from maporl_core.config.load import dump_toml, load_config

        raw = self.root / "raw.toml"
        raw.write_text(BASE.format(preset=kind.preset, toml=kind.toml), encoding="utf-8")
        changes = [f"{key}={value}" for key, value in kind.keys.items()]
        name = "-".join(kind.name.replace(",", "").split())
        path = self.root / f"{name}.toml"
        path.write_text(dump_toml(load_config(raw, changes, name=name)), encoding="utf-8")
        return path

    def _moment(self) -> tuple[str, int, float]:
        """(phase, its how-manieth occurrence, share of the phase's usual length)."""
        fewest = min(self.hits[phase] for phase in self.phases)
        phase = self.dice.choice([p for p in self.phases if self.hits[p] == fewest])
        return phase, self.dice.randint(1, 3), self.dice.random()

    def _go(self, config: Path, run: Path, moment: tuple[str, int, float] | None) -> str | None:
        """Start or go on; the phase in which it was killed, None when it came to its end."""
        words = ["run", str(config), "--name", run.name, "--root", str(run.parent), "--resume"]
        log = self.root / "output.txt"
        mine, its = self._context.Pipe(duplex=False)
        child = self._context.Process(target=self._attempt, args=(words, its, log))
        child.start()
        its.close()
        phase = self._follow(child, mine, moment)
        child.join()
        if child.exitcode == -9:
            return phase
        if child.exitcode:
            raise RuntimeError(
                f"{config.stem} ended with exit code {child.exitcode}:\n"
                + log.read_text("utf-8", "replace")[-3000:]
            )
        return None

    def _follow(self, child: Any, pipe: Any, moment: tuple[str, int, float] | None) -> str:
        """Read what phase the process is in, and kill it at the moment; the last phase it named."""
        phase, since, seen = "", time.perf_counter(), 0
        while True:
            try:
                now = pipe.recv_bytes().decode()
            except EOFError:
                return phase
            if moment is None and phase:
                self.seconds[phase].append(time.perf_counter() - since)
            phase, since = now, time.perf_counter()
            if moment is not None and phase == moment[0]:
                seen += 1
                last = phase in ("loading", "final adapters")  # happens once in a process
                if seen == moment[1] or last:
                    time.sleep(moment[2] * self._usual(phase))
                    child.kill()
                    moment = None if not child.is_alive() else ("", 0, 0.0)

    def _usual(self, phase: str) -> float:
        times = sorted(self.seconds[phase])
        return times[len(times) // 2] if times else 0.0


def kill_and_compare(
    root: Path, kinds: tuple[Kind, ...], kills: int, seed: int, say: Any = print
) -> dict[str, Tally]:
    """Spread ``kills`` kills over the kinds; tallies by name."""
    killer, tallies = Killer(root, seed), {}
    for place, kind in enumerate(kinds):
        share = kills // len(kinds) + (place < kills % len(kinds))
        tallies[kind.name] = tally = killer.compare(kind, share)
        verdict = f"DIFFERS in {', '.join(tally.differing)}" if tally.differing else "equal"
        say(f"{kind.name}: {share} kills over {tally.runs} runs: {verdict}")
    return tallies


def table(tallies: Mapping[str, Tally]) -> str:
    """Kinds of runs × phases hit, as Markdown."""
    from kills.killed_run import BETWEEN, PHASES

    phases = (*PHASES, BETWEEN)
    lines = [f"| run | {' | '.join(phases)} | kills | resumed run equal |"]
    lines.append("|---" * (len(phases) + 3) + "|")
    total: Counter[str] = Counter()
    for name, tally in tallies.items():
        total += tally.kills
        equal = "no: " + ", ".join(tally.differing) if tally.differing else "yes"
        counts = " | ".join(str(tally.kills[phase]) for phase in phases)
        lines.append(f"| {name} | {counts} | {sum(tally.kills.values())} | {equal} |")
    counts = " | ".join(str(total[phase]) for phase in phases)
    lines.append(f"| all | {counts} | {sum(total.values())} | |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only kinds of run whose name holds this")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="maporl-kill-") as folder:
        kinds = tuple(kind for kind in KINDS if options.kind in kind.name)
        tallies = kill_and_compare(Path(folder), kinds, options.kills, options.seed)
    seconds = time.perf_counter() - started
    print(f"\n{table(tallies)}\n\n{options.kills} kills, {seconds:.0f} s, seed {options.seed}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "kills": options.kills,
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "kinds": {
            name: {"kills": dict(t.kills), "runs": t.runs, "differing": t.differing}
            for name, t in tallies.items()
        },
    }
    options.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return int(any(tally.differing for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
