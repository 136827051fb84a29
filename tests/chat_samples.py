"""Chat templates and a tokenizer whose ids are characters, for tests of what agents read."""

from __future__ import annotations

from small import word_tokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class Recorder:
    """A tokenizer whose ids are characters, so that text can be read back exactly."""

    def __init__(self, template, eos="<|im_end|>"):
        self.inner = word_tokenizer(chat_template=template)
        self.chat_template = template
        self.special = {eos: 1, "<|im_start|>": 2}
        self.eos_token, self.eos_token_id, self.bos_token_id = eos, 1, None
        self.all_special_tokens, self.all_special_ids = list(self.special), [1, 2]
        self.added_tokens_decoder = {}

    def apply_chat_template(self, messages, **kwargs):
        return self.inner.apply_chat_template(messages, **kwargs)

    def __call__(self, text, add_special_tokens=False):
        ids = []
        while text:
            for token, number in self.special.items():
                if text.startswith(token):
                    ids.append(number)
                    text = text[len(token) :]
                    break
            else:
                ids.append(ord(text[0]) + 10)
                text = text[1:]
        return {"input_ids": ids}

    def decode(self, ids, skip_special_tokens=False):
        names = {number: token for token, number in self.special.items()}
        return "".join(
            ("" if skip_special_tokens else names[i]) if i in names else chr(i - 10) for i in ids
        )
