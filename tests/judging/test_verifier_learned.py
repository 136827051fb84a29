"""A verifier as one more policy: what it reads, how it is saved, what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from judged_samples import judged
from safetensors.torch import load_file, save_file
from small import EOS, small_llama, word_tokenizer

from maporl_core.config.schema import BaseModelConfig, PolicyConfig
from maporl_core.errors import DataError, ModelError
from maporl_core.judging.verifier import files
from maporl_core.judging.verifier.data import Example
from maporl_core.judging.verifier.fit import FitSettings, Rows, _step, fit
from maporl_core.judging.verifier.head import all_logits, encode, row_batches
from maporl_core.judging.verifier.learned import POLICY, LearnedVerifier
from maporl_core.judging.verifier.saved import read_saved
from maporl_core.kit.progress import Silent
from maporl_core.models.adapter_files import ADAPTER_FILE, VALUE_FILE
from maporl_core.models.assets import asset_path
from maporl_core.models.chat_codec import ChatCodec
from maporl_core.models.loading import load
from maporl_core.models.policy import Base, LoadedModel
from maporl_core.runs.verifier.fitting import fit_verifier, load_verifier
from maporl_core.runs.verifier.scoring import score_file
from maporl_core.types import Message, Problem

SHAPE = PolicyConfig(rank=4, alpha=8.0)


def base(perturb: float = 0.3, **policies: PolicyConfig) -> Base:
    loaded = LoadedModel(small_llama(), word_tokenizer(), 512)
    made = Base("main", BaseModelConfig(), loaded, {**policies, POLICY: SHAPE}, seed=0)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for policy in made.policies.values():
            for weight in policy.parameters():
                weight.add_(torch.randn(weight.shape, generator=generator) * perturb)
    return made


def message(text: str, answer: str | None = "1") -> Message:
    return Message(0, 0, None, (), (), (), text, "stop", answer=answer, correct=False)


def problem(question: str) -> Problem:
    return Problem(question, question, None, "own", "own")


# --- what is read --------------------------------------------------------------------------------


def test_the_end_token_is_read_although_it_is_the_pad_token() -> None:
    made = base()
    with_end, without = all_logits(made, POLICY, [[5, 6, 7, EOS], [5, 6, 7]], 1000)
    assert abs(with_end - without) > 1e-3
    ids, _ = encode(made.codec, "w5 w6", "w7", 550)
    assert ids[-1] == EOS


def test_logits_are_the_same_alone_in_any_batch_and_padded_on_the_left() -> None:
    made = base()
    rows = [[5, 6, 7, EOS], [9], [5, EOS, EOS, 8, 3, EOS], [5, 6, 7]]
    alone = [all_logits(made, POLICY, [row], 1000)[0] for row in rows]
    assert all_logits(made, POLICY, rows, 1000) == pytest.approx(alone, abs=1e-5)
    assert all_logits(made, POLICY, rows, 1) == pytest.approx(alone, abs=1e-5)
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), EOS)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, width - len(row) :] = torch.tensor(row)
        mask[place, width - len(row) :] = 1
    index = torch.full((len(rows),), made.row(POLICY))
    with torch.no_grad(), made.route(index):
        left = made.values(made.hidden(ids, mask)[:, -1], index)
    assert left.tolist() == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_tokenizers_own_padding_side_changes_nothing(side: str) -> None:
    made = base()
    made.codec.tokenizer.padding_side = side
    verifier = LearnedVerifier(made, temperature=1.0, max_length=550)
    found = verifier.probabilities([("w5 w6", "w7 w8 w9"), ("w5", "w7")])
    assert found[1] == pytest.approx(verifier.probabilities([("w5", "w7")])[0], abs=1e-5)


def test_rows_are_batched_by_their_padded_tokens() -> None:
    assert row_batches([3, 10, 2, 3], 9) == [[2, 0, 3], [1]]
    assert row_batches([], 9) == []


def test_a_row_that_is_too_long_keeps_its_end() -> None:
    codec = ChatCodec(word_tokenizer())
    whole, cut = encode(codec, "w5 w6", "w7 w8", 550)
    assert not cut
    assert encode(codec, "w5 w6", "w7 w8", 3) == (whole[-3:], True)


def test_the_built_in_models_are_read_as_the_tokens_they_wrote() -> None:
    tokenizer = load(BaseModelConfig(model="pocket"), torch.device("cpu"), 0).tokenizer
    codec = ChatCodec(tokenizer)
    question, answer = "Mia has 12 pens, gets 7 or 9 and loses 4. How many?", "9: 12 + 9 = 21"
    opening = codec.opening_ids("", question)
    ids, _ = encode(codec, question, answer, 550)
    assert ids[: len(opening)] == opening
    assert codec.decode(ids[len(opening) :]) == " " + answer
    assert tokenizer.decode(ids).endswith(tokenizer.eos_token)
    assert tokenizer.unk_token_id not in ids
    assert len(ids) == len(opening) + 7 + 1  # " 9", ":", " 12", " +", " 9", " =", " 21" and the end


# --- scores --------------------------------------------------------------------------------------


def test_scores_are_calibrated_and_exactly_0_without_an_answer() -> None:
    made = base()
    verifier = LearnedVerifier(made, temperature=2.0, max_length=550)
    asked = [problem("w5"), problem("w6"), problem("w5")]
    said = [message("w7"), message("w8", None), message(" w7 ")]
    scores = verifier.score(judged(asked, said, [0, 1, 2]))
    (logit,) = all_logits(made, POLICY, [encode(made.codec, "w5", "w7", 550)[0]], 1000)
    expected = float(torch.sigmoid(torch.tensor(logit / 2.0)))
    assert scores == [pytest.approx(expected, abs=1e-6), 0.0, scores[0]]
    assert verifier.score(judged([], [], [])) == []


def test_other_policies_on_the_base_do_not_change_a_score() -> None:
    made = base(Ada=PolicyConfig())
    verifier = LearnedVerifier(made, temperature=1.0, max_length=550)
    before = verifier.probabilities([("w5", "w7")])
    with torch.no_grad():
        for weight in made.policies["Ada"].parameters():
            weight.add_(1.0)
    assert verifier.probabilities([("w5", "w7")]) == before


# --- training ------------------------------------------------------------------------------------

WORDS = [[5 + a, 20 + b, EOS] for a in range(6) for b in range(6)]
RULE = Rows(WORDS, [ids[1] % 2 == 0 for ids in WORDS])


def test_training_learns_a_rule_and_touches_nothing_else() -> None:
    made = base(0.0, Ada=PolicyConfig())
    frozen = made.frozen_hash()
    other = [weight.clone() for weight in made.policies["Ada"].parameters()]
    settings = FitSettings(rank=4, alpha=8.0, lr=1e-2, epochs=25, batch=12, patience=99)
    history = fit(made, POLICY, RULE, RULE, settings, Silent())
    logits = all_logits(made, POLICY, RULE.ids, 1000)
    assert [logit > 0 for logit in logits] == RULE.labels
    assert history.looks[0].valid_loss > 5 * history.best_loss
    assert made.frozen_hash() == frozen
    after = made.policies["Ada"].parameters()
    assert all(torch.equal(a, b) for a, b in zip(other, after, strict=True))


@pytest.mark.parametrize("micro_tokens", [1, 7])
def test_micro_batches_do_not_change_the_gradient(micro_tokens: int) -> None:
    rows = Rows([[5, 6, EOS], [7, EOS], [8, 9, 10, 11, EOS]], [True, False, True])
    found = []
    for tokens in (1000, micro_tokens):
        made = base()
        weights = made.policies[POLICY].parameters()
        settings = FitSettings(micro_tokens=tokens, max_grad_norm=1e9)
        _step(made, POLICY, rows, [0, 1, 2], settings, weights)
        found.append(torch.cat([w.grad.reshape(-1).clone() for w in weights if w.grad is not None]))
    assert torch.allclose(found[0], found[1], rtol=1e-4, atol=1e-6)
    assert found[0].abs().max() > 0


def test_the_weights_kept_are_those_that_scored_held_out_rows_best() -> None:
    made = base(0.0)
    opposite = Rows(RULE.ids, [not label for label in RULE.labels])
    settings = FitSettings(rank=4, alpha=8.0, lr=1e-2, epochs=10, batch=12, patience=2)
    history = fit(made, POLICY, RULE, opposite, settings, Silent())
    assert history.steps < history.planned
    best = min(history.looks, key=lambda look: look.valid_loss)
    assert (history.best_step, history.best_loss) == (best.step, best.valid_loss)
    logits = torch.tensor(all_logits(made, POLICY, opposite.ids, 1000))
    labels = torch.tensor([float(label) for label in opposite.labels])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    assert float(loss) == pytest.approx(history.best_loss, abs=1e-5)


# --- on disk -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A verifier of the built-in model, trained for two steps."""
    root = tmp_path_factory.mktemp("verifier")
    rows = [
        Example(f"q{n}", f"Mia has {n} pens.", f"{n}: right", label, split, "1", 0.5)
        for n in range(8)
        for split in ("train", "valid", "test")
        for label in (True, False)
    ]
    files.write_examples(root / "data" / files.TABLE, rows)
    files.write_json(root / "data" / files.CARD, {"kind": "verifier data"})
    settings = FitSettings(rank=4, alpha=8.0, lr=1e-2, batch=8)
    model = BaseModelConfig(model="pocket")
    fit_verifier(root / "data", model, settings, root / "fitted", Silent(), "cpu")
    return root / "fitted"


PAIRS = [("Mia has 3 pens.", "3: right"), ("Leo had 9 keys, lost 2.", "7"), ("?", "")]


def copied(folder: Path, target: Path) -> Path:
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def test_a_new_process_gives_the_same_scores(fitted: Path) -> None:
    here = load_verifier(fitted, Silent(), device="cpu").probabilities(PAIRS)
    code = (
        "import json, sys; from pathlib import Path\n"
        "from maporl_core.kit.progress import Silent\n"
        "from maporl_core.runs.verifier.fitting import load_verifier\n"
        "found = load_verifier(Path(sys.argv[1]), Silent(), device='cpu')\n"
        "print(json.dumps(found.probabilities(json.loads(sys.argv[2]))))"
    )
    words = [sys.executable, "-c", code, str(fitted), json.dumps(PAIRS)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx(here, abs=1e-5)
    assert len({round(score, 9) for score in here}) == len(PAIRS)


def test_the_folder_is_a_peft_adapter_with_a_picture_and_pages(fitted: Path) -> None:
    config = json.loads((fitted / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"]) == ("LORA", 4)
    assert (fitted / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert "AUROC within questions" in (fitted / files.CARD_PAGE).read_text()
    results = json.loads((fitted / files.CARD).read_text())["results"]
    assert results["question_only"]["auroc_within_questions"] == 0.5


@pytest.mark.parametrize("file", [ADAPTER_FILE, VALUE_FILE])
@pytest.mark.parametrize("change", ["lacks", "has unexpected"])
def test_a_missing_or_unexpected_weight_is_an_error(
    fitted: Path, tmp_path: Path, file: str, change: str
) -> None:
    folder = copied(fitted, tmp_path / "v")
    tensors = load_file(folder / file)
    name = sorted(tensors)[0]
    if change == "lacks":
        tensors.pop(name)
    else:
        tensors["base_model.model.extra.lora_A.weight"] = torch.zeros(2)
    save_file(tensors, folder / file)
    with pytest.raises(ModelError, match=change):
        load_verifier(folder, Silent(), device="cpu")


def test_a_verifier_without_its_head_is_refused(fitted: Path, tmp_path: Path) -> None:
    folder = copied(fitted, tmp_path / "v")
    (folder / VALUE_FILE).unlink()
    with pytest.raises(ModelError, match="score head"):
        load_verifier(folder, Silent(), device="cpu")


def test_a_base_with_other_weights_is_refused(fitted: Path, tmp_path: Path) -> None:
    other = copied(asset_path("pocket"), tmp_path / "other")
    tensors = load_file(other / "model.safetensors")
    tensors["model.norm.weight"] += 1
    save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="other weights"):
        load_verifier(fitted, Silent(), device="cpu", base=str(other))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temperature": 0}, "impossible"),
        ({"temperature": "1"}, "damaged"),
        ({"max_length": 10**400}, "damaged"),
        ({"base": []}, "damaged"),
        ({"kind": "run"}, "no verifier"),
        ({"version": 9}, "another version"),
    ],
)
def test_a_card_that_cannot_be_is_refused(
    fitted: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    card = json.loads((fitted / files.CARD).read_text()) | change
    (tmp_path / files.CARD).write_text(json.dumps(card))
    with pytest.raises(DataError, match=said):
        read_saved(tmp_path)


def test_a_card_cannot_allow_code(fitted: Path, tmp_path: Path) -> None:
    card = json.loads((fitted / files.CARD).read_text())
    card["base"]["trust_remote_code"] = True
    (tmp_path / files.CARD).write_text(json.dumps(card))
    assert read_saved(tmp_path) == replace(read_saved(fitted))
    assert not read_saved(tmp_path).base.trust_remote_code


def test_a_file_is_scored_row_by_row_and_bad_rows_are_named(fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = [json.dumps({"question": q, "answer": a}) for q, a in PAIRS[:2]]
    path.write_text("\n".join([good[0], '{"question": "no answer"}', good[1]]) + "\n")
    with pytest.raises(DataError, match=r"a\.jsonl, line 2.*--skip-bad-rows"):
        score_file(str(path), fitted, Silent(), device="cpu")
    found = score_file(str(path), fitted, Silent(), skip_bad_rows=True, device="cpu")
    expected = load_verifier(fitted, Silent(), device="cpu").probabilities(PAIRS[:2])
    assert [row["score"] for row in found.rows] == pytest.approx(expected, abs=1e-6)
    assert [row["where"].rsplit(" ", 1)[1] for row in found.rows] == ["1", "3"]
    assert found.left_out == {"no answer": 1}
