"""Scoring a file of answers: rows with a question and an answer in, the same with a score out.

In: JSON lines or Parquet, a verifier folder.  Out: plain rows.  Neighbours: ``tasks.data.rows``
reads with file and line in every complaint, ``fitting`` loads the verifier, ``cli`` prints.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maporl_core.errors import DataError, ModelError
from maporl_core.kit.offline import offline
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.progress import Progress
from maporl_core.kit.user_paths import exists, is_file, user_path
from maporl_core.runs.verifier.fitting import load_verifier
from maporl_core.tasks.data.rows import BadRow, Tally, read_rows, text_of


class _Rows(Tally):
    """Bad rows with this command's own way to leave them out."""

    def bad(self, where: str, error: BadRow) -> None:
        if not self.skip:
            raise DataError(
                f"{where}: {one_line(error)}; mend it, or leave such rows out with --skip-bad-rows"
            ) from error
        super().bad(where, error)


_BATCH = 256  # rows between two moves of the progress bar


@dataclass(frozen=True, slots=True)
class ScoredFile:
    """``rows`` hold question, answer, score and where they stood; ``left_out`` counts the others.

    The scores are what the verifier thinks of the texts: it knows no task, so it does not know
    which of them hold an answer that can be read.
    """

    rows: list[dict[str, Any]]
    left_out: Mapping[str, int]


def score_file(
    file: str,
    verifier: Path,
    progress: Progress,
    keys: tuple[str, str] = ("question", "answer"),
    skip_bad_rows: bool = False,
    device: str = "auto",
    base: str | None = None,
) -> ScoredFile:
    """Score every row.  ``keys`` name the question and the answer.

    Raises DataError, with file and line, for a row that cannot be used (unless they are skipped),
    and before anything is loaded.
    """
    path = user_path(file)
    if not is_file(path):
        what = "is no file" if exists(path) else "no such file"
        raise DataError(f"{one_line(file)}: {what}; give JSON lines or Parquet")
    tally = _Rows(skip_bad_rows)
    rows: list[dict[str, Any]] = []
    for row in read_rows(path, tally):
        try:
            question, answer = (str(text_of(row.values, key)) for key in keys)
        except BadRow as error:
            tally.bad(row.where, error)
            continue
        rows.append({"where": row.where, "question": question, "answer": answer})
    if not rows:
        raise DataError(f"{one_line(file)}: holds no usable rows")
    loaded = load_verifier(verifier, progress, device=device, base=base)
    with offline():  # all is loaded
        progress.stage("scoring", len(rows))
        for start in range(0, len(rows), _BATCH):
            part = rows[start : start + _BATCH]
            scores = loaded.probabilities([(r["question"], r["answer"]) for r in part])
            if not all(map(math.isfinite, scores)):
                raise ModelError(
                    f"{one_line(verifier)}: its scores are not finite; the training that made it "
                    "broke down, so fit it again at a lower rate"
                )
            for scored, score in zip(part, scores, strict=True):
                scored["score"] = score
            progress.advance(len(part))
    return ScoredFile(rows, dict(tally.counts))
