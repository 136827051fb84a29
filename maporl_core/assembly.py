"""From a config to all parts of a run: task, models, policies, engines, verifier, method, speakers.

In: a RunConfig.  Out: an ``Assembly``, holding discussions.  Neighbours: ``train``, ``evaluate``
and ``debate`` start from here; only they and this page know more than one stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from maporl_core.config.schema import RunConfig
from maporl_core.errors import DataError, MaporlError, ModelError
from maporl_core.judging.needs import check_engine, check_reward
from maporl_core.judging.rewards import make_scheme
from maporl_core.judging.rewards.base import RewardScheme
from maporl_core.judging.verifier.base import Verifier
from maporl_core.judging.verifier.chosen import make_verifier
from maporl_core.judging.verifier.learned import POLICY
from maporl_core.judging.verifier.placing import Placed, place, verifier_folder
from maporl_core.judging.verifier.saved import verifier_on
from maporl_core.judging.verifier.timed import TimedVerifier
from maporl_core.kit.progress import Progress
from maporl_core.kit.user_paths import user_path
from maporl_core.learning.methods.base import Method, RolloutPlan
from maporl_core.learning.methods.chosen import method_of
from maporl_core.learning.optimisers import check_optimiser
from maporl_core.models.adapter_files import load_adapter
from maporl_core.models.loading import load, resolve_device
from maporl_core.models.policy import Guest, LoadedModel, Policies
from maporl_core.rollout.discussion import Judges, Listeners, Rules, Speaker, hold, opening_threads
from maporl_core.rollout.engine import engine_offers, make_engine
from maporl_core.rollout.engine.base import Engine, Sampling
from maporl_core.rollout.topology import make_topology
from maporl_core.rollout.topology.base import Topology
from maporl_core.tasks.base import Task
from maporl_core.tasks.registry import make_task
from maporl_core.types import Discussion, Problem


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of one run, ready to discuss."""

    config: RunConfig
    task: Task
    policies: Policies
    engines: dict[str, Engine]  # by base
    verifier: TimedVerifier
    scheme: RewardScheme
    topology: Topology
    method: Method
    speakers: tuple[Speaker, ...]

    @property
    def turns(self) -> int:
        """Turns of the longest discussion."""
        return self.topology.longest(len(self.speakers), self.config.discussion.turns)

    def same(self, first: str, second: str, problem: Problem) -> bool:
        """Whether two answers to one problem are the same, by the task's own equivalence."""
        if first == second:
            return True
        return bool(self.task.is_correct(second, replace(problem, gold=first)))

    def judges(self, verifier: Verifier | None = None) -> Judges:
        score = (verifier or self.verifier).score

        def grade(text: str, problem: Problem) -> tuple[str | None, bool | None]:
            answer = self.task.extract(text)
            return answer, self.task.is_correct(answer, problem)

        return Judges(self.task.prompt, grade, score, self.same)

    def decode(self, agent: int, ids: Sequence[int]) -> str:
        """Token ids as one agent's tokenizer writes them, special tokens included."""
        tokenizer = self.speakers[agent].codec.tokenizer
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    def rules(
        self, seed: int, temperature: float, untrained: bool, plan: RolloutPlan | None = None
    ) -> Rules:
        """The config's rules; ``untrained`` lets the bare base speak in every turn.

        ``plan``: a training step's; without it every problem is discussed once, as at step 0.
        """
        discussion = self.config.discussion
        trained_from = (plan or self.method.plan(0)).base_turns
        return Rules(
            topology=self.topology,
            feedback=discussion.feedback,
            consensus_stop=discussion.consensus_stop,
            style=discussion.style,
            sampling=Sampling(temperature, discussion.max_new_tokens),
            base_turns=self.turns if untrained else trained_from,
            seed=seed,
            max_batch=self.config.discussions_at_once() * len(self.speakers),
            samples=plan.samples if plan else 1,
            candidates=plan.candidates if plan else 1,
        )

    def fitting(
        self, problems: Sequence[Problem], seats: Sequence[int]
    ) -> tuple[list[Problem], list[int]]:
        """Those problems (with their seats) whose question fits every agent's window.

        Raises ModelError, saying what to change, when none does.
        """
        kept: list[tuple[Problem, int]] = []
        refusal: ModelError | None = None
        judges, rules = self.judges(), self.rules(0, 1.0, untrained=True)
        for problem, seat in zip(problems, seats, strict=True):
            try:
                opening_threads(problem, self.speakers, judges, rules)
            except ModelError as error:
                refusal = error
            else:
                kept.append((problem, seat))
        if refusal is not None and not kept:
            raise refusal
        return [problem for problem, _ in kept], [seat for _, seat in kept]

    def sync(self) -> None:
        """Let the engines sample from the policies as they are now trained."""
        for base, engine in self.engines.items():
            policies = self.policies.bases[base].policies
            engine.sync({name: policy.version for name, policy in policies.items()})

    def close(self) -> None:
        """Let go of the engines."""
        for engine in self.engines.values():
            engine.close()

    def hold(
        self,
        problems: Sequence[Problem],
        seats: Sequence[int],
        rules: Rules,
        listeners: Listeners | None = None,
    ) -> list[Discussion]:
        return hold(problems, seats, self.speakers, self.judges(), rules, listeners)


def assemble(
    config: RunConfig, progress: Progress, verifier: Path | None = None, training: bool = False
) -> Assembly:
    """Load data and models.  Everything that needs a network happens in here.

    ``verifier``: a run's own copy of its learned verifier, in place of ``verifier.path``.  For
    ``training`` the engine and the reward must have what that takes, or nothing is loaded.
    Raises DataError, ModelError or ConfigError with what to do.
    """
    method = method_of(config)
    scheme = make_scheme(config.reward, config.verifier.by_score)
    plan = method.plan(0)
    if training:
        check_engine(config, plan.trained, engine_offers)
        check_reward(scheme.needs, plan.candidates)
    device = resolve_device(config.device)
    if training:
        check_optimiser(config.update, device)
    placed = None
    if config.verifier.on_model:
        placed = place(config, verifier or verifier_folder(config))
    progress.stage(f"loading task {config.task.name}")
    task = make_task(config.task)
    for split in (config.task.train_split, config.task.eval_split):
        if task.size(split) == 0:  # an unknown split raises by itself
            raise DataError(f"task {task.name}: its split {split!r} holds no problems")
    if training and "gold" in scheme.needs:
        first = task.problems(config.task.train_split, 0, 1, config.seed)[0]
        check_reward(scheme.needs, plan.candidates, gold=first.gold is not None)
    policies = _load_policies(config, device, placed, method.estimator.needs_values, progress)
    for name in policies.names():
        start_from = policies[name].config.adapter
        if start_from is not None:
            load_adapter(policies[name], user_path(start_from))
    spoken_on = {policies[name].base.name: policies[name].base for name in policies.names()}
    engines = {n: make_engine(base, config.engine_of(n)) for n, base in spoken_on.items()}
    speakers = []
    for agent, policy_name in zip(config.agents, config.agent_policies(), strict=True):
        base = policies[policy_name].base
        window = min(base.context, config.discussion.max_context or base.context)
        speakers.append(
            Speaker(agent.name, agent.role, policy_name, engines[base.name], base.codec, window)
        )
    scorer = TimedVerifier(_make_verifier(config, policies, placed))
    topology = make_topology(config.discussion.turns, config.topology)
    return Assembly(
        config, task, policies, engines, scorer, scheme, topology, method, tuple(speakers)
    )


def _load_policies(
    config: RunConfig,
    device: torch.device,
    placed: Placed | None,
    values: bool,
    progress: Progress,
) -> Policies:
    """Every base once, with all policies that stand on it, the verifier's among them.

    ``values``: agents' policies have value heads.
    """
    bases = {p.base: config.bases[p.base] for p in config.resolved_policies().values()}
    guest = None
    if placed is not None:
        if placed.apart is not None:
            bases[placed.base] = placed.apart
        refitted = config.verifier.refit_every > 0
        guest = Guest(POLICY, placed.saved.policy, placed.base, bases[placed.base], refitted)
    loaded: dict[str, LoadedModel] = {}
    for name, base in bases.items():
        what = (
            "the verifier's model" if placed and placed.base == name and placed.apart else "model"
        )
        progress.stage(f"loading {what} {base.model}")
        try:
            loaded[name] = load(base, device, config.seed)
        except MaporlError as error:
            if what == "model":
                raise
            raise type(error)(f"{what}: {error}") from error
    return Policies(config, loaded, guest, values=values)


def _make_verifier(config: RunConfig, policies: Policies, placed: Placed | None) -> Verifier:
    if placed is None:
        return make_verifier(config.verifier)
    made = verifier_on(policies.bases[placed.base], placed.saved, placed.folder)
    made.micro_tokens = config.update.verifier_tokens
    return made
