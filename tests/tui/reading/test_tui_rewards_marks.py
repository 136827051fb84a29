"""The marks of a message where incentives judge by the score: both in the table, and why."""

from __future__ import annotations

import pytest
from rich.style import Style
from test_tui_why import PAYING, talk, texts

from maporl_core.config.load import load_config
from maporl_core.config.schema import RewardConfig, RunConfig
from maporl_core.judging.rewards.maporl import reward_discussion
from maporl_core.store.reader import DiscussionRow, MessageReward, StoredDiscussion
from maporl_core.types import REWARD_PARTS, Discussion, Place
from maporl_tui.reading.why import Account, account, explain_message
from maporl_tui.screens.rewards.table import cells, columns

SCORES = [[0.4, 0.9], [0.58, 1.0]]


def learned(held: Discussion, paying: RewardConfig = PAYING, edited: bool = False) -> Account:
    """The account of a debate that a learned verifier judged."""
    config = load_config("pocket-verifier").model_copy(update={"reward": paying})
    assert config.verifier.by_score
    parts = reward_discussion(held, RewardConfig() if edited else paying, True)
    rewards = {
        Place(1, t, a): MessageReward(p, 0.1, 0.2)
        for t, row in enumerate(parts)
        for a, p in enumerate(row)
    }
    row = DiscussionRow(
        *(1, 1, "train", None, "p", "How many?", held.problem.gold, held.agents, held.turns),
        *(held.stopped_early, False, False, False, False, False, ()),
    )
    found = account(StoredDiscussion(row, held, rewards, {}), RunConfig(**dict(config)))
    assert found is not None
    return found


def score_cell(paid: Account, turn: int, agent: int, wide: bool = False) -> str:
    message = paid.discussion.at(turn, agent)
    assert message is not None
    return cells(paid, message, wide, "", lambda _: Style())[1].text


@pytest.mark.parametrize(
    ("turn", "agent", "narrow", "wide"),
    [
        (0, 0, "✗0.40", "✗0.400"),  # wrong, and 0.4 counts as wrong
        (0, 1, "✗✓.90", "✗✓0.900"),  # wrong, but 0.9 counts as right
        (1, 0, "✓0.58", "✓0.580"),
        (1, 1, "✗✓1.0", "✗✓1.000"),
    ],
)
def test_the_table_has_both_marks_where_they_differ(
    turn: int, agent: int, narrow: str, wide: str
) -> None:
    paid = learned(talk(["ww", "rw"], SCORES))
    assert score_cell(paid, turn, agent).strip() == narrow
    assert score_cell(paid, turn, agent, wide=True).strip() == wide
    assert len(score_cell(paid, turn, agent)) == 5


def test_the_second_mark_is_explained_right_after_the_sum() -> None:
    lines = texts(explain_message(learned(talk(["ww", "rw"], SCORES)), 0, 1))
    assert lines[1] == (
        "answer ✗ wrong, but ✓ right, score 0.900 ≥ 0.5 for the incentives "
        "(a learned verifier decides)"
    )
    lines = texts(explain_message(learned(talk(["ww", "rw"], SCORES)), 0, 0))
    assert lines[1] == (
        "a learned verifier decides: for the incentives a message is right from score 0.5 on"
    )


@pytest.mark.parametrize(
    ("paying", "edited", "scores"),
    [
        (RewardConfig(), False, SCORES),  # no incentive pays
        (PAYING, True, SCORES),  # the stored incentives are not what the rules give now
    ],
)
def test_there_is_one_mark_where_no_explained_incentive_follows_the_score(
    paying: RewardConfig, edited: bool, scores: list[list[float]]
) -> None:
    paid = learned(talk(["ww", "rw"], scores), paying, edited)
    assert score_cell(paid, 0, 1).strip() == "✗0.90"
    assert not any("for the incentives" in line for line in texts(explain_message(paid, 0, 1)))


def test_a_message_without_an_answer_has_one_mark() -> None:
    paid = learned(talk(["nw", "rw"], [[0.9, 0.9], [0.9, 0.9]]))
    assert score_cell(paid, 0, 0).strip() == "✗0.90"


def test_the_narrow_table_and_its_scrollbar_fit_80_cells() -> None:
    assert sum(column.width for column in columns(REWARD_PARTS, wide=False)) <= 80
    # The last cell of a column is blank; the scrollbar covers that of the last one.
    paid = learned(talk(["ww", "rw"], SCORES))
    row = cells(paid, paid.messages[1], False, "", lambda _: Style())
    assert sum(len(cell.text) + 1 for cell in row) - 1 <= 80 - 1
