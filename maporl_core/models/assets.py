"""The built-in models: where they lie.

``asset_path`` points at a folder in Hugging Face format that AutoModelForCausalLM and
AutoTokenizer read.  ``runs.pocket.build`` makes such a folder from nothing.  Importing this module
loads no torch.
"""

from __future__ import annotations

from pathlib import Path

from maporl_core.errors import ModelError
from maporl_core.kit.nearest import nearest

VARIANTS: tuple[str, ...] = ("pocket", "pocket-b")


def asset_path(variant: str = "pocket") -> Path:
    """Folder of a built-in model.  Raises ModelError for an unknown or missing one."""
    check_variant(variant)
    path = Path(__file__).parent / "built_in" / variant
    if not (path / "model.safetensors").is_file():
        raise ModelError(
            f"the built-in model {variant!r} is not in this installation; "
            f"make it with: maporl pocket build {path} --variant {variant}"
        )
    return path


def check_variant(variant: str) -> None:
    """Raises ModelError, naming the nearest one, if there is no such built-in model."""
    if variant not in VARIANTS:
        near = nearest(variant, VARIANTS)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(VARIANTS)}"
        raise ModelError(f"no built-in model {variant!r}; {hint}")
