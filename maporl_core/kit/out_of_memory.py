"""Whether an error says that memory ran out, on whatever device.  Loads no torch.

Neighbours: ``learning.micro_tokens`` and the engine try again with less, ``cli`` explains the rest.
"""

from __future__ import annotations

_SAYS = (
    "can't allocate memory",  # torch's CPU allocator
    "cannot allocate memory",
    "not enough memory",  # the same on Windows
    "ALLOC_FAILED",  # cuBLAS and cuDNN
    "out of memory",  # CUDA's own calls
)


def out_of_memory(error: BaseException) -> bool:
    """True for MemoryError, torch's OutOfMemoryError, and what allocators raise as RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _SAYS)
