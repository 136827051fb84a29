"""Base models: from a name to a frozen causal LM with its tokenizer, on a device.

In: one ``[bases.<name>]`` section.  Out: a ``policy.LoadedModel``.
A name is, in this order: a built-in model, a ``.gguf`` file, a local folder, a hub id.
Neighbours: ``assembly`` calls ``loading.load`` and hands the result to ``policy.Policies``.
``assets`` alone loads no torch.

Weights are read from safetensors or GGUF only, never unpickled, and no code that comes with a
model runs unless ``trust_remote_code`` is set.  Importing this package loads no torch.
"""
