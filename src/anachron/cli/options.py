"""Options that several commands share; groups of them are dataclasses, see `anachron.cli.groups`."""

from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from anachron.analysis.plots.words import counted
from anachron.cli.commands import MODEL, SERVER, setting
from anachron.core.errors import ConfigError
from anachron.io.llm_settings import LlmSettings
from anachron.io.servers import check_variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from anachron.core.dates import Date
    from anachron.data.own.reading import Reading
    from anachron.io.cluster import Spread


def variable_name(name: str | None) -> str | None:
    """The name of an environment variable, checked before anything is said of it: it may be the key itself."""
    if name is not None:
        check_variable(name)
    return name


def finite(option: typer.CallbackParam, number: float | None) -> float | None:
    """A number that can be counted with, which infinity and NaN are not."""
    if number is not None and not isfinite(number):
        raise ConfigError(f"{option.opts[0]} {number}: give a finite number")
    return number


def known_format(name: str) -> str:
    """The name of a format, checked before anything is imported."""
    if name not in ("raw", "chat"):
        raise ConfigError(f"format {name!r}: choose 'raw' or 'chat'")
    return name


ModelArgument = Annotated[str, typer.Argument(help="Hub name, folder, GGUF file, or demo (the bundled model).")]
DatasetArgument = Annotated[str, typer.Argument(help="A file, a hub name or the name of a bundled data set.")]
SnapshotArgument = Annotated[Path, typer.Argument(help="Snapshot folder made by wikidata ingest.")]
DUMP = "Wikidata dump: .json, .json.gz, .json.bz2 or .json.zst"
Wiki = Annotated[str, typer.Option(help="Only items with a title in this wiki become subjects; all takes every item.")]
LABELS = "Language of labels and descriptions; where it has none, those in mul are used"
LabelLanguage = Annotated[str, typer.Option(help=f"{LABELS}.")]
Sources = Annotated[list[Path], typer.Argument(help="Score tables, run folders, or folders of run folders.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
FormatOption = Annotated[
    str, typer.Option(help="raw (plain text), or chat (through the tokenizer's chat template).", callback=known_format)
]
TemplateOption = Annotated[
    Path | None,
    typer.Option("--chat-template", help="Jinja file to use as the chat template.", rich_help_panel=MODEL),
]
PrefixOption = Annotated[
    str, typer.Option(help="Text before every prompt: none, hierarchy, transfer, few-shot or a text file.")
]
Trust = Annotated[bool, typer.Option("--trust-remote-code", help="Allow running code that comes with the model.")]
Resamples = Annotated[int, setting(min=100, help="Number of bootstrap resamples.")]
Boundaries = Annotated[
    str | None,
    typer.Option(help="Boundary convention, released or paper, for a data set that does not record its own."),
]
Split = Annotated[str | None, setting(help="Split of a hub data set.")]
DatasetRevision = Annotated[str | None, setting(help="Revision of a hub data set.")]
AsOf = Annotated[
    str | None,
    typer.Option(
        help="Date, at most today, at which a file of facts was up to date: a fact without an end holds until then. "
        "Default: today."
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        help="Language of the questions and dates: a code such as fr, or a file of openings (docs/languages.md)."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns by meaning: subject=Land,object=Person; relation==capital: one for all rows."),
]
DateOrder = Annotated[
    str | None,
    typer.Option("--dates", help="Order in dates such as 08/12/2004: dmy or mdy. Default: as others show."),
]
SheetName = Annotated[str | None, setting(help="Sheet of a spreadsheet of facts. Default: the first.")]
Reuse = Annotated[
    Path | None,
    setting(help="Earlier run whose scores of the same texts, by the same model and settings, are taken over."),
]
FactsFile = Annotated[
    Path, typer.Option(help="Facts with subject, relation, object, start, end: CSV, spreadsheet, JSON or Parquet.")
]
FluencyTokens = Annotated[
    int, setting(min=0, help="Number of tokens, prompt included, to measure fluency on; 0 skips fluency.")
]
FactLimit = Annotated[int | None, typer.Option(min=1, help="Use only this many facts (a fixed sample).")]
ReadBoundaries = Annotated[
    str, typer.Option(help="Boundary convention, for start and end dates coarser than a day: released or paper.")
]
ContextSeed = Annotated[int, typer.Option(help="Seed for the random months and days.")]
SamplingOption = Annotated[str, typer.Option(help="How dates are sampled: timestress or robustness-2025.")]
PrintStyle = Annotated[
    str,
    typer.Option(
        help="Style of Markdown and LaTeX tables: plain, or paper (siunitx, best values in bold, bounds in brackets)."
    ),
]
ModelLabel = Annotated[
    str | None,
    typer.Option("--label", help="Name of the model in tables (one model only).", rich_help_panel=MODEL),
]
UpdateLimit = Annotated[int | None, typer.Option(min=1, help="Use only the first N updates.")]
RayAddress = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster (auto or host:port), or local to start one here.")
]
DumpDate = Annotated[str, typer.Option(help="Date of the dump: YYYY-MM-DD.")]
ApiKeyEnv = Annotated[
    str | None,
    typer.Option(
        help="Environment variable that holds the server's key. Default: OPENAI_API_KEY for OpenAI, otherwise none.",
        callback=variable_name,
    ),
]
LlmBaseUrl = Annotated[
    str | None,
    typer.Option(
        help="Base URL of that model's server, such as http://localhost:8000/v1. Default: OpenAI's.",
        rich_help_panel=SERVER,
    ),
]
LlmName = Annotated[
    str | None, typer.Option("--llm", help="Model that writes the questions, under the name its server uses.")
]
SameAs = Annotated[
    list[str] | None,
    typer.Option(
        "--same-as",
        help="Another address that served the same model: its cached answers and its run are taken for this server's; "
        "'unknown': those cached by versions that recorded no address. May be repeated.",
        rich_help_panel=SERVER,
    ),
]
AnswerFolder = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        help="Folder in which answers are cached. Default: one for all runs, in your cache folder.",
        rich_help_panel=SERVER,
    ),
]
PriceIn = Annotated[
    float | None,
    typer.Option(
        min=0, help="Price per million input tokens, for computing the cost.", callback=finite, rich_help_panel=SERVER
    ),
]
PriceOut = Annotated[
    float | None,
    typer.Option(min=0, help="Price per million output tokens.", callback=finite, rich_help_panel=SERVER),
]
Templates = Annotated[
    bool,
    typer.Option("--templates", help="Write questions from the templates of each relation instead of with a model."),
]
Style = Annotated[
    str,
    typer.Option(help="Wording of dates, which also sets the language of a model's questions; see build statements."),
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How a model is loaded: the options of `anachron.load_model`."""

    PANEL: ClassVar[str] = MODEL
    dtype: Annotated[str, typer.Option(help="auto (the checkpoint's own), float32, bfloat16 or float16.")] = "auto"
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 and so on. Default: a GPU if there is one.")] = (
        None
    )
    device_map: Annotated[str | None, setting(help="Spread a large model over several devices, for example auto.")] = (
        None
    )
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")] = None
    tokenizer: Annotated[str | None, setting(help="Another tokenizer: hub name, folder or GGUF file.")] = None
    trust_remote_code: Trust = False

    def load(self, name: str, chat_template: str | None = None) -> Any:
        from anachron.lm.loading import load_model

        return load_model(name, chat_template=chat_template, **asdict(self))


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How a file of facts is read."""

    columns: Columns = None
    dates: DateOrder = None
    sheet: SheetName = None

    def reading(self) -> "Reading":
        from anachron.data.own.reading import Reading, columns_of

        return Reading(columns_of(self.columns) if self.columns is not None else {}, self.dates, self.sheet)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class DatasetOptions(ReadingOptions):
    """How a data set of statements is loaded."""

    boundaries: Boundaries = None
    split: Split = None
    dataset_revision: DatasetRevision = None
    as_of: AsOf = None
    limit: FactLimit = None

    def load(self, name: str, *, as_of: "Date | None" = None, language: str | None = None) -> Any:
        """The data set; what cannot be asked of it is said. as_of: of an older run, where the option is not given."""
        from anachron.cli.output import tell_facts
        from anachron.data.loaders import load_dataset

        data = load_dataset(
            name, boundaries=self.boundaries, split=self.split, revision=self.dataset_revision,  # type: ignore[arg-type]
            as_of=self.as_of or as_of, limit=self.limit, language=language, reading=self.reading(),
        )  # fmt: skip
        tell_facts(data)
        return data


@dataclass(frozen=True, kw_only=True)
class SpreadOptions:
    """On how many processes or machines a table is worked on."""

    workers: Annotated[
        int | None,
        typer.Option(help="Number of worker processes. Default: one, or with --ray one per core of the cluster."),
    ] = None
    ray: RayAddress = None

    def over(self, progress: "Callable[[int, int], None]" = lambda done, total: None) -> "Spread":
        from anachron.io.cluster import Spread

        return Spread(self.workers, self.ray, progress)


@dataclass(frozen=True, kw_only=True)
class LlmOptions:
    """How a language model is asked that writes questions or sentences."""

    PANEL: ClassVar[str] = SERVER
    api_key_env: ApiKeyEnv = LlmSettings.api_key_env
    concurrency: Annotated[int, typer.Option(min=1, help="Number of concurrent requests.")] = LlmSettings.concurrency
    tries: Annotated[int, typer.Option(min=1, help="Attempts per request before it counts as failed.")] = (
        LlmSettings.tries
    )
    timeout: Annotated[float, typer.Option(help="Seconds without a reply after which a request is retried.")] = (
        LlmSettings.timeout
    )
    pause: Annotated[
        float, typer.Option(min=0, help="Seconds before the first retry; doubled for each further one.")
    ] = LlmSettings.pause
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature.")] = LlmSettings.temperature
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens per answer. Default: the server's limit.")
    ] = LlmSettings.max_tokens
    same_as: SameAs = None

    def settings(self, model: str, base_url: str | None) -> LlmSettings:
        return LlmSettings(model, base_url, **asdict(self))


Instructions = Annotated[
    Path | None,
    typer.Option(help="Text file with instructions for the model, in place of ours; how to reply is added to it."),
]


def instructions_in(path: Path | None) -> str | None:
    """The text of such a file. Raises `ConfigError` where it cannot be read or is empty."""
    from anachron.io.files import read_text

    if path is None:
        return None
    text = read_text(path, "--instructions").strip()
    if not text:
        raise ConfigError(f"--instructions {path} is empty; leave the option out for ours")
    return text


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How runs are compared: the options of `anachron.write_metrics`."""

    noise: Annotated[
        float | None,
        typer.Option(min=0, help="Largest difference in nats to treat as noise. Default: what each run measured."),
    ] = None
    models: Annotated[
        Path | None,
        typer.Option(help="Table of model, family, parameters, instruct, base; overrides what the runs recorded."),
    ] = None
    common_facts: Annotated[
        bool,
        typer.Option("--common-facts", help="Compare runs on different data sets, using only the facts they share."),
    ] = False
    baseline: Annotated[str | None, typer.Option(help="Model to compare the others with. Default: the first.")] = None
    top: Annotated[int, typer.Option(min=1, help="Number of most robust models to include in pooled tables.")] = 5
    present: Annotated[
        int, typer.Option(min=100, help="Year to take as the present when distances from it are computed.")
    ] = 2021
    limit: FactLimit = None
    resamples: Resamples = 1000
    seed: Annotated[int, typer.Option(help="Seed for the bootstrap.")] = 0


@dataclass(frozen=True, kw_only=True)
class UpdatesOptions:
    """Which updates of a data set are taken."""

    scenario: Annotated[
        str,
        typer.Option(
            help="Scenarios to use: ReplaceObject, Archive, AddObject, AddRelation, AddEntity; separate several "
            "with commas."
        ),
    ] = "ReplaceObject"
    limit: UpdateLimit = None
    split: Split = None
    dataset_revision: DatasetRevision = None

    def load(self, name: str, *, tell: bool = False) -> Any:
        """The updates. tell: say at once how many of the file are not among them; not those beyond the limit."""
        from anachron.cli.output import say, tell_notes
        from anachron.data.updates.cases import BEYOND_LIMIT, load_cases

        cases = load_cases(
            name, split=self.split, revision=self.dataset_revision, scenario=split_commas(self.scenario),
            limit=self.limit,
        )  # fmt: skip
        tell_notes(cases.notes)
        for reason, count in cases.left_out.items() if tell else ():
            if reason != BEYOND_LIMIT:
                say(f"left out: {counted(count, 'update')}, {reason}")
        return cases


def split_commas(text: str) -> tuple[str, ...]:
    """The parts of an option that is a list with commas between."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def update_counts(option: str, text: str) -> tuple[int, ...]:
    """Numbers of updates with commas between. Raises `ConfigError` for what is no number."""
    for number in split_commas(text):
        if not number.isascii() or not number.isdigit():
            raise ConfigError(f"{option} {text}: {number!r} is not a number of updates; write for instance 1,10,100")
    return tuple(map(int, split_commas(text)))


def layer_numbers(text: str) -> list[int]:
    """Layers written as 3, 1,2,3 or 3-8, each once. Raises `ConfigError` for anything else."""
    numbers: list[int] = []
    for part in split_commas(text) or ("",):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or not (last.isdecimal() if dash else True) or (dash and int(last) < int(first)):
            raise ConfigError(f"--layers {text!r}: write 3 or 1,2,3 or 3-8, counted from 0")
        numbers += range(int(first), int(last if dash else first) + 1)
    return list(dict.fromkeys(numbers))


def given(**options: Any) -> str | None:
    """The first option that is not None, as it is typed; None where all are."""
    return next((f"--{name.replace('_', '-')}" for name, value in options.items() if value is not None), None)
