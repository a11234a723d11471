"""What commands write to: never one of their inputs, nothing that somebody else made, and one process at a time.

An option whose value is written to carries an `Output` in its annotation, and `anachron.cli.groups.grouped` puts the
rules round the command:

* An output that is an input, by real path, is refused, and so is a name that is too long for its disk.
* A file is replaced where its manifest says that the same command made it from the same inputs (``made_by``), and is
  still as it was written; otherwise only with ``--overwrite``. An unfinished command of these inputs, which a hidden
  file beside the output names, may be repeated too.
* A second process that would write to the same place is refused in one line, before it has done any work.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from typer.models import ArgumentInfo

from anachron.core.errors import ConfigError, DataError
from anachron.io.servers import public_url
from anachron.io.stores import Place, place

if TYPE_CHECKING:
    from anachron.io.files import Json


def _nothing(out: "Place") -> Iterable["Place"]:
    return ()


@dataclass(frozen=True)
class Output:
    """Marks an option as what a command writes to.

    kind: ``file``, held to all the rules; ``kept``, a file that the command itself replaces by nothing else;
    ``folder``, whose content the command knows to be its own or not; ``run``, a run folder, which is locked by itself
    and belongs to one set of settings; ``grown``, a file to which calls append, one after the other. beside: the
    files, further than the manifest, that are written with a file. named: a run folder that is called by its command,
    model and data where none is given (`default_out`).
    """

    kind: Literal["file", "kept", "folder", "run", "grown"]
    beside: Callable[["Place"], Iterable["Place"]] = _nothing
    named: bool = False


def _beside_questions(out: "Place") -> Iterable["Place"]:
    return [out.with_name(f"{out.name}.failed.jsonl")]


def _beside_statements(out: "Place") -> Iterable["Place"]:
    from anachron.data.build_statements import left_out_of, sources_of
    from anachron.data.card import card_of

    return left_out_of(out), sources_of(out), card_of(out)


def _beside_updates(out: "Place") -> Iterable["Place"]:
    from anachron.wikidata.updates.build import companions

    files = companions(out).values()
    return [*files, *map(_manifest, files)]


FILE, KEPT, FOLDER, RUN = Output("file"), Output("kept"), Output("folder"), Output("run")
GROWN = Output("grown")
QUESTIONS, STATEMENTS = Output("file", _beside_questions), Output("file", _beside_statements)
UPDATES = Output("file", _beside_updates)
NAMED_FOLDER, NAMED_RUN = Output("folder", named=True), Output("run", named=True)
RUNS, DEFAULT_RUN = Path("runs"), Path("runs/NAME")  # where runs lie, and how the help calls the default
LONGEST = 80  # letters of a default name
# Options that are texts: what a file is made of without being a path, what may be a path, and a word or a file
NO_PATHS = frozenset(
    {"method", "llm", "base_url", "revision", "dataset_revision", "split", "instances_of", "with_", "in_"}
)
DECIDING = NO_PATHS | {"updates", "dataset", "topic_", "items"}
NAMING = frozenset({"changes", "corpus", "text", "tokenizer", "without"})
WORDS = frozenset({"language", "prefix"})
HELD_AGAINST = frozenset({"baseline", "reuse"})  # read, and others on each day, but not what a file is made of
CACHES = frozenset({"cache", "answers"})  # folders of many commands: neither input nor output of one
BUNDLED = frozenset({"demo", "demo-untrained", "mini", "mini-updates", "mini-changes"})  # a folder may be called so
SPARE = 40  # bytes of a name: a manifest's ending, and what a file is called while it is written


def outputs_of(annotations: Mapping[str, Any]) -> dict[str, Output]:
    """The outputs among a command's parameters, by name."""
    return {
        name: marker
        for name, annotation in annotations.items()
        for marker in get_args(annotation)
        if isinstance(marker, Output)
    }


def default_out(command: str, values: Mapping[str, Any]) -> Path:
    """``runs/check-gpt2-facts``: where a command puts a run that is given no place, of its models and data.

    The same command has the same place, so that it goes on there when it is repeated after a kill; with other settings
    the folder refuses it. Of a path or a hub name the last part counts; a name that is too long ends in its checksum.
    """
    data = (values.get(name) for name in ("dataset", "facts", "updates", "changes"))
    models = values["model"] if isinstance(values["model"], list) else [values["model"]]
    names = [one for given in models for one in ([given] if _exists(given) else given.split(","))]
    parts = [Path(name.replace("\0", "_")).resolve().name for name in names]  # as it is called in tables
    parts += [Path(str(one)).stem for one in data if one is not None]
    name = re.sub(r"[^\w.-]+", "_", "-".join([*command.split(), *parts]))
    if len(name) > LONGEST:
        name = f"{name[: LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return RUNS / name


@contextmanager
def guarded(
    command: str, annotations: Mapping[str, Any], values: Mapping[str, Any], *, overwrite: bool
) -> Iterator[None]:
    """Hold a command to the rules above while it runs. command: as it is typed. values: of all its parameters.

    Raises `ConfigError` for an output that may not be written.
    """
    outputs = {name: (mark, values[name]) for name, mark in outputs_of(annotations).items() if values[name] is not None}
    if not outputs:
        yield
        return
    inputs = _inputs(annotations, values)
    paths = [(name, place(value)) for name, given in inputs.items() for value in given if _is_path(name, value)]
    seen: dict[Any, str] = {_real(path): name for name, path in paths}
    for name, (mark, value) in outputs.items():
        out, option = _named_place(value), _option(name, annotations)
        _check_name(out, option)
        for written in (out, *_beside(mark, out)):
            if (found := seen.get(_real(written))) is not None:
                what = f"{option} {out}" if written == out else f"{written}, which {option} {out} writes too,"
                raise ConfigError(
                    f"{what} is the input itself, which {_option(found, annotations)} names; choose another"
                )
        seen[_real(out)] = name
    with ExitStack() as stack:
        for name, (mark, value) in outputs.items():
            if mark.kind not in ("run", "grown"):
                given = [path for _, path in paths]
                held = HeldOutput(_named_place(value), _option(name, annotations), mark, command, inputs, given)
                stack.enter_context(held.kept(overwrite=overwrite))
        yield


def _option(name: str, annotations: Mapping[str, Any]) -> str:
    """A parameter as it is typed."""
    (info,) = (part for part in get_args(annotations[name]) if hasattr(part, "param_decls"))
    named = [text for text in info.param_decls or () if text.startswith("--")]
    if isinstance(info, ArgumentInfo):
        return name.upper()
    return named[0] if named else f"--{name.rstrip('_').replace('_', '-')}"


def _inputs(annotations: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of files, models and data that a command is given, by parameter, in the parameters' order."""
    found: dict[str, list[str]] = {}
    outputs = outputs_of(annotations)
    for name, value in values.items():
        several = value if isinstance(value, list | tuple) else [value]
        texts = [str(one) for one in several if isinstance(one, str | Path)]
        if name in outputs or name in CACHES or not texts:
            continue
        base, *parts = get_args(annotations[name]) or (annotations[name],)
        named = name in DECIDING or Path in (base, *get_args(base)) or any(isinstance(p, ArgumentInfo) for p in parts)
        there = name in NAMING | WORDS and any(_exists(text, file=name in WORDS) for text in texts)
        if named or there:
            found[name] = texts
    return found


def _is_path(name: str, value: str) -> bool:
    return (
        name not in NO_PATHS and value not in BUNDLED and ("://" not in value or value.startswith(("s3://", "gs://")))
    )


def _exists(text: str, *, file: bool = False) -> bool:
    try:
        return bool(text) and (Path(text).is_file() if file else os.path.lexists(text))
    except ValueError:  # no path: it holds a NUL
        return False


def _real(path: "Place") -> Any:
    return os.path.realpath(path) if isinstance(path, Path) else str(path)


def _named_place(value: "Place | str") -> "Place":
    """Where an output lies, by a path that ends in its name: ``.`` and ``..`` do not."""
    out = place(value)
    return out.resolve() if isinstance(out, Path) and out.name in ("", "..") else out


def _beside(mark: Output, out: "Place") -> list["Place"]:
    return [_manifest(out), *mark.beside(out)] if mark.kind in ("file", "kept") else []


def _manifest(out: "Place") -> "Place":
    return out.with_name(f"{out.name}.manifest.json")


def _check_name(out: "Place", option: str) -> None:
    if not isinstance(out, Path):
        return
    if not out.name:
        raise ConfigError(f"{option} {out} is the whole disk; name a folder or a file")
    name = len(os.fsencode(out.name)) + SPARE
    if max(name, *(len(os.fsencode(part)) for part in out.parts)) > 255 or len(os.fsencode(out.absolute())) > 3800:
        raise ConfigError(
            f"{option} {out.name[:20]}...: a name of {name - SPARE} bytes is too long, or the path is; with what is "
            f"written beside it, {255 - SPARE} bytes fit: choose a shorter one"
        )


@dataclass(frozen=True)
class HeldOutput:
    """One output of one command."""

    out: "Place"
    option: str
    mark: Output
    command: str
    inputs: dict[str, list[str]]
    given: list["Place"]

    @contextmanager
    def kept(self, *, overwrite: bool) -> Iterator[None]:
        """Check that the output may be written, and keep other processes away while the command does it."""
        from anachron.io.files import remove_file, write_json
        from anachron.io.jobs import locked

        if self._is_alone():
            yield
            return
        new = _missing(self.out.parent) if isinstance(self.out, Path) else []
        try:
            with locked(self._hidden("lock"), self.out, elsewhere=f"choose another {self.option}", remove=True):
                if self.mark.kind != "file":
                    yield
                    return
                self._check(overwrite=overwrite)
                unfinished, before = self._hidden("json"), _state(self.out)
                write_json(unfinished, self._made_by())
                try:
                    yield
                finally:
                    if _state(self.out) != before:
                        self._record()
                    remove_file(unfinished)
        finally:
            for folder in new:  # of a command that wrote nothing, nothing stays
                with suppress(OSError):
                    folder.rmdir()

    def _is_alone(self) -> bool:
        """Whether it is a folder beside which nothing may be written, such as a volume of a container: no lock fits."""
        if self.mark.kind != "folder" or not isinstance(self.out, Path) or not self.out.is_dir():
            return False
        return not os.access(self.out.parent, os.W_OK)

    def _hidden(self, ending: str) -> "Place":
        return self.out.with_name(f".{self.out.name}.making.{ending}")

    def _made_by(self) -> "Json":
        """The command and its inputs; files by their way from the output, so that both may be moved together.

        Of an address nothing is kept that may be a secret.
        """
        made_of = {name: of for name, of in self.inputs.items() if name not in HELD_AGAINST}
        return {"command": self.command, **{name: [self._named(name, v) for v in of] for name, of in made_of.items()}}

    def _named(self, name: str, value: str) -> str:
        if "://" in value:
            return public_url(value)
        if not _is_path(name, value) or not isinstance(self.out, Path) or not _exists(value):
            return value
        try:
            return Path(os.path.relpath(os.path.realpath(value), os.path.realpath(self.out.parent))).as_posix()
        except ValueError:  # Windows: another drive
            return os.path.realpath(value)

    def _check(self, *, overwrite: bool) -> None:
        """Raise `ConfigError` for a file that is not to be replaced."""
        if self.out.exists() and not self.out.is_file():
            what = "a folder" if self.out.is_dir() else "a device, pipe or socket"
            raise ConfigError(f"{self.option} {self.out} is {what}; name a file")
        there = [path for path in (self.out, *_beside(self.mark, self.out)) if path.exists()]
        if not there or (fault := self._fault(there)) is None:
            return
        if self.out in there and not overwrite:
            raise ConfigError(
                f"{self.option} {self.out} is there already, and {fault}; choose another name, or replace it with "
                "--overwrite"
            )
        if not overwrite:
            raise ConfigError(
                f"{there[0]}, which {self.option} {self.out} writes too, is there already, and {fault}; choose another "
                "name, or replace it with --overwrite"
            )
        if self.out in there and self._manifest() is None and (of := self._input_around()) is not None:
            raise ConfigError(f"{self.option} {self.out} is a file of the input {of}; choose another")

    def _fault(self, there: list["Place"]) -> str | None:
        """Why files that are there are not the same command's; None where they are."""
        from anachron.io.files import file_fingerprint, read_json
        from anachron.io.jobs import differences

        made_by = self._made_by()
        with suppress(DataError):  # a broken one says nothing
            if self._hidden("json").is_file() and read_json(self._hidden("json")) == made_by:
                return None
        manifest = self._manifest()
        if manifest is None:
            return "no manifest beside it says that this command made it"
        if self.out not in there:
            return None  # what is left beside a file that was removed
        known = manifest.get("made_by")
        if not isinstance(known, dict):
            return f"its manifest ({manifest.get('command')}) does not say from which inputs it was made"
        if apart := differences(known, made_by):
            return f"another command or other inputs made it ({'; '.join(apart)})"
        if isinstance(self.out, Path) and manifest.get("sha256") != file_fingerprint(self.out):
            return "it was changed since it was made"
        return None

    def _manifest(self) -> "Json | None":
        from anachron.io.files import read_json

        try:
            manifest = read_json(_manifest(self.out))
        except DataError:
            return None
        return manifest if isinstance(manifest, dict) and manifest.get("output") == self.out.name else None

    def _input_around(self) -> "Place | None":
        """The input, a folder, that the output lies in."""
        around = Path(_real(self.out)).parents if isinstance(self.out, Path) else ()
        return next((path for path in self.given if isinstance(path, Path) and Path(_real(path)) in around), None)

    def _record(self) -> None:
        """Say in the manifest of what was written who made it; a file without one gets it."""
        from anachron.io.files import file_fingerprint, write_json, write_manifest

        if not self.out.is_file():
            return
        manifest = self._manifest()
        local = isinstance(self.out, Path)
        if manifest is None or (local and manifest.get("sha256") != file_fingerprint(self.out)):
            read = {str(path): file_fingerprint(path) for path in self.given if path.is_file()}
            write_manifest(self.out, command=self.command, parameters={}, inputs=read, counts={})
            manifest = self._manifest() or {}
        write_json(_manifest(self.out), manifest | {"made_by": self._made_by()})


def _state(path: "Place") -> Any:
    """What tells a file from the one that replaces it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return tuple(getattr(found, name, None) for name in ("st_ino", "st_mtime_ns", "st_mtime", "st_size"))


def _missing(folder: Path) -> list[Path]:
    """Folders that are not there yet, the innermost first."""
    return [path for path in (folder, *folder.parents) if not path.exists()]
