"""Train on questions of one's own making: which of two numbers is larger.

python examples/own_task.py          # 60 steps
python examples/own_task.py 5        # fewer
"""

import random
import re
import sys

from pydantic import Field

import maporl_core as maporl
from maporl_core.config.kinds import Count, Section
from maporl_core.types import Problem


class LargerOptions(Section):
    largest: Count = Field(99, description="largest number asked about")


class Larger:
    name = "larger"
    says = "which of two numbers is larger"
    Options = LargerOptions

    def __init__(self, options):
        self.largest = options.largest

    def splits(self):
        return ("train", "test")

    def size(self, split):
        return None  # endless

    def problems(self, split, start, count, seed):
        return [self.problem(split, position, seed) for position in range(start, start + count)]

    def problem(self, split, position, seed):
        draw = random.Random(f"{split} {position} {seed}")
        a, b = draw.sample(range(self.largest + 1), 2)
        question = f"Which is larger, {a} or {b}?"
        return Problem(f"{split}-{position}", question, str(max(a, b)), self.name, split)

    def prompt(self, problem):
        return f"{problem.question} Answer with the number."

    def extract(self, text):
        found = re.findall(r"[0-9]+", text)
        return found[-1] if found else None

    def is_correct(self, answer, problem):
        return answer is not None and answer.lstrip("0") == problem.gold.lstrip("0")

    def dropped(self):
        return {}


maporl.registries["task"].add("larger", Larger)
steps = sys.argv[1] if len(sys.argv) > 1 else "60"
changes = [f"train.steps={steps}", "task.name=larger", "task.largest=20", "name=larger"]
changes += sys.argv[3:]
run = maporl.train(
    maporl.load_config("pocket", changes), root=sys.argv[2] if len(sys.argv) > 2 else "runs"
)
for row in list(run.messages())[:3]:
    print(row["question"], row["answer"], row["correct"])
