"""What the repository says of itself is true: names, links, commands, presets, sizes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from maporl_core.cli.main import app
from maporl_core.config.load import load_config, preset_names
from maporl_core.rollout.prompts import STYLES, Seen

ROOT = Path(__file__).parents[2]


def repository_files() -> list[str]:
    """Paths of everything that is or would be committed; all files where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        names = os.fsdecode(listed.stdout).split("\0")
        return sorted(name for name in names if name and (ROOT / name).is_file())
    names = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return sorted(name for name in names if not re.match(r"\.(?:git|venv)/|.*__pycache__", name))


FILES = repository_files()
PAGES = [name for name in FILES if name.endswith(".md")]
MAX_LINES = 330
MAX_ASSETS = 5_000_000
MAX_FILE = 5_000_000


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def texts() -> Iterator[tuple[str, str]]:
    for name in FILES:
        try:
            yield name, read(name)
        except UnicodeDecodeError:
            continue  # weights


# --- names and links -----------------------------------------------------------------------------


def anchors(page: str) -> set[str]:
    """Names that a link can point at: one per heading, as code hosts make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", read(page), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_of_page_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (ROOT / page).parent / path if path else ROOT / page
        assert found.exists(), f"{page}: {target}"
        if anchor:
            inside = found.resolve().relative_to(ROOT).as_posix()
            assert anchor in anchors(inside), f"{page}: {target}"


def is_a_file_here(name: str) -> bool:
    return any(known == name or known.endswith("/" + name) for known in FILES)


@pytest.mark.parametrize("page", PAGES)
def test_files_named_by_page_exist(page: str) -> None:
    for name in re.findall(r"(?<![\w/.<>-])((?:\w[\w-]*/)*\w[\w-]*\.(?:py|md))\b", read(page)):
        if not name.startswith("my"):  # my_task.py: the reader's own
            assert is_a_file_here(name), f"{page}: {name}"


def test_docs_named_by_code_exist() -> None:
    for name, text in texts():
        if name.endswith((".py", ".toml")):
            for page in re.findall(r"docs/\w+\.md", text):
                assert page in FILES, f"{name}: {page}"


def test_table_of_contents_lists_every_page_of_the_docs() -> None:
    for page in PAGES:
        if page.startswith("docs/") and page != "docs/index.md":
            assert f"]({page.removeprefix('docs/')})" in read("docs/index.md"), page


def test_every_preset_is_described() -> None:
    for page in ("README.md", "docs/config.md"):
        for preset in preset_names():
            assert f"`{preset}`" in read(page), f"{page}: {preset}"
    table = read("README.md").partition("| preset |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([\w.-]+)` \|", table, re.MULTILINE)) == set(preset_names())


# --- commands ------------------------------------------------------------------------------------


def command_lines(page: str) -> list[str]:
    """`maporl …` lines of the page's code blocks, without what a shell does with their output."""
    found = []
    fenced = False
    for line in read(page).splitlines():
        fenced ^= line.lstrip().startswith("```")
        match = re.match(r"(?:    |)\s*(?:\$ |\.venv/bin/)?(maporl(?: .*|$))", line)
        if match and (fenced or line.startswith("    ")):
            command = re.split(r" (?:#|>|\||&&|2>) ?|\s{2,}", match[1])[0]
            if not re.search(r"…|<|\bRUN\b|\bNAME\b|\bKEY\b", command):
                found.append(command)
    return found


def check_command(line: str) -> None:
    """Raise what the command line would raise before it does anything."""
    words = shlex.split(line)[1:]
    if set(words) & {"--install-completion", "--show-completion"}:
        return  # parsing these already does what they say
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    try:
        context = command.make_context(command.name, words)
    except typer.Exit:  # --help, --version
        return
    source = context.params.get("source")
    own_file = source is not None and source not in preset_names()
    load_config("pocket" if own_file else source, context.params.get("overrides") or ())


COMMANDS = [(page, line) for page in PAGES for line in command_lines(page)]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_command_shown_by_page_is_understood(page: str, line: str) -> None:
    check_command(line)


def test_readme_shows_commands() -> None:
    assert len([line for page, line in COMMANDS if page == "README.md"]) >= 5


@pytest.mark.parametrize(
    "line",
    [
        "maporl walk",
        "maporl run --stepz 3",
        "maporl run nosuchpreset.toml --set train.stepz=3",
        "maporl config show pocket extra",
    ],
)
def test_wrong_command_line_is_noticed(line: str) -> None:
    with pytest.raises(Exception, match=r".+"):
        check_command(line)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_make_targets_shown_by_page_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z]+)", read(page), re.MULTILINE))
    assert named
    assert named <= targets


def test_continuous_integration_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.search(r"^exec make .*\btest\b", script.read_text("utf-8"), re.MULTILINE)


def test_readme_installs_the_pinned_torch() -> None:
    (pin,) = re.findall(r"^torch==.*$", read("constraints.txt"), re.MULTILINE)
    assert set(re.findall(r"torch==[\w.]+", read("README.md"))) == {pin}


# --- prompts shown in the docs -------------------------------------------------------------------


def words(text: str) -> str:
    return " ".join(text.split())


def test_prompts_page_shows_the_prompts() -> None:
    page = words(read("docs/prompts.md"))
    shown = STYLES["standard"].later(
        Seen("Ada", "…", 0.35), [Seen("Bo", "…", 0.31), Seen("Cy", "…", 0.88)]
    )
    assert words(shown) in page
    shown = STYLES["short"].later(Seen("Ada", "…", 0.35), [Seen("Bo", "…", 0.31)])
    assert "Bo's solution [0.31]:" in shown
    assert "`Bo's solution [0.31]:`" in page
    assert "Your own solution [0.35] is" in shown
    shown = STYLES["compact"].later(
        Seen("Ada", "9: 12 + 9 = 21 - 4 = 17", 0.35),
        [Seen("Bo", "7: 12 + 7 = 19 - 4 = 15", 0.31), Seen("Cy", "9: 12 + 9 = 21 - 4 = 17", 0.88)],
    )
    assert words(shown) in page


# --- what must not be there ----------------------------------------------------------------------

MACHINE_PATH = re.compile(r"(?<![\w.~*<>)\]}-])/(?:work|root|farm|home|Users|tmp)/\w")
REGISTRIES = re.compile(r"\b(?:pypi|pythonhosted|npmjs|debian|crates|conda)\.(?:org|com|io)\b")


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    for name, text in texts():
        found = MACHINE_PATH.search(text)
        assert found is None, f"{name}: {text[found.start() :][:40]}"


def test_no_file_names_a_package_registry() -> None:
    for name, text in texts():
        found = REGISTRIES.search(text)
        assert found is None, f"{name}: {text[found.start() :][:40]}"


@pytest.mark.parametrize("top", ["home", "root", "tmp", "Users"])
def test_machine_paths_are_told_from_other_slashes(top: str) -> None:
    assert MACHINE_PATH.search(f'open("/{top}/ann/x")')
    assert MACHINE_PATH.search(f"see /{top}/ann")
    assert not MACHINE_PATH.search(f"at {top}/{top}/{top}")


@pytest.mark.parametrize("host", ["files.%s.org", "registry.%s.org/x", "%s.org"])
def test_registries_are_noticed(host: str) -> None:
    assert REGISTRIES.search("see " + host % "pypi")
    assert not REGISTRIES.search("docs.pydantic.org")


def test_licence_is_whole() -> None:
    text = read("LICENSE")
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "9. Accepting Warranty or Additional Liability" in text


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python 3.11.0 to 3.11.4 match "(...)*+" and kin wrongly; of one character they are right."""
    found = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")
    code = [path for top in ("maporl_core", "maporl_tui") for path in (ROOT / top).rglob("*.py")]
    assert code
    for path in code:
        for line in path.read_text(encoding="utf-8").splitlines():
            if 'r"' in line or 'rf"' in line:
                assert not found.search(line), f"{path}: {line}"


def test_no_source_file_holds_too_much() -> None:
    sizes = {
        name: read(name).count("\n")
        for name in FILES
        if name.startswith(("maporl_core/", "maporl_tui/")) and name.endswith(".py")
    }
    long = {name: lines for name, lines in sizes.items() if lines > MAX_LINES}
    assert not long, "split by meaning, not by length"


def test_nothing_heavy_is_committed() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in FILES}
    assert {n: s for n, s in sizes.items() if s > MAX_FILE} == {}
    assets = sum(size for name, size in sizes.items() if "/assets/" in name)
    assert assets <= MAX_ASSETS
