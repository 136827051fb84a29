"""The watched discussion on its way to the store."""

from __future__ import annotations

import pytest

from maporl_core.runs.live_feed import Watch
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.writer import StoreWriter
from maporl_core.types import Discussion, Message, Pay, Place, Problem

PROBLEM = Problem("p", "why?", "1", "t", "train")


class Stop(Exception):
    pass


def message(turn, agent, text):
    return Message(turn, agent, None, (2,), (3,), (-1.0,), text, "stop", "1", True, 0.75)


@pytest.fixture
def run(tmp_path):
    return RunDir.create(tmp_path, "r", "", {"steps": "3"})


def test_text_grows_then_is_scored_then_paid(run):
    with StoreWriter(run) as store, StoreReader(run) as reader:
        watch = Watch(store.live, 2, PROBLEM, ("Ada", "Bo"), 1, lambda: None)
        heard = watch.listeners()
        assert heard.watched == {0}
        heard.text(0, 0, 0, "be")
        assert [(m.agent, m.status, m.text) for m in reader.live().messages] == [
            (0, "writing", "be")
        ]
        row = (message(0, 0, "because"), message(0, 1, "so"))
        heard.spoken(0, row)
        assert [(m.status, m.text, m.score) for m in reader.live().messages] == [
            ("scored", "because", 0.75),
            ("scored", "so", 0.75),
        ]
        held = Discussion(PROBLEM, ("Ada", "Bo"), (row,))
        paid = {Place(0, 0, 0): Pay({"own": 0.5}), Place(0, 0, 1): Pay({"own": 0.25})}
        watch.end(held, paid, 7)
        live = reader.live()
    assert live.step == 2
    assert live.discussion == 7
    assert [m.reward for m in live.messages] == [0.5, 0.25]


def test_growing_text_is_written_at_most_five_times_a_second(run, monkeypatch):
    clock = iter([0.0] + [0.01 * i for i in range(1, 100)])
    monkeypatch.setattr("maporl_core.runs.live_feed.time.monotonic", lambda: next(clock))
    with StoreWriter(run) as store:
        watch = Watch(store.live, 1, PROBLEM, ("Ada",), 1, lambda: None)
        written = []
        monkeypatch.setattr(store.live, "update", written.append)
        for i in range(90):
            watch.listeners().text(0, 0, 0, "x" * i)
    assert len(written) == 5  # 0.9 seconds of text, the first write at once


def test_a_stop_is_heard_with_the_next_token(run):
    def stop():
        raise Stop

    with StoreWriter(run) as store:
        watch = Watch(store.live, 1, PROBLEM, ("Ada",), 1, stop)
        with pytest.raises(Stop):
            watch.listeners().text(0, 0, 0, "b")
