"""One error type per boundary, each with the exit code its command ends with.

The message of every error is one line that says what is wrong and what to do.  Commands
print it without a traceback unless ``--debug`` is given.  Exit codes: 0 done, 2 wrong usage
or config, 3 data, 4 model or device, 5 store or disk, 130 interrupted after saving.
"""

from __future__ import annotations


class MaporlError(Exception):
    """Base of everything this project raises on purpose."""

    exit_code = 1


class ConfigError(MaporlError):
    """A key, value or combination in the config or on the command line is wrong."""

    exit_code = 2


class DataError(MaporlError):
    """A dataset, split or row cannot be read."""

    exit_code = 3


class ModelError(MaporlError):
    """A model, tokenizer, adapter or device cannot be used."""

    exit_code = 4


class TrainingError(ModelError):
    """Training stopped by itself: loss not finite, device lost."""


class StoreError(MaporlError):
    """The run store or a checkpoint cannot be read or written."""

    exit_code = 5


class Interrupted(MaporlError):
    """The run was asked to stop and saved a checkpoint first."""

    exit_code = 130
