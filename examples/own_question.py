"""Put a question to the agents of a run, from a script or a notebook.

python examples/own_question.py runs/pocket
"""

import sys

import maporl_core as maporl

run = maporl.load_run(sys.argv[1] if len(sys.argv) > 1 else "pocket")
question = "Mia has 12 pens, gets 7 or 9 and loses 4. How many?"

for state in ("base", "trained"):
    print(f"--- {state}")
    asked = maporl.debate(question, run, gold="17", state=state, temperature=0.0)
    for message in asked.discussion.everything():
        name = asked.discussion.agents[message.agent]
        print(f"turn {message.turn + 1}  {name}: {message.text}  (score {message.score:.2f})")
