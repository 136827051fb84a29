"""A verifier that a run has fitted anew, as a folder of its own that scores like the run did.

In: the run's copy of the verifier it began with, and the weights of a checkpoint.  Out: a folder
like one of ``maporl verifier fit``, whose card says at which steps the run fitted it.  Neighbours:
``keeper`` fits, ``cli.exports`` asks, ``saved`` and ``figures`` read it back.

The temperature of a new fit is in the head, so that of the card goes on to hold.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maporl_core.errors import DataError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.figures import results_of
from maporl_core.judging.verifier.pages import REFITTED, RESULTS, RESULTS_BEFORE, verifier_page
from maporl_core.judging.verifier.saved import check_files, read_card, saved_of
from maporl_core.models.adapter_files import ADAPTER_FILE, CONFIG_FILE, VALUE_FILE
from maporl_core.store.failures import store_errors


def write_refitted(
    begun_with: Path, weights: Path, folder: Path, run: str, step: int, fits: Sequence[int]
) -> None:
    """Write ``folder``: ``weights`` after ``step``, which the run fitted anew at steps ``fits``.

    Figures of the first fit stay in the card under another name, since they are not of these
    weights.  Without fits the verifier is as it was.  Raises DataError or ModelError for a copy or
    weights that are damaged, StoreError when the disk refuses.
    """
    card: dict[str, Any] = dict(read_card(begun_with))
    check_files(weights, saved_of(card, begun_with))
    if fits:
        if RESULTS in card:
            card[RESULTS_BEFORE] = card.pop(RESULTS)
        card[REFITTED] = {"run": run, "step": step, "fits": list(fits)}
    with store_errors("write", folder):
        folder.mkdir()
        for name in (CONFIG_FILE, ADAPTER_FILE, VALUE_FILE):
            shutil.copyfile(weights / name, folder / name)
    page = _page(card, begun_with)
    if page is not None:
        files.write_text(folder / files.CARD_PAGE, page)
    files.write_json(folder / files.CARD, card)


def _page(card: dict[str, Any], place: Path) -> str | None:
    """The card for people; None where somebody took out what it tells: it scores all the same."""
    try:
        results_of(card, place)
        return verifier_page(card)
    except (DataError, KeyError, TypeError, ValueError):
        return None
