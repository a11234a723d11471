"""Independent edits, made and measured, against the way the published code works, on random weights in a Llama shape.

    python benchmarks/editing.py [--updates 64] [--methods ROME MEMIT] [--threads 2] [--solve 4096] [--tokenizer DIR]

Hidden 256, 8 layers, vocabulary 32,000, float32; updates of ``mini-updates`` with their neighbours, no free text. The
published way takes one update at a time: its texts go whole through the model in every step, all logits are computed,
MEMIT solves a system as wide as the MLP, the weights are written, prompts are scored in padded batches with all logits,
the weights are put back. Ours: `make_edits` and `measure_apart`, 16 updates at a time. Both take turns on the same
updates in one process, with the same contexts, covariance and settings, and start from the clean model. Prints JSON:
evaluated updates/s, their ratio, the part of it that is editing, the largest difference of log-probabilities, and the
seconds of MEMIT's solve for one update beside the direct one.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from anachron.data.loaders import load_dataset
from anachron.data.updates.case_records import EditCase
from anachron.data.updates.cases import load_cases
from anachron.edit.base import Edit, LowRank, identified
from anachron.edit.covariance.second_moment import SecondMoment
from anachron.edit.make import make_edits, settings_for
from anachron.edit.method import Resources
from anachron.edit.passes.spread import ridge
from anachron.edit.requests import EditRequest, Marked, mark, mark_prompts
from anachron.evaluate.measure import Measures, measure_apart, pairs_of
from anachron.evaluate.requests import requests_of
from anachron.lm.model import LanguageModel
from anachron.lm.sites import find_sites
from anachron.lm.tokenizers import load_tokenizer

HIDDEN, LAYERS, INNER, VOCABULARY = 256, 8, 1024, 32_000
SCORED, PART = 32, 16  # prompts that the published way scores at a time; updates that ours takes at a time
METHODS = ("ROME", "MEMIT")
MEASURES = Measures(fluency_tokens=0)


def language_model(tokenizer: str) -> LanguageModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=1024, tie_word_embeddings=False,
    )  # fmt: skip
    return LanguageModel(LlamaForCausalLM(config).eval(), load_tokenizer(tokenizer), "random")


def contexts(lm: LanguageModel, lengths: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Beginnings of statements of ``mini``, as many and as long as those that are sampled from a trained model."""
    prompts = load_dataset("mini").table["prompt"].unique(maintain_order=True).to_list()
    found: list[str] = []
    for tokens, texts in lengths:
        for prompt in prompts[len(found) :: 7][:texts]:
            ids = lm.tokenizer(prompt, add_special_tokens=False)["input_ids"][:tokens]
            found.append(lm.tokenizer.decode(ids).strip() + ". ")
    return tuple(found)


def moment(size: int, module: str = "") -> SecondMoment:
    """C over twice as many random inputs as there are dimensions."""
    inputs = torch.randn(2 * size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = SecondMoment.of(inputs.T @ inputs / len(inputs), module)
    found.factorise()
    return found


# The published way


@dataclass
class OneAtATime:
    """One update at a time, with whole texts and all logits."""

    lm: LanguageModel
    settings: Any
    moments: dict[str, SecondMoment]

    def __post_init__(self) -> None:
        self.sites = find_sites(self.lm.model)
        self.inverse = {name: torch.linalg.inv(m.matrix).float() for name, m in self.moments.items()}

    def weight(self, module: str) -> torch.Tensor:
        return self.lm.model.get_submodule(module).weight

    def fed(self, marked: Sequence[Marked]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(len(m.ids) for m in marked)
        ids = torch.tensor([list(m.ids) + [0] * (width - len(m.ids)) for m in marked])
        return ids, torch.tensor([[1] * len(m.ids) + [0] * (width - len(m.ids)) for m in marked])

    def texts(self, request: EditRequest) -> list[Marked]:
        return [mark(self.lm.tokenizer, [request], context)[0] for context in ("", *self.settings.contexts)]

    def at_subject(self, marked: Sequence[Marked], module: str, side: str) -> torch.Tensor:
        """A module's input or output at the subject's last token."""
        found: list[torch.Tensor] = []
        ids, mask = self.fed(marked)
        rows, columns = torch.arange(len(marked)), torch.tensor([m.subject for m in marked])

        def see(_: Any, given: Any, made: Any) -> None:
            value = given[0] if side == "in" else made[0] if isinstance(made, tuple) else made
            found.append(value.detach()[rows, columns])

        with hook(self.lm.model.get_submodule(module), see), torch.no_grad():
            self.lm.model(input_ids=ids, attention_mask=mask, use_cache=False)
        return found[0]

    def value(self, request: EditRequest, module: str) -> torch.Tensor:
        """The output of a module at the subject that makes the model give the target."""
        s, texts = self.settings, self.texts(request)
        essence = mark_prompts(self.lm.tokenizer, [("{} is a", request.subject)])
        ids, mask = self.fed([*texts, *essence])
        clean = self.at_subject(texts[:1], module, "out")[0]
        delta = torch.zeros_like(clean, requires_grad=True)
        adam = torch.optim.Adam([delta], lr=s.rate)
        wanted, before = ids[: len(texts)].roll(-1, 1), None
        counted = torch.zeros(wanted.shape)
        for row, m in enumerate(texts):
            counted[row, [t - 1 for t in m.targets]] = 1 / len(m.targets)
        rows, columns = torch.arange(len(ids)), torch.tensor([m.subject for m in (*texts, *essence)])

        def shift(_: Any, __: Any, made: Any) -> Any:
            first = made[0] if isinstance(made, tuple) else made
            with_delta = first.index_put((rows, columns), first[rows, columns] + delta)
            return (with_delta, *made[1:]) if isinstance(made, tuple) else with_delta

        for step in range(s.steps):
            with hook(self.lm.model.get_submodule(module), shift):
                logits = self.lm.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            at_essence = torch.log_softmax(logits[-1, essence[0].subject], -1)
            before = at_essence.detach() if before is None else before
            logp = torch.log_softmax(logits[: len(texts)], -1).gather(2, wanted[..., None])[..., 0]
            nll_loss = -(logp * counted).sum(1).mean()
            kl_loss = (at_essence.exp() * (at_essence - before)).sum()
            loss = nll_loss + s.kl * kl_loss + s.decay * delta.norm() / clean.norm() ** 2
            if loss < s.stop_below or step == s.steps - 1:
                break
            adam.zero_grad()
            loss.backward()
            adam.step()
            with torch.no_grad():
                delta.mul_(min(1.0, float(s.clamp * clean.norm() / delta.norm().clamp_min(1e-30))))
        return (clean + delta).detach()

    def rome(self, request: EditRequest) -> None:
        module, texts = self.sites.mlp_out(self.settings.layer), self.texts(request)
        u = self.inverse[module] @ self.at_subject(texts, module, "in").mean(0)
        u = u / u.norm()
        wanted = self.value(request, module)
        key, output = (self.at_subject(texts[:1], module, side)[0] for side in ("in", "out"))
        with torch.no_grad():
            self.weight(module).add_(torch.outer((wanted - output) / (key @ u), u))

    def memit(self, request: EditRequest) -> None:
        s, texts = self.settings, self.texts(request)
        block = self.sites.block(s.layers[-1])
        wanted = self.value(request, block)
        for place, layer in enumerate(s.layers):
            module = self.sites.mlp_out(layer)
            keys = self.at_subject(texts, module, "in").double()
            key = ((keys[0] + keys[1:].mean(0)) / 2)[:, None]
            gain = (wanted - self.at_subject(texts[:1], block, "out")[0]).double() / (len(s.layers) - place)
            adjusted = torch.linalg.solve(s.weight * self.moments[module].matrix.double() + key @ key.T, key)
            with torch.no_grad():
                self.weight(module).add_((gain[:, None] @ adjusted.T).float())

    def scored(self, case: EditCase) -> np.ndarray:
        """Log-probabilities of all objects after all prompts, padded batches, all logits."""
        encoded = self.lm.encode([(prompt, answer, None) for prompt, answer in pairs_of(case, MEASURES)])
        scores = []
        for first in range(0, len(encoded), SCORED):
            some = encoded[first : first + SCORED]
            ids, mask = self.fed([Marked(e.ids, e.targets, 0) for e in some])
            with torch.no_grad():
                logp = torch.log_softmax(self.lm.model(input_ids=ids, attention_mask=mask, use_cache=False).logits, -1)
            scores += [
                sum(logp[row, t - 1, e.ids[t]].item() for t in e.targets) / len(e.targets) for row, e in enumerate(some)
            ]
        return np.array(scores)

    def run(self, method: str, cases: Sequence[EditCase]) -> tuple[list[np.ndarray], float]:
        """Mean log-probabilities a token of each update's pairs under its edit, and the seconds that editing took."""
        self.lm.model.requires_grad_(False)
        edit = {"ROME": self.rome, "MEMIT": self.memit}[method]
        found, seconds = [], 0.0
        for case in cases:
            saved = {name: self.weight(name).detach().clone() for name in self.moments}
            started = time.perf_counter()
            edit(requests_of(case, method)[0])
            seconds += time.perf_counter() - started
            found.append(self.scored(case))
            for name, weight in saved.items():
                self.weight(name).data.copy_(weight)
        return found, seconds


@contextmanager
def hook(module: Any, function: Callable[..., Any]) -> Iterator[None]:
    handle = module.register_forward_hook(function)
    try:
        yield
    finally:
        handle.remove()


# Ours


def ours(
    lm: LanguageModel, method: str, cases: Sequence[EditCase], settings: Any, resources: Resources
) -> tuple[list[np.ndarray], float]:
    requests = [requests_of(case, method)[0] for case in cases]
    edits = make_edits(lm, method, requests, settings, resources)
    made = [edit for edit in edits if isinstance(edit, Edit)]
    results = measure_apart(lm, list(zip(cases, made, strict=True)), MEASURES)
    found = []
    for result in results:
        targets = [t[kind] for t in result.targets for kind in ("new", "old") if t[kind] is not None]
        found.append(np.log([*targets, *(n["p"] for n in result.neighbours)]))
    return found, sum(edit.about["seconds"] for edit in made)


def in_order(case: EditCase, scores: np.ndarray) -> np.ndarray:
    """The published way's numbers in the order of ours: prompts of the update, then the mean of each neighbour."""
    p = dict(zip(pairs_of(case, MEASURES), np.exp(scores), strict=True))
    targets = [p[prompt, o] for prompt in (case.text, *case.generalization) for o in (case.new, case.old) if o]
    return np.log([*targets, *(np.mean([p[n.prompt, o] for o in n.objects]) for n in (*case.nearest, *case.random))])


def measure(method: str, lm: LanguageModel, cases: Sequence[EditCase]) -> dict[str, Any]:
    sites = find_sites(lm.model)
    settings = settings_for(method, lm, sites)[0]
    settings = replace(settings, averaged_key=False) if method == "ROME" else settings  # as published
    settings = replace(settings, contexts=contexts(lm, settings.context_lengths))
    layers = settings.layers if method == "MEMIT" else (settings.layer,)
    moments = {sites.mlp_out(layer): moment(INNER, sites.mlp_out(layer)) for layer in layers}
    published = OneAtATime(lm, settings, moments)
    ways: dict[str, Callable[[Sequence[EditCase]], tuple[list[np.ndarray], float]]] = {
        "published": lambda some: published.run(method, some),
        "anachron": lambda some: ours(lm, method, some, settings, Resources(moments)),
    }
    whole, editing, gap = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0), 0.0
    with identified(lm):
        for way in ways.values():
            way(cases[:1])  # warm-up
        for first in range(0, len(cases), PART):
            some, found = cases[first : first + PART], {}
            for name, way in ways.items():
                started = time.perf_counter()
                found[name], seconds = way(some)
                whole[name] += time.perf_counter() - started
                editing[name] += seconds
            for case, theirs, mine in zip(some, found["published"], found["anachron"], strict=True):
                gap = max(gap, float(np.abs(in_order(case, theirs) - mine).max()))
            print(f"{method}: {first + len(some)} updates, seconds {whole}", file=sys.stderr)
    rates = {name: len(cases) / seconds for name, seconds in whole.items()}
    return {
        "method": method, "layers": list(layers), "steps": settings.steps, "contexts": len(settings.contexts),
        "updates": len(cases), "updates_per_second": rates, "speedup": rates["anachron"] / rates["published"],
        "seconds_an_edit": {name: seconds / len(cases) for name, seconds in editing.items()},
        "speedup_of_editing": editing["published"] / editing["anachron"], "largest_difference": gap,
    }  # fmt: skip


def solve(size: int, rounds: int = 5) -> dict[str, Any]:
    """MEMIT's solve of one layer for one update, C factorised before, against the direct one."""
    started = time.perf_counter()
    held = moment(size)
    prepared = time.perf_counter() - started
    chooser = torch.Generator().manual_seed(2)
    key, gain = (torch.randn(n, 1, generator=chooser, dtype=torch.float64) for n in (size, HIDDEN))
    weight = 15_000 * size / 16_384

    def direct() -> torch.Tensor:
        return gain @ torch.linalg.solve(weight * held.matrix + key @ key.T, key).T

    def woodbury() -> LowRank:
        return ridge(key, gain, held.inverse_times(key), weight)

    wanted, found = direct(), woodbury().dense()
    seconds = {"direct": median(direct, rounds), "anachron": median(woodbury, rounds)}
    return {
        "size": size, "seconds": seconds, "speedup": seconds["direct"] / seconds["anachron"],
        "covariance_and_factors_once": prepared,
        "largest_relative_difference": float((found - wanted).abs().max() / wanted.abs().max()),
    }  # fmt: skip


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def median(work: Callable[[], Any], rounds: int) -> float:
    return float(np.median([timed(work) for _ in range(rounds)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=64)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--solve", type=int, default=4096, help="width of the MLP of MEMIT's solve; 0 for none")
    parser.add_argument("--tokenizer", default="demo", help="the demo model's small one, or a folder")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases = load_cases("mini-updates").cases[: options.updates]
    lm = language_model(options.tokenizer)
    results = [measure(method, lm, cases) for method in options.methods]
    shape = f"Llama shape, hidden {HIDDEN}, {LAYERS} layers, vocabulary {VOCABULARY}, float32, random weights"
    found = {"about": {"model": shape, "threads": options.threads, "tokenizer": options.tokenizer}, "results": results}
    print(json.dumps(found | ({"solve": solve(options.solve)} if options.solve else {}), indent=2))


if __name__ == "__main__":
    main()
