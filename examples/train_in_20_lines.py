"""Co-train the built-in agents, then see what became of them.

python examples/train_in_20_lines.py          # as `maporl run`, 60 steps
python examples/train_in_20_lines.py 5        # fewer
"""

import sys

import maporl_core as maporl

steps = sys.argv[1] if len(sys.argv) > 1 else "60"
config = maporl.load_config("pocket", [f"train.steps={steps}", "eval.questions=100"])
run = maporl.train(config, root=sys.argv[2] if len(sys.argv) > 2 else "runs")

for evaluation in run.evaluations():
    by_turn = "  ".join(f"{turn.mean:.3f}" for turn in evaluation.summary.accuracy_T)
    print(f"{evaluation.summary.label:8} accuracy by turn: {by_turn}")
print(f"kept in {run.path}; look at it with: maporl-tui {run.path}")
