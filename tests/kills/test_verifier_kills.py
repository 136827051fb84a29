"""Sampling that is killed, stopped or short of disk ends with the data of one that was not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from verifier_commands import (
    BALANCING,
    CARD,
    LOADING,
    SAMPLING,
    SETTINGS,
    TABLE,
    WHOLE,
    Command,
    content,
)

from maporl_core.config.load import load_config
from maporl_core.errors import ConfigError, DataError, StoreError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.data import Selection
from maporl_core.kit.progress import Silent
from maporl_core.runs.verifier.fitting import sampled_base
from maporl_core.runs.verifier.sampling import Sampling, make_data


def words(folder: Path) -> list[str]:
    return ["verifier", "data", "pocket", "-n", "60", "--samples", "4", "--out", str(folder)]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every file of a sampling that nothing broke off."""
    root = tmp_path_factory.mktemp("unbroken")
    code, said = Command(words(root / "data"), root).end()
    assert code == 0, said
    return content(root / "data")


def test_killed_in_every_phase_the_same_command_ends_with_the_same_bytes(
    unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    kills = ((SETTINGS, 1), (WHOLE, 1), (SAMPLING, 2), (WHOLE, 3), (BALANCING, 1), (TABLE, 1))
    for phase, times in (*kills, (CARD, 1)):
        command = Command(words(folder), tmp_path, at=(phase, times, signal.SIGKILL))
        assert command.end()[0] == -signal.SIGKILL
        assert files.CARD not in content(folder)
    code, said = Command(words(folder), tmp_path).end()
    assert code == 0, said
    assert content(folder) == unbroken


def test_stopped_it_says_how_far_it_is_and_goes_on(
    unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    # Each time in the second part that this process samples.
    for number, parts in ((signal.SIGINT, 1), (signal.SIGTERM, 2)):
        code, said = Command(words(folder), tmp_path, at=(SAMPLING, 2, number)).end()
        assert code == 130, said
        assert said.splitlines()[-1] == (
            f"maporl: stopped; {parts} of 6 parts are in {folder}, and the same command goes on"
        )
        assert not [name for name in content(folder) if ".part-" in name]
    assert Command(words(folder), tmp_path).end()[0] == 0
    assert content(folder) == unbroken


def test_a_disk_without_room_is_one_line_and_what_was_sampled_is_kept(
    unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    room = max(len(body) for name, body in unbroken.items() if name.startswith(files.PARTS))
    assert room < len(unbroken[files.TABLE])  # the parts have room, the table has not
    code, said = Command(words(folder), tmp_path, largest=room).end()
    assert code == 5, said
    last = said.splitlines()[-1]
    assert last.startswith(f"maporl: cannot write {folder / files.TABLE}: ")
    assert "ulimit -f" in last
    kept = content(folder)
    assert {name for name in unbroken if name.startswith(files.PARTS)} <= set(kept)
    assert files.TABLE not in kept
    assert Command(words(folder), tmp_path).end()[0] == 0
    assert content(folder) == unbroken


def test_two_processes_do_not_write_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = Command(words(folder), tmp_path, at=(SAMPLING, 1, signal.SIGSTOP)).until(SAMPLING)
    code, said = Command(words(folder), tmp_path).end()
    assert code == StoreError.exit_code
    assert "another process is writing verifier data" in said.splitlines()[-1]
    assert first.signal(signal.SIGCONT).end()[0] == 0


def test_a_stop_before_anything_is_written_leaves_nothing(tmp_path: Path) -> None:
    command = Command(words(tmp_path / "data"), tmp_path).until(LOADING)
    code, said = command.signal(signal.SIGTERM).end()
    assert code in (130, -signal.SIGTERM), said  # the latter before the command has begun
    assert not (tmp_path / "data").exists()


# --- in this process -----------------------------------------------------------------------------

SAMPLING_OF_20 = Sampling("train", questions=20, samples=4, temperature=1.0)
CONFIG = load_config("pocket")


def test_what_a_killed_process_left_of_its_first_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".{files.SETTINGS}.part-{os.getpid()}").write_text("{")
    make_data(CONFIG, SAMPLING_OF_20, Selection(holdout=0.5), tmp_path, Silent())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [files.SETTINGS, files.PARTS, files.TABLE, files.CARD, files.CARD_PAGE]
    )


def test_data_that_is_not_finished_says_so_when_it_is_used(tmp_path: Path) -> None:
    make_data(CONFIG, SAMPLING_OF_20, Selection(holdout=0.5), tmp_path, Silent())
    (tmp_path / files.CARD).unlink()
    with pytest.raises(DataError, match="sampling was stopped; the same maporl verifier data"):
        sampled_base(tmp_path)
    with pytest.raises(DataError, match="sampling was stopped"):
        files.read_examples(tmp_path)


def test_questions_that_changed_since_are_not_mixed_with_new_ones(tmp_path: Path) -> None:
    make_data(CONFIG, SAMPLING_OF_20, Selection(holdout=0.5), tmp_path, Silent())
    path = files.part_path(tmp_path, 0)
    first, *others = files.read_part(path)
    files.write_part(path, [first.__class__(**{**_fields(first), "gold": "999"}), *others])
    with pytest.raises(DataError, match=r"part-000000.*other questions.*name another folder"):
        make_data(CONFIG, SAMPLING_OF_20, Selection(holdout=0.5), tmp_path, Silent())


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}  # type: ignore[attr-defined]


def test_the_size_of_parts_is_that_of_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maporl_core.runs.verifier import sampling as verifier_data

    make_data(CONFIG, SAMPLING_OF_20, Selection(holdout=0.5), tmp_path, Silent())
    before = content(tmp_path)
    monkeypatch.setattr(verifier_data, "PART_WORK", 1)
    make_data(CONFIG, SAMPLING_OF_20, Selection(holdout=0.5), tmp_path, Silent())
    assert content(tmp_path) == before


def test_settings_that_cannot_be_are_damaged(tmp_path: Path) -> None:
    files.write_json(tmp_path / files.SETTINGS, {"part_answers": "many"})
    with pytest.raises(DataError, match="is damaged"):
        make_data(CONFIG, SAMPLING_OF_20, Selection(), tmp_path, Silent())
    with pytest.raises(ConfigError, match="holds no verifier data"):
        files.check_place(tmp_path / files.SETTINGS)
