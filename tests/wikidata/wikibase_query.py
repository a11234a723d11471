"""``action=query`` of api.php: pages with their revisions or their last one, and the log of deletions.

The rules stand in `wikidata.wikibase_api`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from wikidata.wikibase_forms import ROWS, TEXTS, Answer, Refusal, Room, limit, moment, several
from wikidata.wikibase_world import NAMESPACES, Json, Page, Redirect, Revision, World


def query(world: World, params: dict[str, str], answer: Answer) -> None:
    found: Json = {}
    props, lists = several(params, "prop"), several(params, "list")
    for name in props:
        if name not in ("revisions", "info"):
            answer.warn("query", f'Unrecognized value for parameter "prop": {name}.')
    pages, missing = _page_set(world, params, found, answer)
    rows: dict[str, Json] = {}  # by the key of version 1: the page's number, or a number below 0
    for page in pages:
        rows[str(page.number)] = {"pageid": page.number, "ns": page.namespace, "title": page.title}
    for place, (title, namespace) in enumerate(missing):
        rows[str(-1 - place)] = {"ns": namespace, "title": title, "missing": answer.mark()}
    going_on: Json = {}
    if "info" in props:
        for page in pages:
            rows[str(page.number)] |= _info(page, answer)
        for row in rows.values():
            if "missing" in row:
                row |= {"contentmodel": _model(row["title"]), "pagelanguage": "en"}
    if "revisions" in props:
        _revisions(world, params, pages, rows, going_on, answer)
    if "logevents" in lists:
        _logevents(world, params, found, going_on, answer)
    if rows:
        found["pages"] = list(rows.values()) if answer.version == 2 else rows
    answer.body = {"query": found} if found else {}
    if going_on:
        answer.body = {"continue": going_on | {"continue": "||" if rows else "-||"}} | answer.body
    else:
        answer.body = {"batchcomplete": answer.mark()} | answer.body


def _page_set(
    world: World, params: dict[str, str], found: Json, answer: Answer
) -> tuple[list[Page], list[tuple[str, int]]]:
    """The pages that are asked for, in the order of their numbers as the database gives them, and titles of nothing."""
    given = [name for name in ("titles", "pageids", "revids") if params.get(name)]
    if len(given) > 1:
        raise Refusal("invalidparammix", f"The parameters {' and '.join(given)} can not be used together.")
    pages: dict[int, Page] = {}
    missing: list[tuple[str, int]] = []
    titles = []
    for title in several(params, "titles"):
        usual = title.replace("_", " ").strip()
        usual = usual[:1].upper() + usual[1:]
        if usual != title:
            found.setdefault("normalized", []).append({"from": title, "to": usual} | (
                {"fromencoded": False} if answer.version == 2 else {}))  # fmt: skip
        titles.append(usual)
    if "redirects" in params:
        titles = [_followed(world, title, found) for title in titles]
    for title in dict.fromkeys(titles):
        page = world.by_title.get(title)
        if page is None or page.deleted:
            missing.append((title, 120 if title.startswith("Property:") else 0))
        else:
            pages[page.number] = page
    for text in several(params, "pageids"):
        page = world.by_number.get(int(text))
        if page and not page.deleted:
            pages[page.number] = page
    for text in several(params, "revids"):
        page = next((one for one in world.pages.values() if int(text) in {rev.number for rev in one.visible}), None)
        if page is None:
            found.setdefault("badrevids", {})[text] = {"revid": int(text), "missing": answer.mark()}
        else:
            pages[page.number] = page
    return [pages[number] for number in sorted(pages)], missing


def _followed(world: World, title: str, found: Json) -> str:
    page = world.by_title.get(title)
    if page is None or page.deleted or not isinstance(page.latest.content, Redirect):
        return title
    to = page.latest.content.to
    target = NAMESPACES[to[0]][1] + to
    found.setdefault("redirects", []).append({"from": title, "to": target})
    return target


def _model(title: str) -> str:
    return "wikibase-property" if title.startswith("Property:") else "wikibase-item"


def _info(page: Page, answer: Answer) -> Json:
    last = page.latest
    redirect = {"redirect": answer.mark()} if isinstance(last.content, Redirect) else {}
    return {
        "contentmodel": _model(page.title), "pagelanguage": "en", "pagelanguagehtmlcode": "en",
        "pagelanguagedir": "ltr", "touched": last.timestamp, "lastrevid": last.number,
        "length": len(text_of(page, last)), **redirect,
    }  # fmt: skip


def text_of(page: Page, revision: Revision) -> str:
    """The content as the wiki stores it: without page, revision and datatypes of snaks; a redirect is a small one."""
    if isinstance(revision.content, Redirect):
        return json.dumps({"entity": page.id, "redirect": revision.content.to})
    inner = {k: v for k, v in revision.content.items()  # type: ignore[union-attr]
             if k not in ("pageid", "ns", "title", "lastrevid", "modified")}  # fmt: skip
    return json.dumps(_without_datatypes(inner), ensure_ascii=False)


def _without_datatypes(value: Any) -> Any:
    if isinstance(value, dict):
        snak = "snaktype" in value
        return {k: _without_datatypes(v) for k, v in value.items() if not (snak and k == "datatype")}
    return [_without_datatypes(one) for one in value] if isinstance(value, list) else value


def _revisions(
    world: World, params: dict[str, str], pages: list[Page], rows: dict[str, Json], going_on: Json, answer: Answer
) -> None:
    alone = [name for name in ("rvlimit", "rvstart", "rvend", "rvstartid", "rvendid") if name in params]
    alone += ["rvdir"] if params.get("rvdir") == "newer" else []
    if alone and params.get("revids"):
        raise Refusal("invalidparammix", 'The "revids" parameter may not be used with the list options.')
    if len(pages) > 1 and alone:
        raise Refusal(
            "invalidparammix",
            '"titles", "pageids" or a generator was used to supply multiple pages, but the "rvlimit", "rvstartid", '
            '"rvendid", "rvdir=newer", "rvuser", "rvexcludeuser", "rvstart", and "rvend" parameters may only be used '
            "on a single page.",
        )
    if not pages:
        return
    props = several(params, "rvprop", "ids|timestamp|flags|comment|user")
    most = TEXTS if "content" in props else ROWS
    if alone:
        chosen, key = (
            _enumerated(params, pages[0]),
            lambda page, one: f"{re.sub('[^0-9]', '', one.timestamp)}|{one.number}",
        )
        count = limit(params, "rvlimit", most, answer, "revisions")
    else:
        numbers = set(map(int, several(params, "revids")))
        chosen, key = (
            [(page, one) for page in pages
             for one in (page.visible if numbers else [page.latest]) if one.number in (numbers or {one.number})],
            lambda page, one: f"{page.number}|{one.number}",
        )  # fmt: skip
        count = most
        if begin := params.get("rvcontinue"):
            first = tuple(int(part) for part in begin.split("|"))
            chosen = [(page, one) for page, one in chosen if (page.number, one.number) >= first]
    room = Room(world, answer)
    for place, (page, one) in enumerate(chosen):
        row = _row(page, one, props, "rvslots" in params, answer)
        if place == count or not room.takes(row):
            going_on["rvcontinue"] = key(page, one)
            return
        rows[str(page.number)].setdefault("revisions", []).append(row)


def _enumerated(params: dict[str, str], page: Page) -> list[tuple[Page, Revision]]:
    newer = params.get("rvdir", "older") == "newer"
    ordered = sorted(page.visible, key=lambda one: (one.timestamp, one.number), reverse=not newer)
    start, end = moment(params, "rvstart"), moment(params, "rvend")
    times = {one.number: one.timestamp for one in page.revisions}
    for name in ("rvstartid", "rvendid"):
        if name in params and int(params[name]) not in times:
            raise Refusal(f"badid_{name}", f"No revision was found for parameter {name}.")
    before: Callable[[Any, Any], bool] = (lambda a, b: a <= b) if newer else (lambda a, b: a >= b)
    kept: Iterable[Revision] = ordered
    if start:
        kept = [one for one in kept if before(start, one.timestamp)]
    if end:
        kept = [one for one in kept if before(one.timestamp, end)]
    if "rvstartid" in params:
        first = (times[int(params["rvstartid"])], int(params["rvstartid"]))
        kept = [one for one in kept if before(first, (one.timestamp, one.number))]
    if "rvendid" in params:
        last = (times[int(params["rvendid"])], int(params["rvendid"]))
        kept = [one for one in kept if before((one.timestamp, one.number), last)]
    if begin := params.get("rvcontinue"):
        stamp, number = begin.split("|")
        at = (f"{datetime.strptime(stamp, '%Y%m%d%H%M%S'):%Y-%m-%dT%H:%M:%SZ}", int(number))
        kept = [one for one in kept if before(at, (one.timestamp, one.number))]
    return [(page, one) for one in kept]


def _row(page: Page, one: Revision, props: list[str], slots: bool, answer: Answer) -> Json:
    row: Json = {}
    before = [earlier.number for earlier in page.visible if earlier.number < one.number]
    if "ids" in props:
        row |= {"revid": one.number, "parentid": max(before, default=0)}
    if "flags" in props:
        row |= {"minor": False} if answer.version == 2 else {}
    if "user" in props:
        row["user"] = "Somebody"
    if "timestamp" in props:
        row["timestamp"] = one.timestamp
    text = text_of(page, one)
    if "size" in props:
        row["size"] = len(text)
    if "sha1" in props:
        row |= {"sha1hidden": answer.mark()} if one.hidden else {"sha1": hashlib.sha1(text.encode()).hexdigest()}
    if "comment" in props:
        row["comment"] = ""
    if "tags" in props:
        row["tags"] = []
    if "content" in props or "contentmodel" in props:
        slot = {"contentmodel": _model(page.title)}
        if "content" in props:
            name = "content" if answer.version == 2 else "*"
            slot |= {"texthidden": answer.mark()} if one.hidden else {"contentformat": "application/json", name: text}
        if not slots:
            answer.warn(
                "revisions", 'Because "rvslots" was not specified, a legacy format has been used for the output.'
            )
        row |= {"slots": {"main": slot}} if slots else slot
    return row


def _logevents(world: World, params: dict[str, str], found: Json, going_on: Json, answer: Answer) -> None:
    """Deletions (``letype=delete``, ``leaction=delete/delete``), of one title where it is given."""
    events = []
    for page in world.pages.values():
        events += [(one.timestamp, one.number, page) for one in page.revisions if one.content is None]
    if "letitle" in params:
        events = [event for event in events if event[2].title == params["letitle"].replace("_", " ")]
    if params.get("letype", "delete") != "delete" or params.get("leaction", "delete/delete") != "delete/delete":
        events = []
    newer = params.get("ledir", "older") == "newer"
    start, end = moment(params, "lestart"), moment(params, "leend")
    low, high = (start, end) if newer else (end, start)
    events = [event for event in events if (low or "") <= event[0] <= (high or "9")]
    events.sort(key=lambda event: event[:2], reverse=not newer)
    if begin := params.get("lecontinue"):
        places = [f"{re.sub('[^0-9]', '', stamp)}|{number}" for stamp, number, _ in events]
        events = events[places.index(begin) :]
    count = limit(params, "lelimit", ROWS, answer, "logevents")
    if len(events) > count:
        going_on["lecontinue"] = f"{re.sub('[^0-9]', '', events[count][0])}|{events[count][1]}"
    found["logevents"] = [
        {"logid": number, "ns": page.namespace, "title": page.title, "pageid": 0, "logpage": page.number, "params": {},
         "type": "delete", "action": "delete", "user": "Somebody", "timestamp": stamp, "comment": ""}
        for stamp, number, page in events[:count]
    ]  # fmt: skip
