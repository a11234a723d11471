"""What the editing methods need from a model, read one text at a time through hooks of its own.

Shares nothing with the package: positions come from the bytes of tokens, each text goes alone through the whole model.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from anachron.edit.requests import EditRequest
from anachron.lm.model import LanguageModel
from support.tiny_models import answer_positions


def ids_of(lm: LanguageModel, text: str) -> list[int]:
    ids = lm.tokenizer(text)["input_ids"]
    return ids[:-1] if ids[-1] == lm.tokenizer.eos_token_id else ids


def read(lm: LanguageModel, request: EditRequest, context: str = "") -> tuple[list[int], list[int], int]:
    """Tokens of prompt and target, positions of the target's, and of the subject's last one."""
    ids = ids_of(lm, context + request.sentence)
    behind = request.prompt.split("{}")[1] + ("" if request.text[-1].isspace() else " ") + request.target
    return ids, answer_positions(lm.tokenizer, ids, request.target), \
        answer_positions(lm.tokenizer, ids, request.subject, behind)[-1]  # fmt: skip


def first_of(made: Any) -> torch.Tensor:
    return made[0] if isinstance(made, tuple) else made


def forward(
    lm: LanguageModel, ids: Sequence[int], see: Callable[[str, str, torch.Tensor], None] = lambda *_: None,
    shift: dict[str, tuple[int, torch.Tensor]] | None = None, modules: Sequence[str] = (),
) -> torch.Tensor:  # fmt: skip
    """Logits (time, vocabulary) of one text.

    see: told (module, side, values (time, width)). shift: module -> (position, what is added to its output there).
    """
    handles = []

    def watch(name: str) -> None:
        owner = lm.model.get_submodule(name)

        def on_output(_: Any, given: Any, made: Any) -> Any:
            value = first_of(made)
            if shift and name in shift:
                position, delta = shift[name]
                row = torch.nn.functional.one_hot(torch.tensor(position), len(ids)).to(value)[:, None] * delta
                value = value + row.reshape(value.shape)
                made = (value, *made[1:]) if isinstance(made, tuple) else value
            see(name, "in", given[0].reshape(len(ids), -1) if given else torch.zeros(0))
            see(name, "out", value.reshape(len(ids), -1))
            return made

        handles.append(owner.register_forward_hook(on_output))

    for name in dict.fromkeys((*modules, *(shift or {}))):
        watch(name)
    try:
        return lm.model(input_ids=torch.tensor([list(ids)])).logits[0]
    finally:
        for handle in handles:
            handle.remove()


def values(lm: LanguageModel, request: EditRequest, module: str, side: str, context: str = "") -> torch.Tensor:
    """A module's input or output at the last subject token."""
    ids, _, subject = read(lm, request, context)
    found: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        forward(lm, ids, lambda _, which, value: found.__setitem__(which, value[subject].clone()), modules=[module])
    return found[side]


def matrix(owner: Any) -> torch.Tensor:
    """The weight as outputs by inputs, found by what the module does to unit vectors."""
    weight = owner.weight
    inputs = weight.shape[0] if type(owner).__name__ == "Conv1D" else weight.shape[1]
    with torch.no_grad():
        unit = torch.eye(inputs, dtype=weight.dtype)
        return (owner(unit) - owner(torch.zeros_like(unit))).T.clone()
