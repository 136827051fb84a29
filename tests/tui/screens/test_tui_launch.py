"""The Launch form: fields, problems, the same run as a command line; and its screen."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import ClassVar

import pytest
import typer
from textual.widgets import OptionList, Static
from tui_samples import demo_run, own_settings, run_app, screen_text, shown, until

from maporl_core.cli import main as cli
from maporl_core.config.keys import leaf_keys
from maporl_core.config.load import load_config, plain, preset_names
from maporl_core.config.schema import RunConfig
from maporl_core.errors import ConfigError
from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.processes.forecast import Forecast, read_answer
from maporl_tui.processes.launcher import Order
from maporl_tui.screens.dialogs import Ask, Confirm
from maporl_tui.screens.launch import showing as launch
from maporl_tui.screens.launch.choose import Choose
from maporl_tui.screens.launch.clamped import clamped
from maporl_tui.screens.launch.form import Form, section_names
from maporl_tui.screens.launch.form_field import FieldRow
from maporl_tui.screens.launch.form_values import parse, show, takes

__all__ = ["own_settings"]
pytestmark = pytest.mark.usefixtures("own_settings")


def described_by(line: str) -> RunConfig:
    """The run that a command line describes, read by the real parser of ``maporl run``."""
    words = shlex.split(line)
    assert words[:2] == ["maporl", "run"]
    group = typer.main.get_command(cli.app)
    command = group.commands["run"]  # type: ignore[attr-defined]
    found = command.make_context("run", words[2:]).params
    return load_config(found["source"], found["overrides"] or (), name=found["name"])


def same(a: RunConfig, b: RunConfig) -> bool:
    """Equal, the order of bases and policies included."""
    return json.dumps(plain(a)) == json.dumps(plain(b))


def words_of(text: str) -> str:
    return " ".join(text.split())


# The form ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", preset_names())
def test_an_untouched_form_is_its_source(preset: str) -> None:
    form = Form(preset)
    assert form.words() == ()
    assert same(form.config(), load_config(preset))
    assert form.command_line() == f"maporl run {preset}"


@pytest.mark.parametrize("preset", preset_names())
def test_what_a_field_shows_is_read_as_the_same_value(preset: str) -> None:
    form = Form(preset)
    for section in section_names():
        for field in form.fields(section):
            value = form.value(field.path)
            if takes(field.path).kind not in ("switch", "select"):
                assert parse(field.path, show(field.path, value)) == value, field.key


def test_every_key_of_the_config_is_a_field() -> None:
    form = Form("pocket-hetero")
    keys = {field.fact.key for section in section_names() for field in form.fields(section)}
    assert keys == set(leaf_keys())


CHANGES: tuple[tuple[str, tuple[str | int, ...], object], ...] = (
    ("pocket", ("train", "steps"), 7),
    ("pocket", ("update", "lr"), 1e-5),
    ("pocket", ("name",), "my-run"),
    ("pocket", ("seed",), 2**63 - 1),
    ("pocket", ("discussion", "feedback"), False),
    ("pocket", ("update", "schedule"), "cosine"),
    ("pocket", ("bases", "main", "quantize"), "none"),
    ("pocket", ("bases", "main", "engine", "kind"), "in_process"),
    ("pocket-hetero", ("bases", "other", "engine", "max_batch"), 64),
    ("pocket", ("task", "path"), "a b/'c' \"d\" $HOME/*.jsonl"),
    ("pocket", ("task", "path"), "  spaces  "),
    ("pocket", ("task", "question_key"), "=[x"),
    ("pocket", ("task", "answer_key"), "123"),
    ("pocket", ("task", "options"), {"min value": 1, "words": ["a", "b"], "deep": {"x": 1.5}}),
    ("pocket", ("task", "rounds"), [3, 1]),
    ("pocket", ("train", "train_agents"), ["Ada", "Bo"]),
    ("pocket", ("train", "train_agents"), []),
    ("pocket", ("agents", 1, "role"), 'Doubt everything: "why?" # [no]\t\\ é 漢字'),
    ("pocket", ("agents", 0, "role"), "line one\nline two"),
    ("pocket", ("agents", 2, "name"), "7"),
    ("gsm8k", ("task", "limit"), 10),
    ("gsm8k", ("method", "kl_target"), None),
    ("pocket-hetero", ("policies", "Bo", "target_modules"), ["q_proj", "v_proj"]),
)


@pytest.mark.parametrize(("preset", "path", "value"), CHANGES)
def test_the_command_line_is_the_same_run(
    preset: str, path: tuple[str | int, ...], value: object
) -> None:
    form = Form(preset)
    form.set(path, value)
    assert same(described_by(form.command_line()), form.config())


def test_a_section_of_a_row_goes_with_its_last_key() -> None:
    form = Form("pocket")
    form.set(("bases", "main", "engine", "max_batch"), 64)
    form.set(("bases", "main", "engine", "max_batch"), None)
    assert form.words() == ()


def test_rows_that_come_and_go_are_the_same_run_as_a_command_line() -> None:
    form = Form("pocket-hetero")
    form.add("agents", "Di.1")
    form.add("policies", "twin.2")
    form.add("bases", "third")
    form.set(("policies", "twin.2", "base"), "third")
    form.set(("agents", 3, "policy"), "twin.2")
    assert same(described_by(form.command_line()), form.config())
    form.remove("agents", 0)
    form.remove("policies", "Bo")
    form.remove("bases", "other")
    assert same(described_by(form.command_line()), form.config())
    form.remove("bases", "main")
    form.data["policies"] = {"twin.2": form.data["policies"]["twin.2"]}
    assert same(described_by(form.command_line()), form.config())


def test_a_table_whose_first_row_changes_place_is_written_whole() -> None:
    form = Form("pocket")
    form.data["bases"] = {"new": {"model": "pocket-b"}, "main": form.data["bases"]["main"]}
    assert next(iter(described_by(form.command_line()).bases)) == "new"


def test_a_taken_or_missing_name_of_a_row_is_refused() -> None:
    form = Form("pocket")
    for name in ("Ada", " ", ""):
        with pytest.raises(ConfigError):
            form.add("agents", name)


def test_problems_stand_at_their_keys() -> None:
    form = Form("pocket")
    form.set(("train", "steps"), parse(("train", "steps"), "many"))
    form.set(("update", "lr"), parse(("update", "lr"), "-1"))
    problems = form.problems()
    assert problems["train.steps"] == "must be a whole number (got 'many')"
    assert problems["update.lr"] == "must be above 0 (got -1)"
    form.reset(("train", "steps"))
    form.reset(("update", "lr"))
    assert form.problems() == {}
    assert form.words() == ()


def test_changed_fields_are_counted_per_section() -> None:
    form = Form("pocket")
    form.set(("update", "lr"), 0.5)
    form.set(("update", "epochs"), 9)
    assert form.changed(("update", "lr"))
    assert form.changes("update") == 2
    assert form.changes("train") == 0


def test_a_filter_finds_keys_and_meanings_in_all_sections() -> None:
    keys = {field.key for field in Form("pocket").found("LEARNING rate")}
    assert {"update.lr", "update.warmup_steps", "update.schedule"} <= keys
    assert "train.steps" not in keys


# The forecast ------------------------------------------------------------------------------------


def test_a_forecast_names_memory_and_errors_first() -> None:
    answer = {
        "ok": False,
        "findings": [{"level": "warning", "text": "w"}, {"level": "error", "text": "e"}],
        "device": {"kind": "cpu", "free": 8e9},
        "forecast": {"peak": 2e9, "checkpoint": 1e6},
    }
    found = read_answer(json.dumps(answer), "")
    assert found == Forecast(
        "about 2.0 GB of 8.0 GB free on cpu, 1 MB a checkpoint · ✗ e · ! w", ok=False
    )


def test_a_doctor_that_fails_is_one_line() -> None:
    assert read_answer("", "x\nmaporl: bad\n") == Forecast("no forecast: bad", ok=False)
    assert read_answer("{", "") == Forecast("no forecast: the doctor gave no answer")


# The screen --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the doctor was asked; it answers at once."""
    calls: list[tuple[str, ...]] = []

    async def answer(source: str, changes: tuple[str, ...], root: Path) -> Forecast:
        calls.append((source, *changes))
        return Forecast("about 1 GB", ok="train.steps=999" not in changes)

    monkeypatch.setattr(launch, "ask_doctor", answer)
    monkeypatch.setattr(launch, "SETTLE", 0.05)
    return calls


def options(tmp_path: Path, **more: object) -> Options:
    return Options(tmp_path, screen="launch", **more)  # type: ignore[arg-type]


def row(app: MaporlApp, key: str) -> FieldRow:
    return next(row for row in app.screen.query(FieldRow) if row.field.key == key)


async def to_field(app: MaporlApp, pilot: object, section: str, key: str) -> None:
    """Go to one field of a section."""
    sections = app.screen.query_one("#sections")
    sections.highlighted = sections.get_option_index(section)  # type: ignore[attr-defined]
    await until(  # type: ignore[arg-type]
        pilot, lambda: any(r.field.key == key and r.is_mounted for r in app.screen.query(FieldRow))
    )
    row(app, key).focus_control()
    await pilot.pause()  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_typing_changes_the_command_and_wrong_values_are_told_beside_the_field(
    tmp_path: Path, size: tuple[int, int], asked: list[tuple[str, ...]]
) -> None:
    async with run_app(options(tmp_path), size) as (app, pilot):
        await until(pilot, lambda: shown(app, "memory: about 1 GB"))
        await to_field(app, pilot, "train", "train.steps")
        await pilot.press("end", "x")
        await until(pilot, lambda: shown(app, r"✗ must be a whole number"))
        assert shown(app, "train ●1 ✗")
        await pilot.press("backspace", "5")
        await until(pilot, lambda: shown(app, r"--set train\.steps=\d+5 "))
        await until(pilot, lambda: asked[-1][0] == "pocket" and len(asked[-1]) == 2)
        assert shown(app, "● steps")
        await pilot.press("f4")
        await until(pilot, lambda: not shown(app, "--set"))
        await pilot.press("escape")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "sections")


async def test_rows_of_agents_are_added_and_removed(tmp_path: Path) -> None:
    async with run_app(options(tmp_path)) as (app, pilot):
        await to_field(app, pilot, "agents", "agents.0.name")
        await pilot.press("f7")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"Di", "enter")
        await until(pilot, lambda: shown(app, "agent Di"))
        await to_field(app, pilot, "agents", "agents.0.role")
        await pilot.press("f8")
        await until(pilot, lambda: not shown(app, "agent Ada"))
        names = [agent.name for agent in app.screen._form.config().agents]
        assert names == ["Bo", "Cy", "Di"]


async def test_another_source_is_chosen_by_name_or_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "pocket"\n[train]\nsteps = 3\n')
    async with run_app(options(tmp_path)) as (app, pilot):
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, Choose))
        await pilot.press("down", "enter")
        await until(pilot, lambda: shown(app, f"from {preset_names()[1]} "))
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.screen, Choose))
        await pilot.press("end", "enter")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        app.screen.query_one("#dialog-input").value = str(file)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Ask) and shown(app, "from .*mine"))
        assert app.screen._form.value(("train", "steps")) == 3


async def test_a_filter_shows_fields_of_all_sections(tmp_path: Path) -> None:
    async with run_app(options(tmp_path)) as (app, pilot):
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"temperature", "enter")
        await until(pilot, lambda: shown(app, "discussion.temperature"))
        assert shown(app, "eval.temperature")


async def test_save_writes_a_file_that_loads_as_the_same_run(tmp_path: Path) -> None:
    target = tmp_path / "saved.toml"
    async with run_app(options(tmp_path)) as (app, pilot):
        app.screen._form.set(("train", "steps"), 4)
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        app.screen.query_one("#dialog-input").value = str(target)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, target.is_file)
        assert load_config(target).train.steps == 4
        target.write_text("kept")
        await until(pilot, lambda: not isinstance(app.screen, Ask))
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        app.screen.query_one("#dialog-input").value = str(target)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await pilot.pause(0.1)
        assert target.read_text() == "kept"


class FakeTrainer:
    """A trainer whose run is there at the second look."""

    ended, seconds, pid = False, 1.0, 1
    orders: ClassVar[list[Order]] = []

    def __init__(self, order: Order) -> None:
        self.order, self.looks = order, 0
        FakeTrainer.orders.append(order)

    def ready(self) -> bool:
        self.looks += 1
        if self.looks == 2:
            demo_run(self.order.run.path.parent, self.order.run.name, steps=1, questions=0)
        return self.looks >= 2

    def last_words(self) -> str:
        return "loading"

    def failure(self) -> None:
        return None


async def test_start_goes_to_the_dashboard_of_the_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maporl_tui.screens.launch.screen.Trainer", FakeTrainer)
    FakeTrainer.orders.clear()
    demo_run(tmp_path, "pocket", steps=1, questions=0)
    async with run_app(options(tmp_path)) as (app, pilot):
        app.screen._form.set(("train", "steps"), 4)
        await pilot.press("f5", "f5")
        await until(pilot, lambda: app.screen.NAME == "dashboard")
        await until(pilot, lambda: app.view is not None and app.view.name == "pocket-2")
        (order,) = FakeTrainer.orders
        assert "train.steps=4" in order.words


async def test_a_run_that_the_doctor_doubts_is_started_only_after_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maporl_tui.screens.launch.screen.Trainer", FakeTrainer)
    FakeTrainer.orders.clear()
    async with run_app(options(tmp_path)) as (app, pilot):
        app.screen._form.set(("train", "steps"), 999)
        app.screen._check()
        await until(pilot, lambda: app.screen._memory is not None and not app.screen._memory.ok)
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await until(pilot, lambda: not isinstance(app.screen, Confirm))
        assert FakeTrainer.orders == []


async def test_a_wrong_form_is_not_started(tmp_path: Path) -> None:
    async with run_app(options(tmp_path)) as (app, pilot):
        app.screen._form.set(("train", "steps"), -4)
        await pilot.press("f5")
        await until(pilot, lambda: shown(app, "must be at least 0"))
        assert app.screen.NAME == "launch"
        assert list(tmp_path.glob("*/run.db")) == []


async def test_readonly_neither_saves_nor_starts(tmp_path: Path) -> None:
    async with run_app(options(tmp_path, readonly=True)) as (app, pilot):
        await pilot.press("f2", "f5")
        await pilot.pause(0.2)
        assert app.screen.NAME == "launch"
        assert "f5" not in screen_text(app)


async def test_hostile_text_of_a_file_is_shown_without_its_control_codes(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    role = "[/red] [a=b: c] \\u001b[31mred \\r 漢字"
    file.write_text(f'[[agents]]\nname = "A"\nrole = "{role}"\n')
    async with run_app(options(tmp_path)) as (app, pilot):
        app.screen._form = Form(str(file))
        await to_field(app, pilot, "agents", "agents.0.name")
        await until(pilot, lambda: shown(app, r"\[/red\] \[a=b: c\]"))
        assert "\x1b" not in screen_text(app)
        assert app.screen._form.words() == ()


async def test_tiny_and_back(tmp_path: Path) -> None:
    async with run_app(options(tmp_path), (80, 24)) as (app, pilot):
        for size in ((20, 5), (1, 1), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
        await until(pilot, lambda: shown(app, "maporl run pocket"))


@pytest.mark.parametrize("section", section_names())
async def test_what_a_key_means_is_never_cut_on_a_small_screen(
    tmp_path: Path, section: str
) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run, screen="launch"), size=(80, 24)) as (app, pilot):
        sections = app.screen.query_one("#sections", OptionList)
        sections.highlighted = section_names().index(section)
        await until(pilot, lambda: app.screen.query_one("#fields").border_title == section)
        await until(pilot, lambda: all(row.size.height for row in app.screen.query(FieldRow)))
        for row in app.screen.query(FieldRow):
            note = row.query_one(".field-note", Static)
            lines = note.content.wrap(note.size.width)  # type: ignore[union-attr]
            assert len(lines) == note.size.height, row.field.key
            assert words_of(row.field.fact.meaning) in words_of(str(note.content)), row.field.key


@pytest.mark.parametrize(
    ("text", "width", "rows", "shown"),
    [
        ("one two", 20, 1, "one two"),
        ("one two three", 8, 2, "one two three"),
        ("one two three four", 8, 2, "one two\nthree …"),
        ("one two three four", 8, 1, "one two…"),
        ("one two three four", 9, 1, "one two …"),
        ("漢字漢字漢字", 8, 1, "漢字漢…"),
    ],
)
def test_a_text_without_room_ends_in_an_ellipsis(
    text: str, width: int, rows: int, shown: str
) -> None:
    assert clamped(text, width, rows) == shown


async def test_in_a_field_the_footer_names_the_way_back_and_no_key_that_would_be_typed(
    tmp_path: Path,
) -> None:
    options = Options(tmp_path, screen="launch")
    async with run_app(options, size=(80, 24)) as (app, pilot):
        await until(pilot, lambda: shown(app, r"/ Filter +\? Help +q Detach"))
        await pilot.press("tab")
        await until(pilot, lambda: shown(app, "F4 Reset field +esc Back$"))
        assert not shown(app, "Filter|Help|Detach")
        await pilot.press("escape")
        await until(pilot, lambda: shown(app, r"/ Filter +\? Help +q Detach"))
