"""Training the network of MEND: edits that give the target, and change nothing of unrelated text (MEND, section 3.2).

A step edits the model once for each of a few examples, by the network, and measures the edited models: the loss of the
target after the prompt and after a paraphrase, and the KL divergence of unrelated text. All of them run in one batch,
each text under the changes of its own example. The model itself is never written to.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from anachron.core.errors import ConfigError, DataError, ModelError
from anachron.edit.base import LowRank
from anachron.edit.methods.mend import MendNetwork, MendSettings, last_blocks, untrained_network
from anachron.edit.passes.batched_adapters import adding_output
from anachron.edit.passes.forward import batch_ids, means, nll_losses
from anachron.edit.passes.frozen import frozen
from anachron.edit.passes.gradients import Factors, gradients
from anachron.edit.tensors import Checkpoint, read_tensors
from anachron.edit.training.mend_examples import Drawn, MendExample, Prepared, draw, prepared
from anachron.io.files import Json, manifest_of, rows_fingerprint, versions
from anachron.io.jobs import ELSEWHERE, Callbacks, Warn, locked, refuse_others
from anachron.lm.model import LanguageModel
from anachron.lm.numerics import at_least_float32
from anachron.lm.scoring import ScoredText, answer_logits, target_places
from anachron.lm.sites import Sites, find_sites
from anachron.lm.temporary import together

WINDOWS = 20  # the course of the training is kept as means over so many parts of it


def train_mend(
    lm: LanguageModel,
    examples: Sequence[MendExample],
    out: Path | str,
    settings: MendSettings | None = None,
    *,
    checkpoint_every: int = 500,
    callbacks: Callbacks | None = None,
) -> MendNetwork:
    """Train the network with which the method MEND edits this model, and write it to ``out`` (.safetensors).

    An interrupted training goes on from its last checkpoint. examples: of `anachron.mend_lessons`. settings: by
    default those of the paper, for the model's last three blocks. checkpoint_every: steps that an interrupt can lose;
    the checkpoint lies beside ``out`` until the training is done. callbacks: told the steps done, of how many, the last
    losses, and warned.

    On one machine the file has the same bytes whether interrupted or not. What is there already must be of the same
    model, tokenizer, examples and settings: else `ConfigError` says what differs, also while another process trains
    into the same file. Raises `DataError` for examples that cannot be trained on and for a loss that is not a number.
    """
    sites = find_sites(lm.model)
    settings = settings or MendSettings(layers=last_blocks(sites))
    target, callbacks = Path(out), callbacks or Callbacks()
    if checkpoint_every < 1:
        raise ConfigError(f"checkpoint_every {checkpoint_every} must be at least 1 step")
    if lm.edit_of is not None:
        raise ModelError(f"an edit of {lm.name} is in force; train on the model without it")
    with locked(_beside(target, "lock"), target, remove=True):
        identity = _identity(lm, examples, settings)
        checkpoint = Checkpoint(_beside(target, "checkpoint"))
        checkpoint.check(identity)
        if target.exists():
            network = _finished(target, identity, lm)
        else:
            training = _Training(lm, prepared(lm, examples, settings, callbacks.warn), settings, sites)
            if (saved := checkpoint.load(identity)) is not None:
                training.restore(saved[0])
            training.run(
                lambda: checkpoint.save(identity, training.tensors(), {"versions": versions()}),
                checkpoint_every,
                callbacks.progress,
            )
            network = training.finished(identity, len(examples), callbacks.warn)
            network.save(target)
        checkpoint.discard()
    return network


def _beside(target: Path, ending: str) -> Path:
    return target.with_name(f".{target.name}.{ending}")


def _identity(lm: LanguageModel, examples: Sequence[MendExample], settings: MendSettings) -> Json:
    """What must be the same for a training to go on, field by field."""
    of_model = {name: value for name, value in lm.identity().items() if name not in ("model", "revision", "file")}
    examples_fingerprint = rows_fingerprint(asdict(example) for example in examples)
    identity = of_model | {"examples": examples_fingerprint} | asdict(settings)
    return dict(sorted(identity.items()))  # as it comes back out of a file


def _finished(target: Path, identity: Json, lm: LanguageModel) -> MendNetwork:
    tensors, about = read_tensors(target, ELSEWHERE)
    network = MendNetwork.of(tensors, about, target)
    refuse_others(target, network.about.get("inputs", {}), identity, "a network")
    if not Path(manifest_of(target)).exists():  # killed between the two
        network.save(target)
    return network.to(lm.device)


def step_losses(
    lm: LanguageModel, network: MendNetwork, drawn: Sequence[Drawn], factors: Mapping[str, Factors]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The edits' loss and the KL divergence of unrelated text, means over the examples in nats, through the network.

    factors: the gradients of the examples' requests.
    """
    changes = {name: (network.change(name, part.x, part.delta), part.owners) for name, part in factors.items()}
    asked = [(n, text) for n, item in enumerate(drawn) for text in (item.request, item.paraphrase) if text is not None]
    unrelated = [(n, item.unrelated) for n, item in enumerate(drawn) if item.unrelated is not None]
    # (row, column) of each target token, (2, target tokens), and of each token of unrelated text, (2, tokens)
    targets = torch.tensor(target_places([text for _, text in asked])).T
    places = [(row, c) for row, (_, text) in enumerate(unrelated) for c in range(len(text.ids) - 1)]
    tokens = torch.tensor(places, dtype=torch.int64).reshape(-1, 2).T
    with frozen(lm.model), torch.enable_grad():
        fed: list[tuple[int, ScoredText]] = [*asked, *unrelated]
        owners = torch.tensor([place for place, _ in fed])  # (texts,)
        ids = batch_ids(lm.model, [text for _, text in fed])  # (texts, length)
        rows, columns = torch.cat([targets, tokens + torch.tensor([[len(asked)], [0]])], 1)
        with together(
            adding_output(lm.model.get_submodule(name), partial(_output, change, rank_owners), owners)
            for name, (change, rank_owners) in changes.items()
        ):
            logits = answer_logits(lm.model, ids, rows, columns)  # (target tokens + tokens, vocabulary)
        nll_loss = nll_losses(logits[: targets.shape[1]], [text for _, text in asked])
        edit_loss = _mean_by(nll_loss, [place for place, _ in asked])
        if not unrelated:
            return edit_loss, torch.zeros_like(edit_loss)
        with torch.no_grad():
            clean = answer_logits(lm.model, batch_ids(lm.model, [text for _, text in unrelated]), *tokens)
            before = torch.log_softmax(at_least_float32(clean), -1)  # (tokens, vocabulary), as after
        after = torch.log_softmax(at_least_float32(logits[targets.shape[1] :]), -1)
        kl_loss = (before.exp() * (before - after)).sum(-1)  # (tokens,)
        by_text = means([len(text.ids) - 1 for _, text in unrelated]).to(kl_loss) @ kl_loss  # (texts,)
        return edit_loss, by_text.mean()


def _mean_by(values: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
    """The mean over examples of the mean over each one's texts; places rise."""
    lengths = [places.count(place) for place in dict.fromkeys(places)]
    return (means(lengths).to(values) @ values).mean()


def _output(change: LowRank, rank_owners: torch.Tensor, x: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
    """left right x, (texts, length, outputs), where each text has only the ranks of its own example.

    rank_owners: the example of each rank, (ranks,). x: (texts, length, inputs). owners: of each text, (texts,).
    """
    inner = x.to(change.right) @ change.right.T  # (texts, length, ranks)
    belongs = owners[:, None] == rank_owners.cpu()  # (texts, ranks)
    return (inner * belongs[:, None].to(inner)) @ change.left.T


class _Training:
    """The state of a training: the network, its optimiser, the losses so far (steps, 2)."""

    def __init__(self, lm: LanguageModel, examples: list[Prepared], settings: MendSettings, sites: Sites) -> None:
        self.lm, self.examples, self.settings = lm, examples, settings
        self.network = untrained_network(lm, settings, sites)
        shared, rates = list(self.network.transforms.parameters()), [self.network.rates]
        self.optimiser = torch.optim.Adam(
            [{"params": shared, "lr": settings.rate}, {"params": rates, "lr": settings.lr_rate}]
        )
        self.parameters = [*shared, *rates]
        self.losses: list[list[float]] = []

    def run(self, save: Callable[[], None], every: int, progress: Callable[..., None]) -> None:
        total = self.settings.steps
        while len(self.losses) < total:
            with torch.enable_grad():
                self.step()
            done, (edit, kl) = len(self.losses), self.losses[-1]
            if done % every == 0 and done < total:
                save()
            progress(done, total, f"loss {edit:.3f}, KL divergence {kl:.3g}")

    def step(self) -> None:
        drawn = draw(self.examples, self.settings, len(self.losses))
        factors = gradients(self.lm, [item.request for item in drawn], self.network.shapes)
        for name, part in factors.items():  # before they are used, as published
            self.network.observe(name, part.x, part.delta)
        edit_loss, kl_loss = step_losses(self.lm, self.network, drawn, factors)
        loss = self.settings.edit_weight * edit_loss + self.settings.kl_weight * kl_loss
        for parameter, grad in zip(self.parameters, torch.autograd.grad(loss, self.parameters), strict=True):
            parameter.grad = grad
        length = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        if not (torch.isfinite(loss) and torch.isfinite(length)):
            raise DataError(
                f"at step {len(self.losses) + 1} the loss of MEND is {loss.item()} and its gradient's length "
                f"{length.item()}; use a lower rate, a lower start or dtype float32"
            )
        self.optimiser.step()
        self.losses.append([edit_loss.item(), kl_loss.item()])

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that a training needs to go on from here."""
        tensors = {f"network/{name}": t for name, t in self.network.state_dict().items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam/{number}/{name}": t for name, t in state.items()}
        return tensors | {"losses": torch.tensor(self.losses, dtype=torch.float64)}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `tensors` gave."""
        parts: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            kind, _, rest = name.partition("/")
            parts.setdefault(kind, {})[rest] = tensor
        self.network.load_state_dict(parts["network"])
        states: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in parts["adam"].items():
            number, _, field = name.partition("/")
            states.setdefault(int(number), {})[field] = tensor
        self.optimiser.load_state_dict({"state": states, "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.losses = tensors["losses"].tolist()

    def finished(self, identity: Json, examples: int, warn: Warn) -> MendNetwork:
        """The network with the course of its training in it; a training that brought nothing is warned of."""
        parts = torch.tensor(self.losses, dtype=torch.float64).tensor_split(WINDOWS)
        course = [[float(value) for value in part.mean(0)] for part in parts if len(part)]
        weights = (self.settings.edit_weight, self.settings.kl_weight)
        first, last = (sum(w * v for w, v in zip(weights, course[place], strict=True)) for place in (0, -1))
        if len(course) > 1 and not last < first:
            warn(f"training did not lower the loss ({first:.4g} at the start, {last:.4g} at the end); use another rate")
        self.network.about = {
            "inputs": identity,
            "counts": {"examples": examples, "steps": len(self.losses)},
            "course": [{"edit_loss": edit, "kl_loss": kl} for edit, kl in course],
        }
        return self.network
