"""The chart of advice by its formula, its page against the run's tables, and the options of its command line."""

import html
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from anachron.advise.balance import PARTS
from anachron.advise.cost import COSTS_FILE
from anachron.advise.rule import ADVICE_FILE
from anachron.advise.run import ORACLE, PILOT, PILOT_FILE, WAYS_FILE
from anachron.cli.main import run_command
from anachron.data.updates.cases import load_cases
from anachron.evaluate.results import UNEDITED
from anachron.report.advice import EDGE, EXAMPLES, HEIGHT, LABEL, LINE, PAGE, WIDTH, chart_points

GIVEN, TRIED = 5, ["nothing", "PROMPT", "FT"]
UPDATES = ["--updates", "mini-updates", "--limit", str(GIVEN)]
ALONE = ["--set", "evidence=0", "--set", "fluency_tokens=0", "--set", "text=none"]
ADVISE = ["advise", "demo", *UPDATES, "--ways", ",".join(TRIED[1:]), "--sizes", "1,2", *ALONE]
LEFT, RIGHT, TOP, BOTTOM = EDGE, WIDTH - EDGE - LABEL, EDGE, HEIGHT - EDGE  # of where points stand


def ways(rows: dict[str, tuple[float | None, ...]]) -> pl.DataFrame:
    """Of each way the four parts."""
    schema = {"way": pl.String, **dict.fromkeys(PARTS, pl.Float64)}
    return pl.DataFrame([(way, *parts) for way, parts in rows.items()], schema=schema, orient="row")


def test_points_stand_where_the_formula_says() -> None:
    """What got better broke nothing, a part that is not known weighs nothing, and one whose present is not known has no
    place; numbers by hand."""
    table = ways(
        {UNEDITED: (0.1, 0.9, 1.0, 1.0), "PROMPT": (0.9, 0.5, 0.9, None), "MEMIT": (0.5, 0.3, 0.4, 1.0),
         "LoRA": (0.05, 1.0, 0.8, 0.8), "GRACE": (None, 0.9, 1.0, 1.0), ORACLE: (1.0, 0.9, 1.0, 1.0)}
    )  # fmt: skip
    points = chart_points(table, {"present": 9.0, "past": 2.0, "others": 1.0, "fluency": 1.0})
    wanted = {
        "nothing": (0.0, 0.0), "PROMPT": (0.8, (2 * 0.4 + 0.1) / 3), "MEMIT": (0.4, (2 * 0.6 + 0.6) / 4),
        "LoRA": (-0.05, (0.2 + 0.2) / 4), ORACLE: (0.9, 0.0),
    }  # fmt: skip
    assert [point["way"] for point in points] == list(wanted)
    assert [point["oracle"] for point in points] == [False, False, False, False, True]
    for point in points:
        gained, broken = wanted[point["way"]]
        assert (point["gained"], point["broken"]) == pytest.approx((gained, broken))
        assert point["x"] == pytest.approx(LEFT + (RIGHT - LEFT) * broken / 0.45, abs=0.051)
        assert point["y"] == pytest.approx(BOTTOM - (BOTTOM - TOP) * (gained + 0.05) / 0.95, abs=0.051)
    assert (points[1]["x"], points[1]["y"]) == (344.7, 78.4)
    corners = [(points[place]["x"], points[place]["y"]) for place in (4, 2)]
    assert corners[0] == (LEFT, TOP) and corners[1][0] == RIGHT
    assert points[3]["y"] == BOTTOM


def test_small_differences_are_not_drawn_large() -> None:
    """The axes reach 0.1 at least."""
    weights = dict.fromkeys(PARTS, 1.0)
    rows = {UNEDITED: (0.5, 0.5, 1.0, 1.0), "PROMPT": (0.55, 0.35, 1.0, 1.0)}
    nothing, prompt = chart_points(ways(rows), weights)
    assert (nothing["x"], nothing["y"]) == (LEFT, BOTTOM)
    assert (prompt["x"], prompt["y"]) == ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2)


@pytest.mark.parametrize(("gained", "step"), [(0.9, LINE), (0.0, -LINE)])
def test_names_of_points_in_one_place_stand_one_below_the_other(gained: float, step: int) -> None:
    """Or above it in the lower half, so that none leaves the picture."""
    same = {f"way {number}": (gained, 0.5, 1.0, 1.0) for number in range(8)}
    points = chart_points(ways({UNEDITED: (0.0, 1.0, 1.0, 1.0), **same}), dict.fromkeys(PARTS, 1.0))
    assert len({(point["x"], point["y"]) for point in points[1:]}) == 1
    first = points[1]["y"] + 4
    assert [point["text_y"] for point in points[1:]] == pytest.approx([first + step * place for place in range(8)])
    assert all(0 < point["text_y"] < HEIGHT for point in points)


def test_without_any_other_part_that_weighs_there_is_no_chart() -> None:
    rows = {UNEDITED: (0.0, 1.0, 1.0, None), "PROMPT": (1.0, 0.5, 1.0, None)}
    assert chart_points(ways(rows), {"present": 1.0, "past": 0.0, "others": 0.0, "fluency": 1.0}) == []


@pytest.fixture(scope="module")
def advised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("advised") / "run"
    assert run_command([*ADVISE, "--out", str(out)], False) == 0
    return out


@pytest.mark.full
def test_the_page_has_one_chart_with_the_points_of_the_table(advised: Path) -> None:
    """Those of the last size; what each shows is computed again from the table of ways."""
    page = (advised / PAGE).read_text()
    assert page.count("<svg") == 1
    circles = re.findall(
        r'<circle cx="([\d.]+)" cy="([\d.]+)".*?<title>(.*?): gained (\S+), broken (\S+)</title>', page
    )
    rows = {row["way"]: row for row in pl.read_csv(advised / WAYS_FILE).filter(size=2).iter_rows(named=True)}
    nothing = rows[UNEDITED]
    gained = {way: row["present"] - nothing["present"] for way, row in rows.items()}
    broken = {
        way: sum(max(0.0, nothing[part] - row[part]) for part in ("past", "others")) / 2 for way, row in rows.items()
    }
    most, high, low = max(0.1, *broken.values()), max(0.1, *gained.values()), min(0.0, *gained.values())
    wanted = [
        (
            round(LEFT + (RIGHT - LEFT) * broken[way] / most, 1),
            round(BOTTOM - (BOTTOM - TOP) * (gained[way] - low) / (high - low), 1),
            "nothing" if way == UNEDITED else way, f"{gained[way]:+.2f}", f"{broken[way]:.2f}",
        )
        for way in rows
    ]  # fmt: skip
    assert [(float(x), float(y), *said) for x, y, *said in circles] == wanted
    assert [way for _, _, way, *_ in wanted] == [*TRIED, ORACLE] and len({one[:2] for one in wanted}) > 1


@pytest.mark.full
def test_the_page_has_a_few_examples_of_each_way_as_they_are_in_the_table(advised: Path) -> None:
    page = (advised / PAGE).read_text()
    (section,) = re.findall(r'<section id="examples".*?</section>', page, re.DOTALL)
    _, *shown = section.split("<h3")
    assert len(shown) == EXAMPLES
    table = pl.read_parquet(advised / "at-00002" / "generations.parquet").filter(kind="update")
    texts: dict[str, list[str]] = {way: [] for way in TRIED}
    for part, case in zip(shown, load_cases("mini-updates", limit=GIVEN).cases, strict=False):
        read = html.unescape(part)
        assert f">{case.text} …</h3>" in read and f"now {case.new}, before {case.old}</p>" in read
        said = {way: html.unescape(text) for way, text in re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", part, re.S)}
        of_case = {row["method"]: row for row in table.filter(case_id=case.case_id).iter_rows(named=True)}
        assert said == {
            "nothing": of_case["FT"]["text_before"], **{way: of_case[way]["text_after"] for way in TRIED[1:]}
        }  # fmt: skip
        for way, text in said.items():
            texts[way].append(text)
    assert {way: len(of_way) for way, of_way in texts.items()} == dict.fromkeys(TRIED, EXAMPLES)
    assert texts["FT"] != texts["nothing"]  # else they could be anyone's


def printed_balances(text: str) -> list[str]:
    """The last cells of the first table on the screen, a row a way."""
    table = text[text.index("Balance") : text.index("└")]
    return [line.split("│")[-2].strip() for line in table.splitlines() if line.startswith("│")]


@pytest.mark.full
def test_weights_of_the_command_line_are_those_of_the_balance(
    advised: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a folder that is there nothing is measured again. As each part is known of all updates or of none, the mean
    balance is that of the means."""
    monkeypatch.setenv("COLUMNS", "250")
    out = tmp_path / "run"
    shutil.copytree(advised, out)
    kept = {path: path.read_bytes() for path in (*out.rglob("*.parquet"), out / COSTS_FILE)}
    before = pl.read_csv(out / WAYS_FILE)
    assert run_command([*ADVISE, "--out", str(out), "--weigh", "past=2", "--weigh", "present=5"], False) == 0
    weights = {"present": 5.0, "past": 2.0, "others": 1.0, "fluency": 0.5}
    advice, after = json.loads((out / ADVICE_FILE).read_text()), pl.read_csv(out / WAYS_FILE)
    assert advice["weights"] == weights
    assert after.select(PARTS).equals(before.select(PARTS)) and not after["balance"].equals(before["balance"])
    wanted = []
    for row, other in zip(after.iter_rows(named=True), before.iter_rows(named=True), strict=True):
        assert [row[f"{part}_n"] for part in PARTS] == [*[row["balance_n"]] * 3, 0]
        wanted.append((5 * row["present"] + 2 * row["past"] + row["others"]) / 8)
        assert row["balance"] == pytest.approx(wanted[-1])
        assert other["balance"] == pytest.approx((row["present"] + row["past"] + row["others"]) / 3)
    assert [row["balance"] for row in advice["ways"]] == pytest.approx(wanted)
    shown = [f"{100 * row['balance']:.1f} [{100 * row['balance_low']:.1f}, {100 * row['balance_high']:.1f}]"
             for row in after.iter_rows(named=True)]  # fmt: skip
    assert printed_balances(capsys.readouterr().out) == shown
    assert all(f"<td>{cell}</td>" in (out / PAGE).read_text() for cell in shown)
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        ("past", "--weigh past: write PART=NUMBER, for instance past=2"),
        ("past=much", "--weigh past=much: write PART=NUMBER"),
        ("x=1", "weight of 'x': weights are of present, past, others, fluency"),
        ("past=-1", "weight of past is -1.0; give a number from 0 on"),
    ],
)
def test_a_wrong_weight_is_refused_before_anything_is_loaded(
    weight: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no such model, which nobody has looked at by then."""
    out = tmp_path / "run"
    words = ["advise", str(tmp_path / "model"), *UPDATES, "--ways", "PROMPT", "--out", str(out), "--weigh", weight]
    assert run_command(words, False) == 2
    assert told in " ".join(capsys.readouterr().err.split()) and not out.exists()


@pytest.mark.full
@pytest.mark.parametrize(("minutes", "tried"), [("0.000001", 1), ("100000", GIVEN)])
def test_a_budget_of_the_command_line_is_kept(
    minutes: str, tried: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that suffices for nothing but one update, and one for all."""
    words = ["advise", "demo", *UPDATES, "--ways", "PROMPT", *ALONE, "--out", str(tmp_path / "run")]
    assert run_command([*words, "--budget-minutes", minutes], False) == 0
    pilot = json.loads((tmp_path / "run" / PILOT_FILE).read_text())
    assert pilot["updates"] == PILOT and pilot["seconds"] > 0
    advice = json.loads((tmp_path / "run" / ADVICE_FILE).read_text())
    assert (advice["tried"], advice["given"], advice["size"]) == (tried, GIVEN, tried)
    said = " ".join(capsys.readouterr().err.split())
    assert (f"suffice for about {tried} of {GIVEN} updates" in said) == (tried < GIVEN)
    one_by_one = pl.read_parquet(tmp_path / "run" / "at-00001" / "updates.parquet")
    assert one_by_one.filter(method="PROMPT").height == tried
