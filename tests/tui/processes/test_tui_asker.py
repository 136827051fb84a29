"""The app's side of the pipe to the worker: order, cancel, crashes, nothing left over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maporl_tui.processes.asker import Asker, worker_command

ECHO = """
import json, sys, time
print(json.dumps({"event": "ready"}), flush=True)
for line in sys.stdin:
    data = json.loads(line)
    if "cancel" in data:
        print(json.dumps({"event": "cancelled", "ask": data["cancel"]}), flush=True)
    elif data["question"] == "die":
        sys.stderr.write("Traceback\\nRuntimeError: out of tea\\n"); sys.exit(3)
    elif data["question"] == "long":
        print(json.dumps({"event": "text", "text": "x" * 5_000_000}), flush=True)
    elif data["question"] == "noise":
        print("no json at all", flush=True)
        sys.stderr.write("y" * 200_000); sys.stderr.flush()
        print(json.dumps({"event": "finished", "ask": data["ask"]}), flush=True)
    else:
        print(json.dumps({"event": "finished", "ask": data["ask"], "got": data}), flush=True)
"""


class Heard(list[dict[str, Any]]):
    async def until(self, kind: str, seconds: float = 20.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for event in self:
                if event["event"] == kind:
                    return event
            await asyncio.sleep(0.01)
        raise AssertionError(f"no {kind!r} among {list(self)}")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def fake(heard: Heard) -> Callable[[str], Asker]:
    return lambda code=ECHO: Asker(["a::base"], heard.append, [sys.executable, "-c", code])


async def test_a_question_goes_over_whole_and_its_answer_comes_back(
    fake: Callable[..., Asker], heard: Heard
) -> None:
    asker = fake()
    await asker.start()
    number = await asker.ask("Wie viele \ud800 ☃ \x1b[31m?", gold="7", temperature=0.0, seed=3)
    event = await heard.until("finished")
    assert event["ask"] == number == 1
    assert event["got"]["question"] == "Wie viele \ud800 ☃ \x1b[31m?"
    assert (event["got"]["gold"], event["got"]["temperature"], event["got"]["seed"]) == ("7", 0, 3)
    assert [e["event"] for e in heard] == ["ready", "finished"]
    await asker.close()
    assert not asker.alive
    assert [e["event"] for e in heard] == ["ready", "finished"], "an end that was wanted is no news"


async def test_a_message_of_megabytes_is_one_event(
    fake: Callable[..., Asker], heard: Heard
) -> None:
    asker = fake()
    await asker.start()
    await asker.ask("long")
    assert len((await heard.until("text"))["text"]) == 5_000_000
    await asker.close()


async def test_a_chatty_worker_neither_blocks_nor_confuses(
    fake: Callable[..., Asker], heard: Heard
) -> None:
    asker = fake()
    await asker.start()
    await asker.ask("noise")
    await heard.until("finished")
    await asker.close()


async def test_a_worker_that_dies_says_its_last_words(
    fake: Callable[..., Asker], heard: Heard
) -> None:
    asker = fake()
    await asker.start()
    await asker.ask("die")
    assert "RuntimeError: out of tea" in (await heard.until("gone"))["text"]
    with pytest.raises(ConnectionError):
        await asker.ask("again")
    await asker.cancel(1)
    await asker.close()


async def test_a_problem_told_before_the_end_is_not_told_twice(heard: Heard) -> None:
    code = (
        'import json, sys; print(json.dumps({"event": "problem", "ask": None, "text": "no run"}));'
        " sys.exit(2)"
    )
    asker = Asker(["a::base"], heard.append, [sys.executable, "-c", code])
    await asker.start()
    await heard.until("problem")
    await asker.close()
    assert [e["event"] for e in heard] == ["problem"]


async def test_a_worker_that_will_not_leave_is_killed(heard: Heard) -> None:
    code = (
        "import signal, time, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'print(\'{"event": "ready"}\', flush=True)\ntime.sleep(600)\n'
    )
    asker = Asker(["a::base"], heard.append, [sys.executable, "-c", code])
    await asker.start()
    await heard.until("ready")
    await asker.close(patience=0.2)
    assert not asker.alive


async def test_a_side_that_is_no_run_is_a_problem_with_its_reason(
    heard: Heard, tmp_path: Path
) -> None:
    asker = Asker([f"{tmp_path}/none::base"], heard.append)
    assert worker_command(["x"])[-1] == "x"
    await asker.start()
    assert "no run 'none'" in (await heard.until("problem", 60.0))["text"]
    await asker.close()


def test_a_killed_app_leaves_no_worker(tmp_path: Path) -> None:
    code = textwrap.dedent(
        f"""
        import asyncio, sys
        from maporl_tui.processes.asker import Asker
        async def main():
            asker = Asker(["a::base"], lambda e: print(e["event"], flush=True),
                          [sys.executable, "-c", {ECHO!r}])
            await asker.start()
            print(asker._process.pid, flush=True)
            await asyncio.sleep(600)
        asyncio.run(main())
        """
    )
    app = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    lines = {app.stdout.readline().strip(), app.stdout.readline().strip()}
    worker = int(next(line for line in lines if line.isdecimal()))
    os.kill(app.pid, signal.SIGKILL)
    app.wait()
    end = time.monotonic() + 20
    while time.monotonic() < end and Path(f"/proc/{worker}/cmdline").exists():
        if Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    else:
        assert not Path(f"/proc/{worker}/cmdline").exists()


async def test_a_question_to_a_worker_that_left_is_refused_with_its_last_words(
    fake: Callable[..., Asker], heard: Heard
) -> None:
    told = '{"event": "problem", "ask": null, "text": "no adapters yet"}'
    asker = fake(f"print('{told}'); raise SystemExit(5)")
    await asker.start()
    await heard.until("problem")
    end = time.monotonic() + 20
    while asker.alive and time.monotonic() < end:
        await asyncio.sleep(0.01)
    with pytest.raises(ConnectionError, match="no adapters yet"):
        await asker.ask("Why?")
    await asker.close()
