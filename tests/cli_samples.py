"""Made-up evaluations, reports and discussions for the tests of the command line."""

from __future__ import annotations

from pay_samples import published

from maporl_core.types import (
    Discussion,
    EvalSummary,
    Finish,
    Interval,
    Message,
    PairedGain,
    Pay,
    Problem,
    StepReport,
)

HOSTILE = (
    "[/red] [a=b: c] f[i] [ans]42[/ans] \x1b[31mred\x1b[0m \x1bc\x1b]0;title\x07 a\rb \ud800 \x00"
)
HOSTILE_VISIBLE = "[/red] [a=b: c] f[i] [ans]42[/ans] red"


def summary(
    accuracy: tuple[float, ...] = (0.51, 0.50, 0.52), policy_state: str = "base", label: str = ""
) -> EvalSummary:
    turns = len(accuracy)
    return EvalSummary(
        label=label or ("before" if policy_state == "base" else "after"),
        policy_state=policy_state,
        task="pocket",
        split="test",
        questions=500,
        agents=("Ada", "Bo", "Cy"),
        temperature=1.0,
        seed=0,
        accuracy_T=tuple(Interval(a, a - 0.02, a + 0.02) for a in accuracy),
        accuracy_TA=tuple((a, a, a) for a in accuracy),
        majority_T=tuple(Interval(a, a - 0.03, a + 0.03) for a in accuracy),
        oracle_T=(0.8,) * turns,
        agreement_T=(0.3,) * turns,
        transitions={"wrong→right | others right": 12, "right→wrong | others wrong": 3},
        unparsable=0.0,
        unfinished=0.01,
        seconds=2.5,
    )


def gain() -> PairedGain:
    return PairedGain(
        summary(),
        summary((0.51, 0.66, 0.745), "trained"),
        (
            Interval(0.0, -0.01, 0.01),
            Interval(0.16, 0.13, 0.19),
            Interval(0.225, 0.192, 0.257),
        ),
    )


def report(step: int, steps: int = 10) -> StepReport:
    metrics = {
        "accuracy/turn_1": 0.5,
        "accuracy/turn_2": 0.5 + 0.02 * step,
        "accuracy/turn_3": 0.5 + 0.03 * step,
        "reward/total": 0.6,
        "ppo/kl": 0.0123,
        "speed/rollout_tokens_per_second": 8123.4,
        "speed/update_tokens_per_second": 9000.0,
    }
    return StepReport(step, steps, metrics, 2.0)


def message(
    turn: int, agent: int, text: str, correct: bool | None, finish: Finish = "stop"
) -> Message:
    return Message(
        turn=turn,
        agent=agent,
        policy=None if turn == 0 else "Ada",
        prompt_ids=(1, 2),
        ids=(3,),
        logprobs=(-0.5,),
        text=text,
        finish=finish,
        answer=text.split()[-1] if text.split() else None,
        correct=correct,
        score=None if correct is None else 0.25 + 0.5 * correct,
    )


def discussion(text: str = "the answer is 42", known: bool = True) -> Discussion:
    """Two agents, two turns; Ada corrects herself."""
    problem = Problem("p1", f"What is 6 x 7? {text}", "42" if known else None, "pocket", "test")
    verdicts = ((False, True), (True, True))
    return Discussion(
        problem,
        ("Ada", "Bo"),
        tuple(
            tuple(message(t, a, text, v if known else None) for a, v in enumerate(row))
            for t, row in enumerate(verdicts)
        ),
    )


def rewards() -> tuple[tuple[Pay, ...], ...]:
    part = published(own=0.45, influence=0.17, format=-0.1)
    return ((part, part), (published(own=0.9), published(own=0.8)))
