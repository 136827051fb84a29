"""The recipe of the built-in models: a folder in Hugging Face format, made from nothing.

``build`` teaches a small model with the text of the pocket task and the discussion's own prompts.
It needs torch, so it is imported by those who build.  ``models.assets`` knows where the models that
come with the package lie.
"""
