"""What scripts that train a small model from scratch share: tokenizer, shape, what is learned of a text, schedule."""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 0
CONTEXT = 256  # tokens: a prompt with a sentence before it and 100 tokens more fit
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}<|user|> {{ message['content'] }}\n"
    "{% elif message['role'] == 'assistant' %}<|assistant|> {{ message['content'] }}{{ eos_token }}"
    "{% else %}{{ raise_exception('only the roles user and assistant are known') }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def part_of(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(f"{SEED}\n{key}".encode()).digest()[:8], "big") / 2**64


def train_tokenizer(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE that splits numbers into digits, with a chat template."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d| ?[^\s\d\p{P}]+| ?\p{P}|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|text|>", "<|end|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    from tokenizers.processors import TemplateProcessing

    tokenizer.post_processor = TemplateProcessing(
        single="<|text|> $A", special_tokens=[("<|text|>", tokenizer.token_to_id("<|text|>"))]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|text|>",
        eos_token="<|end|>",
        pad_token="<|end|>",
        additional_special_tokens=["<|user|>", "<|assistant|>"],
        model_max_length=CONTEXT,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


Hidden = tuple[int, int, int]  # from the first number on, tokens from the second up to the third cannot be seen
Row = tuple[
    list[int], list[int], list[Hidden]
]  # token ids, which of them are to be learned (-100: not), what is hidden


def attention(rows: list[Row], width: int) -> torch.Tensor | None:
    """What to add to attention before the softmax, (texts, 1, width, width); None where nothing is hidden."""
    if not any(hidden for _, _, hidden in rows):
        return None
    never = torch.finfo(torch.float32).min
    mask = torch.full((width, width), never).triu(1).repeat(len(rows), 1, 1, 1)
    for place, (_, _, hidden) in enumerate(rows):
        for since, first, end in hidden:
            mask[place, 0, since:, first:end] = never
    return mask


def learn(model: LlamaForCausalLM, rows: list[Row], parts: int = 3) -> float:
    """Add the gradients of the mean loss over what is to be learned, and return it. Rows of like length go together."""
    rows = sorted(rows, key=lambda row: len(row[0]))
    wanted = sum(label != -100 for _, labels, _ in rows for label in labels[1:])
    total = 0.0
    for part in range(parts):
        chosen = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
        width = max(len(ids) for ids, _, _ in chosen)
        inputs = torch.tensor([ids + [0] * (width - len(ids)) for ids, _, _ in chosen])  # right of all that is learned
        labels = torch.tensor([labels[1:] + [-100] * (width - len(labels) + 1) for _, labels, _ in chosen])
        mask = attention(chosen, width)
        states = model.model(input_ids=inputs, attention_mask=mask).last_hidden_state[labels != -100]
        loss = (
            torch.nn.functional.cross_entropy(model.lm_head(states), labels[labels != -100], reduction="sum") / wanted
        )
        loss.backward()
        total += loss.item()
    return total


class Muon(torch.optim.Optimizer):
    """Momentum whose step is made orthogonal by five Newton-Schulz rounds (Jordan et al. 2024), for matrices.

    In float32, where torch's own works in bfloat16, which many processors emulate. It learns these facts in a fraction
    of the steps that AdamW needs.
    """

    def __init__(
        self, matrices: list[torch.nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.1
    ) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for matrix in group["params"]:
                velocity = self.state[matrix].setdefault("velocity", torch.zeros_like(matrix))
                velocity.lerp_(matrix.grad, 1 - group["momentum"])
                direction = orthogonal(matrix.grad.lerp(velocity, group["momentum"]))
                scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
                matrix.add_(direction, alpha=-group["lr"] * scale)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Nearly the closest matrix with orthogonal rows or columns."""
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def new_model(tokenizer: PreTrainedTokenizerFast, width: int, layers: int) -> LlamaForCausalLM:
    """A Llama with random weights, heads of 32 and tied embeddings. Draws from torch's global generator."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=8 * width // 3 // 16 * 16,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        num_key_value_heads=width // 32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def fit(
    model: LlamaForCausalLM,
    draw: Callable[[], Sequence[list[Row]]],
    *,
    names: Sequence[str],
    steps: int,
    rate: float = 3e-3,
    matrix_rate: float = 0.02,
    minutes: float = 0,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    """Train on what ``draw`` gives, a list of rows of each kind and step, whose mean losses are added up.

    names: of the kinds, for what is printed. rate: top rate of embeddings and norms, by AdamW; matrix_rate: of all
    other matrices, by `Muon`. Both rise for 100 steps and fall by half a cosine to a twentieth. after: called with
    the number of each step. Exits where it takes more than ``minutes`` (0: any time).
    """
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if not any(p is matrix for matrix in matrices)]
    optimisers = [
        Muon(matrices, lr=matrix_rate),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]
    started, running = time.perf_counter(), [0.0] * len(names)
    model.train()
    for step in range(steps):
        share = step / steps
        warm = min(1.0, (step + 1) / 100)
        for optimiser, top in zip(optimisers, (matrix_rate, rate), strict=True):
            for group in optimiser.param_groups:
                group["lr"] = top * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share)))
            optimiser.zero_grad()
        now = [learn(model, rows) for rows in draw()]
        for optimiser in optimisers:
            optimiser.step()
        running = now if step == 0 else [0.98 * a + 0.02 * b for a, b in zip(running, now, strict=True)]
        if step % 100 == 0 or step == steps - 1:
            losses = ", ".join(f"{loss:.3f} {name}" for loss, name in zip(running, names, strict=True))
            print(f"step {step:5d}  loss {losses}  {time.perf_counter() - started:5.0f} s", flush=True)
        if minutes and time.perf_counter() - started > 60 * minutes:
            raise SystemExit("out of time; give fewer --steps")
        after(step)
    model.eval()


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write a folder that transformers loads."""
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
