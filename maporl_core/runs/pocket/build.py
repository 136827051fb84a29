"""The built-in models: from nothing to a folder in Hugging Face format.

In: a variant and a seed.  Out: config.json, model.safetensors, tokenizer files with the chat
template, generation_config.json, and a BuildReport, kept as build.json.  Neighbours: ``teach`` is
the recipe, ``network`` what it starts from, ``gates`` what it must be able to do in the end.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from transformers import LlamaForCausalLM, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from maporl_core.errors import ModelError, StoreError
from maporl_core.kit.progress import Progress, Silent
from maporl_core.kit.user_paths import share_as
from maporl_core.models.assets import check_variant
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.runs.pocket.gates import Measures, failures, measure
from maporl_core.runs.pocket.network import fresh_network
from maporl_core.runs.pocket.teach import teach
from maporl_core.runs.pocket.tokenizer import make_tokenizer
from maporl_core.runs.pocket.variants import VARIANT

REPORT_FILE = "build.json"  # beside the weights: how they were made, and what they can do
_GATE_QUESTIONS = 500


@dataclass(frozen=True, slots=True)
class BuildReport:
    """Of a model that was made.

    ``steps`` were taken and ``tokens`` read in all; ``loss`` is in nats per said token above the
    best possible, mean of the last steps.
    """

    variant: str
    seed: int
    weights: int
    vocabulary: int
    steps: int
    tokens: int
    seconds: float
    loss: float
    measures: Measures
    failed: tuple[str, ...]


def build(
    out_dir: Path,
    seed: int = 0,
    variant: str = "pocket",
    progress: Progress | None = None,
    *,
    score_leaning: float = 0.0,
    steps: int | None = None,
    gated: bool = True,
) -> BuildReport:
    """Make a built-in model and save it in ``out_dir``; minutes on one CPU core.

    ``score_leaning`` is the share of later messages that follow the best score untold, in the
    third stage.  ``steps`` replaces the variant's own number.  The same arguments give the same
    weights on the same machine and number of threads, and the same skill elsewhere.
    Raises ModelError for an unknown variant, and for a model that fails a gate, which is then not
    saved (``gated`` False saves it all the same); StoreError when the folder cannot be written.
    """
    check_variant(variant)
    recipe = VARIANT[variant]
    progress = progress or Silent()
    started = time.monotonic()
    tokenizer = make_tokenizer(recipe)
    network = fresh_network(recipe, tokenizer, seed)
    total = recipe.steps if steps is None else steps
    taught = teach(network, tokenizer, recipe, seed, total, score_leaning, progress)
    progress.stage(f"testing {variant}")
    codec = ChatCodec(tokenizer)
    measures = measure(network.eval(), codec, _GATE_QUESTIONS if gated else 20, seed)
    failed = failures(measures)
    for line in failed:
        progress.log("warning", f"gate: {line}")
    if failed and gated:
        raise ModelError(
            f"{variant} (seed {seed}, {taught.steps} steps) was not saved, it failed "
            f"{len(failed)} of its gates: {'; '.join(failed)}; give it more steps or another seed"
        )
    report = BuildReport(
        variant=variant,
        seed=seed,
        weights=sum(weight.numel() for weight in network.parameters()),
        vocabulary=len(tokenizer),
        steps=taught.steps,
        tokens=taught.tokens,
        seconds=time.monotonic() - started,
        loss=taught.loss,
        measures=measures,
        failed=failed,
    )
    _save(network, tokenizer, report, out_dir)
    return report


def _save(
    network: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    report: BuildReport,
    out_dir: Path,
) -> None:
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        network.save_pretrained(out_dir)
        tokenizer.save_pretrained(out_dir)
        # The name every release of transformers knows; some write one of their own.
        path = out_dir / "tokenizer_config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        share_as(out_dir / "model.safetensors", like=path)
        facts = json.dumps(asdict(report), indent=2)
        (out_dir / REPORT_FILE).write_text(facts + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot write the model to {out_dir}: {error.strerror or error}"
        ) from error
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
