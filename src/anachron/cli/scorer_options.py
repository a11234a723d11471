"""Options of commands that score: how texts are put to a model, where it computes, and on how many replicas."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from anachron.cli.commands import MODEL, SERVER, as_published, setting
from anachron.cli.options import ApiKeyEnv, FormatOption, ModelOptions, PrefixOption, RayAddress, SameAs, TemplateOption
from anachron.cli.output import say, warn

if TYPE_CHECKING:
    from anachron.lm.formats import Format
    from anachron.probe.backends import Backend


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are put to a model and scored."""

    PANEL: ClassVar[str] = MODEL
    format: FormatOption = "raw"
    prefix: PrefixOption = "none"
    batch_tokens: Annotated[
        int | None, setting(min=1, help="Maximum number of tokens in a batch. Default: chosen for the device.")
    ] = None
    prefix_tree: Annotated[
        bool,
        setting(
            help="Compute shared beginnings of texts only once, if the model supports it; otherwise use padded batches."
        ),
    ] = True
    all_occurrences: Annotated[
        bool, as_published("--all-occurrences", help="Score every occurrence of the answer.")
    ] = False
    answer_in_user_turn: Annotated[
        bool, as_published("--answer-in-user-turn", help="Put the answer in the user's turn too.")
    ] = False
    native_softmax: Annotated[
        bool, as_published("--native-softmax", help="Compute the softmax in the model's dtype.")
    ] = False

    def style(self) -> "Format":
        """The format of the texts. Raises `ConfigError` for options that do not go together."""
        from anachron.lm.formats import Format
        from anachron.probe.prefixes import prefix_text

        return Format(
            self.format,  # type: ignore[arg-type]
            prefix_text(self.prefix)[1],
            all_occurrences=self.all_occurrences,
            answer_in_user_turn=self.answer_in_user_turn,
        )

    def check(self, loading: ModelOptions) -> None:
        """Raise `ConfigError` for what is wrong in the options of texts and models, before anything is loaded."""
        from anachron.lm.choices import check_dtype

        check_dtype(loading.dtype)
        self.style()


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    """Where a model computes, by which chat template and under which edit."""

    PANEL: ClassVar[str] = SERVER
    backend: Annotated[
        str,
        typer.Option(
            help="transformers, llama.cpp (GGUF), or openai for a server (--base-url); check, probe and horizon "
            "also accept chat and generate.",
            rich_help_panel=MODEL,
        ),
    ] = "transformers"
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Base URL of the server, such as http://localhost:8000/v1; openai needs /completions with echo "
            "and logprobs."
        ),
    ] = None
    api_key_env: ApiKeyEnv = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Number of concurrent requests to the server. Default: 8.")
    ] = None
    same_as: SameAs = None
    chat_template: TemplateOption = None
    edit: Annotated[
        Path | None,
        typer.Option(help="Apply an edit of this model, written by anachron edit --out.", rich_help_panel=MODEL),
    ] = None

    def place(self, **replicated: Any) -> "Backend":
        from anachron.probe.backends import Backend

        return Backend(
            backend=self.backend, base_url=self.base_url, api_key_env=self.api_key_env, concurrency=self.concurrency,
            same_as=self.same_as, **replicated,
        )  # fmt: skip

    def open(self, name: str, backend: "Backend", loading: ModelOptions, *, unopened: bool = True) -> Any:
        """The model as a scorer, in a block. unopened: open it when something must be computed."""
        from anachron.probe.backends import open_scorer

        return open_scorer(
            name,
            backend,
            chat_template=self.chat_template,
            edit=self.edit,
            warn=warn,
            notice=say,
            unopened=unopened,
            **asdict(loading),
        )


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions:
    """On how many replicas a model computes, and how repeatably."""

    PANEL: ClassVar[str] = SERVER
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of replicas of the model, on Ray. Default with --ray: as many as the cluster has GPUs."
        ),
    ] = None
    ray: RayAddress = None
    gpus_per_replica: Annotated[
        int,
        setting(
            "--gpus-per-replica",
            min=0,
            help="Number of GPUs per replica; with several, the layers are spread over them.",
        ),
    ] = 0
    deterministic: Annotated[
        bool,
        setting(
            "--deterministic",
            help="Use only algorithms that give bit-identical results every time on the same machine.",
        ),
    ] = False
