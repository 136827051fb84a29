"""What was paid for, and did it help?  A run's messages and metrics as tables.

python examples/read_a_run_into_pandas.py runs/pocket
"""

import sys

import pandas as pd

import maporl_core as maporl

run = maporl.load_run(sys.argv[1] if len(sys.argv) > 1 else "pocket")
messages = pd.DataFrame(run.messages())
parts = [name for name in messages.columns if name.startswith("reward/")]

print(messages.groupby(["turn", "name"])[["correct", "score", "reward"]].mean().round(3))
print(messages.groupby("turn")[parts].mean().round(4))

metrics = pd.DataFrame(run.metrics(), columns=["step", "name", "value"])
table = metrics.pivot(index="step", columns="name", values="value")
print(table.filter(regex="^accuracy/turn").tail().round(3))
