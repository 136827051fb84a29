"""Themes: the shipped ones can be read by everyone, and a bad file is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.color import Color as RichColor
from textual.color import Color
from textual.geometry import Region
from textual.theme import Theme
from tui_samples import demo_run, own_settings, run_app, screen_text, until

from maporl_tui.app import MaporlApp
from maporl_tui.host import Options
from maporl_tui.look.keymap import SCREENS
from maporl_tui.look.settings import keep_theme, read_settings
from maporl_tui.look.themes import (
    ThemeError,
    app_variables,
    load_themes,
    read_theme,
    shipped_folder,
)
from maporl_tui.screens.dashboard.log_view import LogView

__all__ = ["own_settings"]

SHIPPED = load_themes(shipped_folder())
TRUE_COLOUR = sorted(name for name, theme in SHIPPED.by_name.items() if not theme.ansi)


def luminance(colour: str) -> float:
    """Relative luminance in [0, 1] (WCAG 2.2)."""
    parts = []
    for part in Color.parse(colour).normalized:
        parts.append(part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def as_seen(colour: str, kind: str) -> tuple[float, float, float]:
    """Linear RGB as people with full red-green blindness see it (Viénot, Brettel, Mollon 1999)."""
    r, g, b = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in Color.parse(colour).normalized
    )
    if kind == "protan":
        return (0.11238 * r + 0.88762 * g, 0.11238 * r + 0.88762 * g, 0.00401 * r - 0.00401 * g + b)
    return (0.29275 * r + 0.70725 * g, 0.29275 * r + 0.70725 * g, -0.02234 * r + 0.02234 * g + b)


def test_there_are_themes_for_every_kind_of_eye_and_terminal() -> None:
    assert SHIPPED.problems == ()
    assert {"dusk", "paper", "contrast", "clear", "ansi", "aurora"} <= set(SHIPPED.by_name)
    assert {theme.dark for theme in SHIPPED.by_name.values()} == {True, False}


@pytest.mark.parametrize("name", TRUE_COLOUR)
def test_every_colour_of_text_can_be_read_on_every_ground(name: str) -> None:
    theme = SHIPPED.by_name[name]
    texts = ["foreground", "primary", "secondary", "accent", "warning", "error", "success"]
    least = 7.0 if name == "contrast" else 4.5
    for ground in ("background", "surface"):
        for text in texts:
            ratio = contrast(getattr(theme, text), getattr(theme, ground))
            assert ratio >= least, f"{text} on {ground}: {ratio:.1f}"


@pytest.mark.parametrize("name", TRUE_COLOUR)
def test_muted_text_is_a_colour_of_its_own_that_can_be_read_and_stands_back(name: str) -> None:
    theme = SHIPPED.by_name[name]
    muted = app_variables(theme.to_color_system().generate() | theme.variables)["text-muted"]
    for ground in ("background", "surface", "panel"):
        whole, back = str(theme.foreground), str(getattr(theme, ground))
        assert 4.5 <= contrast(muted, back) < contrast(whole, back), ground


async def test_words_that_are_muted_within_a_text_are_drawn_muted(tmp_path: Path) -> None:
    run = demo_run(tmp_path, steps=1, problems=1, questions=0)
    async with run_app(Options(tmp_path, run, "debate", theme="dusk"), (120, 40)) as (app, pilot):
        await until(pilot, lambda: "debate 1" in screen_text(app))
        wanted = Color.parse(app.get_css_variables()["text-muted"]).rich_color.triplet
        head = app.screen.query_one("#debate-head")
        drawn = {
            piece.text.strip(): piece.style.color.triplet
            for strip in head.render_lines(Region(0, 0, *head.size))
            for piece in strip
            if piece.style is not None and piece.style.color is not None
        }
        muted = {text for text, colour in drawn.items() if colour == wanted}
        assert any("debate 1" in text for text in muted), drawn


@pytest.mark.parametrize("kind", ["protan", "deutan"])
def test_right_and_wrong_differ_for_the_colour_blind(kind: str) -> None:
    variables = SHIPPED.by_name["clear"].variables
    right, wrong = as_seen(variables["right"], kind), as_seen(variables["wrong"], kind)
    assert max(abs(a - b) for a, b in zip(right, wrong, strict=True)) > 0.5
    red, green = as_seen("#ff0000", kind), as_seen("#00b400", kind)
    assert max(abs(a - b) for a, b in zip(red, green, strict=True)) < 0.3, "what it must not be"


@pytest.mark.parametrize("name", sorted(SHIPPED.by_name))
@pytest.mark.usefixtures("own_settings")
async def test_every_theme_draws_every_screen(name: str, tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run, theme=name), size=(80, 24)) as (app, pilot):
        assert app.theme == name
        for screen in SCREENS:
            app.show_screen(screen)
            await until(pilot, lambda screen=screen: screen == app.screen.NAME)
            await pilot.pause(0.1)
            assert "demo · finished" in screen_text(app)


@pytest.mark.usefixtures("own_settings")
async def test_the_ansi_theme_uses_the_terminals_own_sixteen_colours(tmp_path: Path) -> None:
    run = demo_run(tmp_path)
    async with run_app(Options(tmp_path, run, theme="ansi"), size=(80, 24)) as (app, pilot):
        for screen in SCREENS:
            app.show_screen(screen)
            await pilot.pause(0.2)
            colours = set()
            for strip in app.screen._compositor.render_strips():
                for segment in strip:
                    style = segment.style
                    colours |= {style.color, style.bgcolor} if style is not None else set()
            bad = {c for c in colours if isinstance(c, RichColor) and c.triplet is not None}
            assert not bad, f"{screen}: {bad}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("primary = ", "theme x.toml"),
        ("dark = true", "no primary colour"),
        ('primary = "#12"', "primary: '#12' is not a colour"),
        ('primary = "red]"', "is not a colour"),
        ('primary = "#112233"\nprimry = "#112233"', "unknown key 'primry'"),
        ('primary = "#112233"\ndark = "yes"', "dark must be a bool"),
        ('primary = "#112233"\nvariables = 3', "variables must be a dict"),
        ('primary = "#112233"\n[variables]\nright = "no colour"', "variables.right"),
        ('primary = "#112233"\n[variables]\nx = 3', "variables.x must be a string"),
    ],
)
def test_a_file_that_is_no_theme_says_why(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(ThemeError) as caught:
        read_theme(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_bad_theme_does_not_hide_the_good_ones(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "b.toml").mkdir()
    (tmp_path / "c.toml").write_text('name = "own"\nprimary = "#112233"\n')
    found = load_themes(tmp_path)
    assert set(found.by_name) == {"own"}
    assert isinstance(found.by_name["own"], Theme)
    assert len(found.problems) == 2


def test_a_theme_of_the_users_own_replaces_a_shipped_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "dusk.toml").write_text('primary = "#112233"\n')
    found = load_themes(shipped_folder(), tmp_path)
    assert found.by_name["dusk"].primary == "#112233"


@pytest.mark.usefixtures("own_settings")
async def test_a_theme_chosen_in_the_app_is_kept_beside_the_other_settings(
    tmp_path: Path, own_settings: Path
) -> None:
    own_settings.mkdir()
    file = own_settings / "tui.toml"
    file.write_text('# mine\n[keys]\n"app.help" = "u"\n')
    async with run_app(Options(tmp_path), size=(80, 24)) as (app, pilot):
        app.theme = "paper"
        await until(pilot, lambda: "paper" in file.read_text())
    text = file.read_text()
    assert text.startswith("# mine")
    assert read_settings(file).theme == "paper"
    assert read_settings(file).keys == {"app.help": "u"}


def test_settings_that_cannot_be_read_are_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "tui.toml"
    file.write_text("theme = [")
    with pytest.raises(OSError, match="is not TOML"):
        keep_theme("paper", file)
    assert file.read_text() == "theme = ["
    assert len(read_settings(file).problems) == 1


async def test_no_color_shows_no_colour_at_all(
    tmp_path: Path, own_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = demo_run(tmp_path)
    app = MaporlApp(Options(tmp_path, run))
    async with app.run_test(size=(80, 24)) as pilot:
        for screen in SCREENS:
            app.show_screen(screen)
            await pilot.pause(1.0)  # charts come last
            for strip in app.screen._compositor.render_strips():
                filtered = strip
                for line_filter in app._filters:
                    filtered = filtered.apply_filter(line_filter, Color.parse("black"))
                for segment in filtered:
                    if segment.style is not None and segment.style.color is not None:
                        triplet = segment.style.color.get_truecolor()
                        assert max(triplet) - min(triplet) <= 2, segment


async def test_no_color_bears_a_log_that_shows_nothing(
    tmp_path: Path, own_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = MaporlApp(Options(tmp_path, demo_run(tmp_path)))
    async with app.run_test(size=(80, 24)) as pilot:
        app.show_screen("dashboard")
        await pilot.pause(0.5)
        log = app.screen.query_one(LogView)
        for words in ("", "no event says this"):
            log.filter = words
            log.show(())
            for segment in log.render_line(0):
                assert segment.style is not None
