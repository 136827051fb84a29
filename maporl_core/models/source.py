"""Where a base model is read from: a name becomes a place that from_pretrained takes.

In: one ``[bases.<name>]`` section.  Out: a ``Source``, or a ModelError in one line.
Neighbours: ``safety`` looks at what is there, ``loading`` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from maporl_core.config.schema import BaseModelConfig
from maporl_core.errors import ModelError
from maporl_core.kit.plain_text import one_line
from maporl_core.kit.user_paths import exists, is_file, is_folder, user_path, whole_path
from maporl_core.models.assets import VARIANTS, asset_path
from maporl_core.models.safety import check_beside, check_file_names, check_folder

_HUB_TIMEOUT = 10.0  # seconds for the first question to the hub
_LOCAL_HINT = "give a local folder or a .gguf file instead"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is read from, as from_pretrained takes it."""

    shown: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)
    gguf: bool = False


def find(config: BaseModelConfig) -> Source:
    """A built-in model, a ``.gguf`` file, a local folder or a hub id, in this order."""
    name = config.model
    if name in VARIANTS:
        return Source(name, str(asset_path(name)))
    path, shown = user_path(name), one_line(name)
    if path.suffix.lower() == ".gguf":
        if not is_file(path):
            raise ModelError(f"{shown}: no such file")
        check_beside(shown, path)
        return Source(shown, str(path.parent), {"gguf_file": path.name}, gguf=True)
    if is_folder(path):
        check_folder(shown, path)
        return Source(shown, str(path))
    if exists(path):
        raise ModelError(f"{shown}: is a file; give the model's folder or a .gguf file")
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise ModelError(f"{shown}: no such folder")
    return _ask_hub(config)


def lasting_name(name: str) -> str:
    """A model's name as others may read it elsewhere: a hub id, or a path from the root on."""
    path = user_path(name)
    local = name not in VARIANTS and (is_folder(path) or is_file(path))
    return whole_path(path) if local else name


def _ask_hub(config: BaseModelConfig) -> Source:
    """One question before any download: is it there, has it safe weights, or are we offline?"""
    name, shown = config.model, one_line(config.model)
    options = {"revision": config.revision} if config.revision else {}
    try:
        info = HfApi().model_info(name, revision=config.revision, timeout=_HUB_TIMEOUT)
    except HfHubHTTPError as error:
        raise ModelError(
            f"{shown}: neither a local folder nor a model the hub gives out ({short(error)}); "
            f"check the name, log in with: hf auth login, or {_LOCAL_HINT}"
        ) from error
    except HFValidationError as error:
        raise ModelError(f"{shown}: neither a local folder nor a hub id") from error
    except Exception:  # noqa: BLE001  the hub client's network errors change with its HTTP library
        # No hub in reach: what an earlier run downloaded is good enough.
        return Source(shown, name, {**options, "local_files_only": True})
    check_file_names(shown, [sibling.rfilename for sibling in info.siblings or []])
    return Source(shown, name, options)


@contextmanager
def named(source: Source) -> Iterator[None]:
    """Turn whatever a loader raises into one line that names the model."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        text = str(error)
        if "trust_remote_code" in text:
            raise ModelError(
                f"{source.shown}: this model needs code of its own; "
                "set trust_remote_code = true for its base if you trust it"
            ) from error
        if source.options.get("local_files_only"):
            raise ModelError(
                f"{source.shown}: not a local folder, the hub cannot be reached and no copy of "
                f"it was downloaded before; {_LOCAL_HINT}"
            ) from error
        raise ModelError(f"{source.shown}: cannot be loaded ({short(error)})") from error


def short(error: Exception) -> str:
    """The first line an error has to say, of bounded length and without control codes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)
