"""A learned verifier over the length of a run: kept with it, watched, and fitted anew if asked to.

In: a run's folder, store and config, and after every step its metrics.  Out: the run's own copy of
the verifier, a warning when scores grow away from correctness, and with ``verifier.refit_every``
new weights.  Neighbours: ``train`` makes one ``VerifierKeeper``; ``verifier.watching`` decides when
to warn, ``verifier.fit`` trains, ``run_state`` puts weights that change into checkpoints.

A refit is a function of what the store holds and of (seed, step), so a resumed run does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
import torch

from maporl_core.config.load import load_stored
from maporl_core.config.schema import RunConfig, VerifierConfig
from maporl_core.errors import ConfigError, StoreError, TrainingError
from maporl_core.judging.verifier import placing
from maporl_core.judging.verifier.base import Verifier
from maporl_core.judging.verifier.calibration import fit_temperature, log_loss
from maporl_core.judging.verifier.cards import FITTED_ANEW
from maporl_core.judging.verifier.data import Answer, Example, Selection, select
from maporl_core.judging.verifier.fit import FitSettings, Rows, fit
from maporl_core.judging.verifier.head import all_logits, encode
from maporl_core.judging.verifier.learned import LearnedVerifier
from maporl_core.judging.verifier.watching import GAP, ScoreDrift
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.progress import Progress
from maporl_core.kit.seeds import stable_seed
from maporl_core.models.policy import Policy
from maporl_core.store.paths import RunDir
from maporl_core.store.reader import StoreReader
from maporl_core.store.records import DiscussionFilter
from maporl_core.store.writer import StoreWriter

FINGERPRINT = "verifier"
"""Fact of the store: SHA-256 of the verifier that the run began with."""
_HOLDOUT = 0.2
_LEAST = {"train": 64, "held out": 16}
"""Balanced messages without which a fit says nothing; more come with a larger refit_every."""

Say = Callable[[str, str, str, int | None], None]


def kept_verifier(run: RunDir | None, config: RunConfig) -> Path | None:
    """The run's own copy, for whoever asks its agents; None where ``config`` names another one.

    Raises StoreError when the copy is gone or is not the one that the run began with, ConfigError
    where ``config`` wants a verifier that was refitted and the run has no such one.
    """
    if run is None or not config.verifier.on_model:
        return None
    stored = load_stored(run.config).verifier
    _check_refits(stored, config.verifier)
    if stored.path != config.verifier.path:
        return None
    begun_with = _begun_with(run)
    return None if begun_with is None else _unchanged(run, begun_with)


def _check_refits(stored: VerifierConfig, wanted: VerifierConfig) -> None:
    """``refit_every`` says whose weights score: the run's last fit, or (0) those it began with."""
    if wanted.refit_every == 0:
        return
    if stored.path != wanted.path or not stored.on_model:
        raise ConfigError(
            "verifier.refit_every: the run fitted no such verifier anew; to score with another one "
            "than the run's, set verifier.refit_every=0 too"
        )
    if stored.refit_every == 0:
        raise ConfigError(
            "verifier.refit_every: only training fits a verifier, and this run never did; leave it "
            "out"
        )
    if stored.refit_every != wanted.refit_every:
        raise ConfigError(
            "verifier.refit_every: only training fits a verifier; leave it out to score as the run "
            f"did ({stored.refit_every}), or set it to 0 for the verifier that the run began with"
        )


def _begun_with(run: RunDir) -> str | None:
    """Fingerprint of the verifier that a run began with; None before it began, or without one."""
    with StoreReader(run) as reader:
        return reader.meta().get(FINGERPRINT)


def _unchanged(run: RunDir, begun_with: str) -> Path:
    try:
        same = placing.fingerprint(run.verifier) == begun_with
    except StoreError:
        same = False
    if not same:
        raise StoreError(
            f"{one_line(run.verifier)} is not the verifier that the run began with; put "
            "it back from a copy, or train anew under another name"
        )
    return run.verifier


class VerifierKeeper:
    """What a training run does about its verifier besides scoring with it."""

    def __init__(
        self, config: RunConfig, run: RunDir, store: StoreWriter, say: Say, progress: Progress
    ) -> None:
        self.config, self.run, self.store = config, run, store
        self.say, self.progress = say, progress
        self._drift = ScoreDrift(config.verifier.gap_warn)
        self._named: Path | None = None  # what was loaded, where it is not the run's copy

    def folder(self) -> Path | None:
        """Where the run's learned verifier is read from; None without one.

        At the start that is the place somebody named, so that a complaint names it too, and a copy
        is made; later it is the copy.  Raises StoreError when the copy is gone or is not the one
        that the run began with, and what is wrong with the verifier as far as no model tells it.
        """
        if not self.config.verifier.on_model:
            return None
        begun_with = _begun_with(self.run)
        if begun_with is not None:
            return _unchanged(self.run, begun_with)
        placed, _ = placing.check(self.config)
        placing.keep(placed.folder, self.run.verifier)
        self.store.set_meta({FINGERPRINT: placing.fingerprint(self.run.verifier)})
        self._named = placed.folder
        return placed.folder

    def begin(self, verifier: Verifier, spoken_on: Collection[str], done: int) -> None:
        """Take up a run after ``done`` finished steps; agents stand on the bases ``spoken_on``."""
        self._verifier = verifier
        if not self.config.verifier.on_model:
            return
        if done == 0:
            self._check_copied()
            base = self._learned().base.name
            where = (
                f"base {base!r} of the agents, loaded once"
                if base in spoken_on
                else "a model of its own, which no agent stands on"
            )
            self.say("info", "verifier", f"learned verifier scores on {where}", None)
            return
        with StoreReader(self.run) as reader:
            gaps = reader.series(GAP, points=done + 1, last=done)
        for gap in gaps.means:
            self._drift.add(gap)

    def after_step(self, step: int, metrics: Mapping[str, float]) -> None:
        """Warn, and fit anew where that is due, after ``step`` finished steps."""
        if not self.config.verifier.on_model:
            return
        warning = self._drift.add(metrics[GAP]) if GAP in metrics else None
        if warning is not None:
            self.say("warning", "verifier", f"step {step}: {warning}", step)
        every = self.config.verifier.refit_every
        if every and step % every == 0 and step < self.config.train.steps:
            self._refit(step)

    def _check_copied(self) -> None:
        """Raises StoreError where what was loaded is not what was copied a moment before."""
        if self._named is None:
            return
        if placing.fingerprint(self._named) != placing.fingerprint(self.run.verifier):
            raise StoreError(
                f"{one_line(self._named)} changed while the run started; start it again"
            )

    def _learned(self) -> LearnedVerifier:
        assert isinstance(self._verifier, LearnedVerifier)
        return self._verifier

    def _refit(self, step: int) -> None:
        """Go on training the verifier on balanced messages of the last steps, if that helps it."""
        examples = self._examples(step)
        held = [e for e in examples if e.split != "train"]
        used = [e for e in examples if e.split == "train"]
        if len(used) < _LEAST["train"] or len(held) < _LEAST["held out"]:
            words = (
                f"not fitted anew: {len(used)} balanced messages and {len(held)} held-out ones are "
                "too few; raise verifier.refit_every"
            )
            self.say("info", "verifier", f"step {step}: {words}", step)
            return
        verifier = self._learned()
        policy = verifier.base.policies[verifier.policy]
        kept = [weight.detach().clone() for weight in policy.parameters()]
        try:
            before, after = _fit_on(verifier, used, held, self._settings(step), self.progress)
        except TrainingError as error:
            _put_back(policy, kept)
            self.say("warning", "verifier", f"step {step}: kept as it was: {error}", step)
            return
        story = (
            f"on {len(used)} fresh messages; loss on {len(held)} held-out ones "
            f"{before:.3f} -> {after:.3f}"
        )
        if after < before:
            self.say("info", "verifier", f"step {step}: {FITTED_ANEW} {story}", step)
        else:
            _put_back(policy, kept)
            self.say(
                "info", "verifier", f"step {step}: kept as it was, a fit did not help {story}", step
            )
        self.store.write_metrics(step, {"verifier/refit_loss": min(before, after)})

    def _settings(self, step: int) -> FitSettings:
        wanted = self.config.verifier.fit
        return FitSettings(
            lr=wanted.lr,
            batch=wanted.batch,
            evaluations=2,
            patience=2,
            micro_tokens=self.config.update.verifier_tokens,
            seed=stable_seed(self.config.seed, "refit", step),
        )

    def _examples(self, step: int) -> list[Example]:
        """Messages of the steps since the last refit, balanced per question and split."""
        wanted = DiscussionFilter(
            first_step=step - self.config.verifier.refit_every + 1, last_step=step, split="train"
        )
        answers = []
        with StoreReader(self.run) as reader:
            for stored in reader.discussions(wanted):
                problem = stored.discussion.problem
                answers += [
                    Answer(
                        problem.id,
                        problem.question,
                        problem.gold or "",
                        message.text,
                        message.answer,
                        message.correct,
                    )
                    for row in stored.discussion.messages
                    for message in row
                    if message.correct is not None
                ]
        selection = Selection(
            per_question=self.config.verifier.fit.per_question,
            holdout=_HOLDOUT,
            seed=stable_seed(self.config.seed, "refit", step),
        )
        return select(answers, selection)[0]


def _fit_on(
    verifier: LearnedVerifier,
    used: list[Example],
    held: list[Example],
    settings: FitSettings,
    progress: Progress,
) -> tuple[float, float]:
    """Train in place; calibrated cross-entropy on ``held`` before and after, in nats.

    The new temperature goes into the head, so that the verifier's own stays what its card says.
    """
    base, name = verifier.base, verifier.policy
    train, valid = (
        Rows(
            [encode(base.codec, e.question, e.text, verifier.max_length)[0] for e in side],
            [e.label for e in side],
        )
        for side in (used, held)
    )

    def logits() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.array(all_logits(base, name, valid.ids, settings.micro_tokens), np.float64)

    before = log_loss(logits() / verifier.temperature, valid.labels)
    try:
        fit(base, name, train, valid, settings, progress)
    finally:
        base.zero_grad()
    found = logits()
    temperature = fit_temperature(found, valid.labels)
    with torch.no_grad():
        for weight in base.policies[name].value.values():
            weight.mul_(verifier.temperature / temperature)
    base.policies[name].changed()
    return before, log_loss(found / temperature, valid.labels)


@torch.no_grad()
def _put_back(policy: Policy, kept: list[torch.Tensor]) -> None:
    for weight, old in zip(policy.parameters(), kept, strict=True):
        weight.copy_(old)
    policy.changed()
