"""Fitting a verifier and reading it back: data folder → base, training, calibration → a folder.

In: a folder of ``maporl verifier data`` and settings.  Out: a folder with a PEFT adapter, the
score head, a card and a picture; and from such a folder a ``LearnedVerifier`` again.  Neighbours:
``models.loading`` reads the base, ``verifier.fit`` trains, ``verifier.report`` measures,
``adapter_files`` writes PEFT's format, ``cli.verifier`` calls this.

Held-out questions are of two kinds: "valid" ends training and sets the temperature, "test" is what
is reported.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maporl_core.config.schema import BaseModelConfig, PolicyConfig
from maporl_core.config.verifier import VerifierFitConfig
from maporl_core.errors import ConfigError, DataError, MaporlError
from maporl_core.judging.verifier import files, report
from maporl_core.judging.verifier.calibration import fit_temperature
from maporl_core.judging.verifier.data import SPLITS, Example
from maporl_core.judging.verifier.fit import FitSettings, Rows, fit
from maporl_core.judging.verifier.head import encode
from maporl_core.judging.verifier.learned import POLICY, LearnedVerifier
from maporl_core.judging.verifier.pages import RESULTS, draw_reliability, verifier_page
from maporl_core.judging.verifier.saved import CARD_KIND, read_saved, verifier_on
from maporl_core.kit.offline import offline
from maporl_core.kit.progress import Progress
from maporl_core.kit.seeds import stable_seed
from maporl_core.kit.user_paths import exists, is_folder
from maporl_core.models.adapter_files import save_adapter
from maporl_core.models.loading import load, resolve_device
from maporl_core.models.policy import Base
from maporl_core.models.source import lasting_name
from maporl_core.runs.run_state import seed_random_states
from maporl_core.store.checkpoint import atomic_folder
from maporl_core.store.failures import store_errors


def default_settings(data: Path) -> FitSettings:
    """What the config that the data was sampled with says under [verifier.fit].

    Without it the published settings.  Raises DataError for a damaged card.
    """
    card = files.read_data_card(data)
    try:
        wanted = VerifierFitConfig.model_validate(card.get("fit", {}))
    except ValueError as error:
        raise DataError(f"{data / files.CARD}: is damaged; {files.HINT}") from error
    return FitSettings(**wanted.model_dump(exclude={"samples", "per_question"}))


def sampled_base(data: Path) -> BaseModelConfig:
    """The first base that gave the answers of a data folder; none of its own code is allowed."""
    card = files.read_data_card(data)
    try:
        first = next(iter(card["settings"]["bases"].values()))
        return BaseModelConfig.model_validate(dict(first) | {"trust_remote_code": False})
    except (KeyError, TypeError, AttributeError, StopIteration, ValueError) as error:
        raise DataError(f"{data / files.CARD}: is damaged; {files.HINT}") from error


def fit_verifier(
    data: Path,
    base_config: BaseModelConfig,
    settings: FitSettings,
    folder: Path,
    progress: Progress,
    device: str = "auto",
) -> dict[str, Any]:
    """Train a verifier on the data folder, measure it on its test questions, save it.

    Returns the card.  Raises DataError when a split lacks right or wrong answers, ModelError for a
    base that cannot be used, ConfigError for a folder that is something else.
    """
    started = time.perf_counter()
    check_replaceable(folder)
    files.check_writable(folder)
    _sweep(folder)
    sides = files.read_examples(data)
    _check_sides(data, sides)
    policy_config = PolicyConfig(rank=settings.rank, alpha=settings.alpha, dropout=settings.dropout)
    base = _load_base(base_config, policy_config, settings.seed, device, progress)
    settings = replace(settings, max_length=min(settings.max_length, base.context))
    seed_random_states(settings.seed)
    train, cut = _rows(base, sides["train"], settings.max_length)
    _say_cut(cut, len(train.ids), settings.max_length, progress)
    valid, _ = _rows(base, sides["valid"], settings.max_length)
    with offline():  # all is loaded
        history = fit(base, POLICY, train, valid, settings, progress)
        progress.stage("measuring")
        verifier = LearnedVerifier(
            base,
            temperature=1.0,
            max_length=settings.max_length,
            micro_tokens=settings.micro_tokens,
        )
        temperature = fit_temperature(_logits(verifier, sides["valid"]), valid.labels)
        results = _results(verifier, sides, temperature)
    card: dict[str, Any] = {
        "kind": CARD_KIND,
        "version": 1,
        "base": base_config.model_dump(mode="json") | {"model": lasting_name(base_config.model)},
        "base_hash": base.frozen_hash(),
        "base_dtype": str(next(base.model.parameters()).dtype),
        "policy": policy_config.model_dump(mode="json"),
        "temperature": temperature,
        "max_length": settings.max_length,
        "settings": asdict(settings),
        "history": asdict(history),
        "rows_cut": cut,
        RESULTS: results,
        "data": files.read_data_card(data),
        "seconds": round(time.perf_counter() - started, 1),
    }
    progress.stage(f"saving {folder}")
    with atomic_folder(folder) as building:
        save_adapter(base.policies[POLICY], building)
        files.write_json(building / files.CARD, card)
        files.write_text(building / files.CARD_PAGE, verifier_page(card))
        draw_reliability(results["test"], building / "reliability.png")
    return card


def _say_cut(cut: int, count: int, max_length: int, progress: Progress) -> None:
    if cut:
        progress.log(
            "warning",
            f"{cut} of {count} answers to train on are longer than {max_length} tokens with their "
            "question, and lose their beginning (--max-length)",
        )


def load_verifier(
    folder: Path, progress: Progress, *, device: str = "auto", base: str | None = None
) -> LearnedVerifier:
    """The verifier of a folder, on a base of its own.

    ``base`` replaces the name or path of the model where it has moved since.  Raises DataError or
    ModelError for a folder that is not whole, or a base with other weights.
    """
    saved = read_saved(folder)
    config = saved.base if base is None else saved.base.model_copy(update={"model": base})
    loaded = _load_base(config, saved.policy, 0, device, progress)
    return verifier_on(loaded, saved, folder)


def check_replaceable(folder: Path) -> None:
    """Raises ConfigError unless there is nothing yet, or a verifier to take the place of."""
    with store_errors("read", folder):
        if not exists(folder) or (is_folder(folder) and not any(folder.iterdir())):
            return
    try:
        read_saved(folder)
    except DataError:
        raise ConfigError(f"{folder} exists and holds no verifier; name another folder") from None


def _sweep(folder: Path) -> None:
    """Remove what a killed fit left beside ``folder``; what it was replacing gets its name back.

    What belongs to a process that lives is let alone.
    """
    if not is_folder(folder.parent):
        return
    with store_errors("clean", folder.parent):
        for path in list(folder.parent.iterdir()):
            left = re.fullmatch(rf"\.(tmp|old)-{re.escape(folder.name)}-(\d+)", path.name)
            if left is None or _lives(int(left[2])):
                continue
            if left[1] == "old" and not exists(folder):
                path.rename(folder)
            else:
                shutil.rmtree(path)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _load_base(
    config: BaseModelConfig, policy: PolicyConfig, seed: int, device: str, progress: Progress
) -> Base:
    progress.stage(f"loading model {config.model}")
    chosen = resolve_device(device)
    try:
        loaded = load(config, chosen, seed)
    except MaporlError as error:
        raise type(error)(f"the verifier's model: {error}") from error
    return Base("verifier", config, loaded, {POLICY: policy}, stable_seed(seed, "verifier"))


def _check_sides(data: Path, sides: Mapping[str, Sequence[Example]]) -> None:
    for split in SPLITS:
        if len({example.label for example in sides[split]}) < 2:
            raise DataError(
                f"{data}: its split {split!r} lacks right or wrong answers; sample more questions, "
                "or raise --holdout"
            )


def _rows(base: Base, examples: Sequence[Example], max_length: int) -> tuple[Rows, int]:
    encoded = [encode(base.codec, e.question, e.text, max_length) for e in examples]
    rows = Rows([ids for ids, _ in encoded], [e.label for e in examples])
    return rows, sum(cut for _, cut in encoded)


def _logits(
    verifier: LearnedVerifier,
    examples: Sequence[Example],
    *,
    question: bool = True,
    answer: bool = True,
) -> NDArray[np.float64]:
    pairs = [(e.question if question else "", e.text if answer else "") for e in examples]
    return verifier.logits(pairs).logits


def _results(
    verifier: LearnedVerifier, sides: Mapping[str, Sequence[Example]], temperature: float
) -> dict[str, Any]:
    """Figures on held-out questions, and on the test ones with a part of the input taken away."""
    test = sides["test"]
    found = {
        side: report.measure(_logits(verifier, sides[side]), sides[side], temperature)
        for side in ("valid", "test")
    }
    return {
        **found,
        "without_question": report.ablation(_logits(verifier, test, question=False), test),
        "question_only": report.ablation(_logits(verifier, test, answer=False), test),
    }
