"""Problems, rules and agents at a table: with scripted words or a small real model."""

from __future__ import annotations

from dataclasses import replace

from small import EOS, config, policies

from maporl_core.rollout.discussion import Judges, Rules, Speaker
from maporl_core.rollout.engine.base import Completion, Sampling
from maporl_core.rollout.engine.in_process import HFEngine
from maporl_core.rollout.topology import make_topology
from maporl_core.types import Problem

PROBLEMS = [Problem(f"p{i}", f"w{10 + i} w{20 + i}", "w5", "made-up", "train") for i in range(4)]


class ScriptedEngine:
    """Answers with given words and remembers what it was asked."""

    def __init__(self, codec, script):
        self.codec, self.script, self.asked = codec, script, []

    def generate(self, requests, sampling, on_tokens=None):
        self.asked.append(list(requests))
        turn = len(self.asked) - 1
        found = []
        for i, _request in enumerate(requests):
            text = self.script(turn, i)
            ids = [*self.codec.tokenizer(text, add_special_tokens=False)["input_ids"], EOS]
            if on_tokens is not None:
                on_tokens(i, ids[:1])
                on_tokens(i, ids)
            found.append(Completion(tuple(ids), (-1.0,) * len(ids), "stop"))
        return found

    def forget(self):
        self.asked.append("forgotten")


def judges(scores=0.5):
    def grade(text, problem):
        answer = text.split()[-1] if text.split() else None
        return answer, answer == problem.gold

    def score(items):
        return [scores(i.message) if callable(scores) else scores for i in items]

    return Judges(lambda p: p.question, grade, score, lambda a, b, p: a == b)


def rules(**changes):
    base = Rules(
        topology=make_topology(3),
        feedback=True,
        consensus_stop=False,
        style="compact",
        sampling=Sampling(1.0, 6),
        base_turns=1,
        seed=3,
        max_batch=64,
    )
    return replace(base, **changes)


def table(script, agents=2, context=512):
    run = config(agents=agents)
    made = policies(run)
    codec = made.bases["main"].codec
    engine = ScriptedEngine(codec, script)
    speakers = [
        Speaker(agent.name, agent.role, name, engine, codec, context)
        for agent, name in zip(run.agents, run.agent_policies(), strict=True)
    ]
    return engine, speakers


def real_table(agents=2, context=512, **changes):
    run = config(agents=agents, **changes)
    made = policies(run, perturb=0.05)
    base = made.bases["main"]
    engine = HFEngine(base, 64)
    return [
        Speaker(a.name, a.role, name, engine, base.codec, context)
        for a, name in zip(run.agents, run.agent_policies(), strict=True)
    ]
