"""One debate as a file: Markdown to read, JSON for machines.

In: a ``Debate``, and the rewards of a stored one.  Out: text.  Pure.  Neighbours: the Debate screen
asks for the path; the file's ending chooses the form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maporl_core.kit.finite import finite
from maporl_core.store.reader import MessageReward
from maporl_core.types import Place
from maporl_tui.drawing.text import one_line, safe
from maporl_tui.reading.debate_records import Debate, Said

Rewards = Mapping[Place, MessageReward] | None


def debate_file(path: Path, run: str, debate: Debate, rewards: Rewards) -> str:
    """The debate for ``path``: JSON when it ends in ``.json``, else Markdown."""
    if path.suffix.lower() == ".json":
        return debate_json(run, debate, rewards)
    return debate_markdown(run, debate, rewards)


def debate_json(run: str, debate: Debate, rewards: Rewards) -> str:
    """One JSON object; text is exactly as stored, and turns and agents count from 1."""
    return (
        json.dumps(
            {
                "run": run,
                "id": debate.key,
                "step": debate.step,
                "split": debate.split,
                "evaluation": debate.label,
                "problem_id": debate.problem_id,
                "question": debate.question,
                "gold": debate.gold,
                "agents": list(debate.agents),
                "stopped_early": debate.stopped_early,
                "turns": [
                    [
                        _message_json(said, _paid(rewards, debate.key, said))
                        for said in debate.row(turn)
                    ]
                    for turn in range(debate.turns)
                ],
            },
            indent=2,
            allow_nan=False,
        )
        + "\n"
    )


def _message_json(said: Said, paid: MessageReward | None) -> dict[str, Any]:
    reward: dict[str, Any] | None = None
    if paid is not None:
        reward = {name: finite(value) for name, value in paid.pay.parts.items()}
        reward |= {
            "total": finite(paid.pay.total),
            "advantage": finite(paid.advantage),
            "kl": finite(paid.kl),
        }
    elif said.reward is not None:
        reward = {"total": finite(said.reward)}
    found = {
        "turn": said.turn + 1,
        "agent": said.agent + 1,
        "name": said.name,
        "text": said.text,
        "answer": said.answer,
        "correct": said.correct,
        "score": finite(said.score),
        "change": said.change,
        "finish": said.finish,
        "dropped_context": said.dropped,
        "status": said.status,
        "reward": reward,
    }
    if said.number:
        found |= {"branch": said.branch + 1, "chosen": said.chosen}
    return found | ({"phase": said.phase} if said.phase else {})


def debate_markdown(run: str, debate: Debate, rewards: Rewards) -> str:
    """A page of Markdown; what models wrote stands in code blocks, so that it stays as written."""
    number = "being written" if debate.key is None else f"debate {debate.key}"
    split = debate.split if debate.label is None else f"{debate.split} {one_line(debate.label)}"
    lines = [
        f"# {inline(run)}: {number}",
        "",
        f"step {debate.step}, {inline(split)}, problem {inline(debate.problem_id)}",
        "",
        *_block(debate.question),
        "",
    ]
    if debate.gold is not None:
        lines += [f"Gold answer: {inline(debate.gold)}", ""]
    for turn in range(debate.turns):
        lines += [f"## Turn {turn + 1}", ""]
        for said in debate.row(turn):
            lines += [
                f"### {inline(said.name)}{said.number}{_phase(said)}",
                "",
                _verdict(said, _paid(rewards, debate.key, said)),
                "",
            ]
            lines += [*_block(said.text), ""]
    if debate.stopped_early:
        lines += ["All agents agreed: the discussion stopped here.", ""]
    return "\n".join(lines)


def _phase(said: Said) -> str:
    return f" ({inline(said.phase)})" if said.phase else ""


def _verdict(said: Said, paid: MessageReward | None) -> str:
    if not said.is_over:
        return said.status
    word = {True: "right", False: "wrong", None: "not known to be right or wrong"}[said.correct]
    answer = "no answer" if said.answer is None else f"answer {inline(said.answer)}"
    parts = [f"{said.mark} {answer}", word]
    if said.score is not None:
        parts.append(f"score {said.score:.3f}")
    if said.change is not None:
        parts.append(said.change)
    if said.finish == "length":
        parts.append("unfinished: cut at the length limit")
    if said.dropped:
        parts.append(f"{said.dropped} prompt tokens dropped")
    if paid is not None:
        own = [(name, value) for name, value in paid.pay.parts.items() if value]
        sums = " ".join(f"{name} {value:+.3f}" for name, value in own)
        parts.append(f"reward {paid.pay.total:+.3f}" + (f" ({sums})" if len(own) > 1 else ""))
    elif said.reward is not None:
        parts.append(f"reward {said.reward:+.3f}")
    return ", ".join(parts)


def _paid(rewards: Rewards, key: int | None, said: Said) -> MessageReward | None:
    if rewards is None or key is None:
        return None
    return rewards.get(Place(key, said.turn, said.agent, said.branch))


def _block(text: str) -> list[str]:
    """``text`` in a fence that is longer than any in it."""
    text = safe(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + "text", text, fence]


def inline(text: str) -> str:
    """One line of text that no Markdown is read in."""
    return re.sub(r"([\\`*_{}\[\]<>()#|~!])", r"\\\1", one_line(text, 500))
