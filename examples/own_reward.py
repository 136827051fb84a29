"""Pay messages by a rule of one's own: a right answer, and more where others give it too.

python examples/own_reward.py          # 60 steps
python examples/own_reward.py 5        # fewer
"""

import sys

from pydantic import Field

import maporl_core as maporl
from maporl_core.config.kinds import Section, Weight
from maporl_core.types import Part, Pay, Place, Reason


class AgreeOptions(Section):
    agreed: Weight = Field(0.2, description="pay for each agent with the same right answer")


class Agree:
    says = "pays right answers, and more where others agree"
    Options = AgreeOptions
    parts = (Part("right", "the answer is right"), Part("agreed", "others gave it too"))
    needs = frozenset({"gold"})

    def __init__(self, options, by_score=False):
        self.options = options

    def pay(self, held):
        return {
            Place(d, m.turn, m.agent, m.branch): self.paid(discussion, m)
            for d, discussion in enumerate(held)
            for m in discussion.everything()
        }

    def paid(self, discussion, message):
        right = bool(message.correct)
        others = [
            m for m in discussion.said(message.turn) if m.agent != message.agent and m.correct
        ]
        return Pay({"right": float(right), "agreed": self.options.agreed * right * len(others)})

    def explain(self, discussion, place):
        message = discussion.at(place.turn, place.agent, place.branch)
        paid = self.paid(discussion, message).parts
        return tuple(Reason(part.name, paid[part.name], (part.says,)) for part in self.parts)

    def counts(self, held):
        return {}


maporl.registries["reward"].add("agree", Agree)
steps = sys.argv[1] if len(sys.argv) > 1 else "60"
changes = [f"train.steps={steps}", "reward.kind=agree", "reward.agreed=0.5", "name=agree"]
changes += sys.argv[3:]
run = maporl.train(
    maporl.load_config("pocket", changes), root=sys.argv[2] if len(sys.argv) > 2 else "runs"
)
for row in list(run.messages())[:3]:
    print(row["name"], row["answer"], row["correct"], row["reward/right"], row["reward/agreed"])
