"""A worker that answers at once without a model, for tests of questions of one's own."""

from __future__ import annotations

from typing import Any

READY: dict[str, Any] = {
    "event": "ready",
    "sides": [
        {"run": "demo", "policy_state": state, "agents": ["Ada", "Bo"], "turns": 2}
        for state in ("base", "trained")
    ],
}

FAKE = """
import json, sys
def say(**event): print(json.dumps(event), flush=True)
say(event="stage", text="loading model", total=None)
say(**READY)
for line in sys.stdin:
    data = json.loads(line)
    if "cancel" in data:
        say(event="cancelled", ask=data["cancel"])
    elif data["question"] == "die":
        sys.stderr.write("RuntimeError: out of tea\\n"); sys.exit(3)
    elif data["question"] != "wait":
        ask = data["ask"]
        say(event="question", ask=ask, question=data["question"] or "held out", gold=data["gold"])
        for side in (0, 1):
            m = dict(agent=0, policy=None, text=f"side {side}", answer="7", correct=bool(side),
                     score=0.5, finish="stop", dropped_context=0)
            say(event="turn", ask=ask, side=side, turn=0, messages=[m, {**m, "agent": 1}])
            say(event="done", ask=ask, side=side, stopped_early=True, rewards=None)
        say(event="finished", ask=ask)
"""
FAKE = FAKE.replace("**READY", f"**{READY!r}")
"""The program of the worker: "die" kills it, "wait" is never answered."""
