"""What the Rewards screen asks of the store, in the client's thread.

In: a ``StoreReader``.  Out: one debate with its account, or the run's reward parts made ready to be
drawn.  Neighbours: the screen asks through ``client.ask``; ``why`` makes the account, ``bars`` the
drawing.
"""

from __future__ import annotations

from dataclasses import dataclass

from maporl_core.store.reader import DiscussionFilter, StoredDiscussion, StoreReader
from maporl_core.types import Place
from maporl_tui.drawing.bars import Histogram, Point, spread
from maporl_tui.reading.view import RunView
from maporl_tui.reading.why import Account, account
from maporl_tui.reading.why_account import Spot, spot_of

LAST_STEPS = 50
"""Steps whose messages are in the histogram."""
MOST_VALUES = 10_000
TOTAL = "total"
"""The sum, which can be chosen like a part."""
_TRAINED = DiscussionFilter(split="train")


@dataclass(frozen=True, slots=True)
class Debate:
    """One debate; ``paid`` is None where no rewards are stored."""

    stored: StoredDiscussion
    paid: Account | None

    @property
    def key(self) -> int:
        return self.stored.row.id


@dataclass(frozen=True, slots=True)
class Charts:
    """Reward ``parts`` over all steps, and the spread of ``part`` over the last ones."""

    part: str
    parts: tuple[str, ...]
    points: tuple[Point, ...]
    found: Histogram
    first_step: int
    last_step: int

    @property
    def summary(self) -> str:
        """One line about the spread."""
        found = self.found
        if not found.count:
            return f"{self.part}: no rewards stored yet"
        steps = f"steps {self.first_step}–{self.last_step}"
        if self.first_step == self.last_step:
            steps = f"step {self.last_step}"
        line = (
            f"{self.part} mean {found.mean:.3f} · median {found.median:.3f} · "
            f">0 {found.positive:.0%} · <0 {found.negative:.0%} · {steps}, "
        )
        newest = "newest " if found.count == MOST_VALUES else ""
        return f"{line}{newest}{found.count:,} messages".replace("-", "−")


def read_debate(reader: StoreReader, key: int, view: RunView) -> Debate:
    """One debate.  Raises StoreError when there is none with this id."""
    stored = reader.discussion(key)
    declared = reader.reward_parts()
    return Debate(stored, account(stored, view.config, view.config_problem, declared))


def read_newest(reader: StoreReader, view: RunView) -> Debate | None:
    """The newest debate of training; None before the first step."""
    rows = reader.page(_TRAINED, limit=1)
    return read_debate(reader, rows[0].id, view) if rows else None


def read_beside(reader: StoreReader, key: int, later: bool, view: RunView) -> Debate | None:
    """The debate of training before or after this one; None at the end."""
    if later:
        rows = reader.page(_TRAINED, after=key, limit=1)
    else:
        rows = reader.page(_TRAINED, before=key, limit=1)
    return read_debate(reader, rows[0].id, view) if rows else None


def read_charts(reader: StoreReader, part: str, columns: int, last_step: int) -> Charts:
    """Everything the run's charts show, with at most about ``columns`` points."""
    means: dict[int, dict[str, float]] = {}
    parts = tuple(declared.name for declared in reader.reward_parts())
    for name in parts:
        series = reader.series(f"reward/{name}", points=columns)
        for step, mean in zip(series.steps, series.means, strict=True):
            means.setdefault(step, {})[name] = mean
    first = max(1, last_step - LAST_STEPS + 1)
    known = part in (*parts, TOTAL)
    values = reader.reward_values(part, first_step=first, limit=MOST_VALUES) if known else ()
    points = tuple(Point(step, means[step]) for step in sorted(means))
    return Charts(part, parts, points, spread(values), first, last_step)


def nearest_place(debate: Debate, wanted: Place | None) -> Spot:
    """The message of a debate that is most like the one that was looked at in another."""
    held = debate.stored.discussion
    spots = [spot_of(message) for message in held.everything()]
    if wanted is None or not spots:
        return spots[0] if spots else (0, 0, 0)
    turn = min(wanted.turn, held.turns - 1)
    return min(
        spots, key=lambda s: (abs(s[0] - turn), abs(s[1] - wanted.agent), abs(s[2] - wanted.branch))
    )
