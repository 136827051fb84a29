"""Which engine answers for which base."""

from __future__ import annotations

from maporl_core.assembly import assemble
from maporl_core.config.load import load_config
from maporl_core.kit.progress import Silent
from maporl_core.rollout.engine.in_process import HFEngine


def test_every_base_is_given_the_engine_that_it_names_or_that_of_the_run() -> None:
    sets = ["engine.max_batch=90", "bases.other.engine.max_batch=10"]
    parts = assemble(load_config("pocket-hetero", sets), Silent())
    rows = {
        name: engine.max_batch
        for name, engine in parts.engines.items()
        if isinstance(engine, HFEngine)
    }
    assert rows == {"main": 90, "other": 10}
    asked = {speaker.name: speaker.engine for speaker in parts.speakers}
    assert {id(asked[name]) for name in ("Ada", "Cy")} == {id(parts.engines["main"])}
    assert asked["Bo"] is parts.engines["other"]
