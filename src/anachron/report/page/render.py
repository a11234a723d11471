"""The page as text: one HTML file that holds its style, its code, Plotly and its data, and asks the network nothing."""

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np

from anachron.core.errors import ConfigError, DataError, how_to_install
from anachron.io.files import Json
from anachron.report.numbers import percent

SCRIPTS = (
    "base.js",
    "dates.js",
    "theme.js",
    "facts.js",
    "asked.js",
    "timeline.js",
    "opening.js",
    "worst.js",
    "periods.js",
    "cards.js",
    "analyses.js",
    "history.js",
    "main.js",
)


NO_SCRIPTS = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # the content policy of a page without any


def render(data: Json) -> str:
    """The page of `anachron.report.page.data.page_data`. Raises `ConfigError` where Plotly is not installed."""
    from markupsafe import Markup

    plotly = plotly_source()
    script = page_script()
    return in_page(
        "template.html",
        data,
        script=Markup(script),
        json=Markup(json_for_html(data)),
        plotly=Markup(deflate(plotly.encode())),
        policy=content_policy([script, plotly]),
        run_lines=[(item["name"], *manifest_parts(item["record"])) for item in data["manifests"]],
    )


def in_page(name: str, data: Json, **more: Any) -> str:
    """A template of this folder with its data, the style of all pages and what else it names; texts are escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_file)
    )
    template.filters["percent"] = partial(percent, floor=True, missing="–")
    wide = _file("wide.css")
    style, policy = Markup(_file("style.css") + wide), Markup(NO_SCRIPTS)
    shared = {"style": style, "wide": Markup(wide), "policy": policy, "icon": "data:,"}
    return template.get_template(name).render(data=data, **(shared | more))


def json_for_html(value: Json) -> str:
    """JSON that no text inside can end its script element with: every ``<`` is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def page_script() -> str:
    """The page's code in one closure. Its files share a scope, and have none in common with anything else."""
    text = "\n".join(_file(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{text}\n}})();'


def content_policy(scripts: Sequence[str]) -> str:
    """A policy that lets the browser run these scripts alone and load nothing from anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


def plotly_source() -> str:
    """The code of Plotly that its Python package brings. Raises `ConfigError` where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError(
            f"the report page draws with Plotly, which is not installed; {how_to_install('report')}"
        ) from None
    return str(get_plotlyjs())


def manifest_parts(record: Json | None) -> tuple[list[tuple[str, str]], str]:
    """What a reader looks for in run.json, as lines (what, value), and all of it as text. Nothing for a bare table."""
    if record is None:
        return [], ""
    settings, session = record.get("settings", {}), (record.get("sessions") or [{}])[-1]
    noise, model = record.get("noise", {}), record.get("model", {})
    lines = {
        "model": settings.get("model"),
        "parameters": f"{model['parameters']:,}" if model.get("parameters") else None,
        "format": settings.get("format"),
        "prefix": settings.get("prefix"),
        "dtype": settings.get("dtype"),
        "data set": settings.get("dataset"),
        "boundaries": settings.get("boundaries"),
        "noise": f"{noise['largest']:.2g} nats" if noise.get("largest") is not None else None,
        "hardware": ", ".join(f"{k} {v}" for k, v in session.get("hardware", {}).items()),
        "versions": ", ".join(f"{k} {v}" for k, v in session.get("versions", {}).items()),
        "finished": record.get("finished"),
    }
    return [(k, str(v)) for k, v in lines.items() if v], json.dumps(record, ensure_ascii=False, indent=2)


def _file(name: str) -> str:
    return files("anachron.report.page").joinpath(name).read_text("utf-8")


WIDTHS = (("i1", 7), ("i2", 15), ("i4", 31))
LARGEST = 2**51  # differences then stay below 2**53, where doubles, the numbers of JavaScript, have gaps


def deflate(data: bytes) -> str:
    """Bytes as base64 of a zlib stream."""
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")


def pack(values: np.ndarray, *, differences: bool = False) -> Json:
    """Whole numbers as ``type`` (of each, little-endian), ``differences`` (or plain) and ``data``.

    values: whole numbers of any numeric type, at most `LARGEST` in size; one dimension. With ``differences`` each
    number is stored as its distance from the one before, which is small where neighbours are alike. The bytes
    are ordered by their place in the number, all lowest bytes first, so that the nearly constant high ones shrink.
    Raises `DataError` for a number that is too large.
    """
    given = np.asarray(values)
    if given.size and np.abs(given).max() > LARGEST:
        raise DataError(f"{np.abs(given).max():.3g} is too large a number for a page; at most {LARGEST:.3g}")
    whole = given.astype(np.int64)
    stored = np.diff(whole, prepend=np.int64(0)) if differences else whole
    largest = int(max(stored.max(), -stored.min() - 1, 0)) if stored.size else 0
    kind = next((name for name, bits in WIDTHS if largest < 2**bits), "f8")
    typed = stored.astype(f"<{kind}")
    planes = typed.view(np.uint8).reshape(-1, typed.itemsize).T
    return {"type": kind, "differences": differences, "data": deflate(planes.tobytes())}
