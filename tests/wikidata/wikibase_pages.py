"""What is answered for one entity or article: Special:EntityData and the page views of an article."""

import re
from calendar import monthrange
from typing import Any

from wikidata.wikibase_forms import with_urls
from wikidata.wikibase_world import Redirect, World, entity_id, with_page

NO_VIEWS = (
    "The date(s) you used are valid, but we either do not have data for those date(s), or the project you asked for is "
    "not loaded yet. Please check documentation for more information."
)


def not_found(text: str, status: int = 404) -> tuple[int, bytes, dict[str, str]]:
    return status, f"<html><body><h1>{text}</h1></body></html>".encode(), {"content-type": "text/html; charset=utf-8"}


def entity_data(world: World, name: str, params: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
    """Special:EntityData, for JSON."""
    given, _, suffix = name.partition(".")
    id = entity_id(given)
    if id is None:
        return not_found(f"Invalid ID: {given}.", 400)
    if suffix != "json":
        return not_found(f"The data format {suffix} is not supported.", 415)
    asked = params.get("revision", "0")
    number = int(asked) if asked.isdecimal() else 0
    if given != id:
        where = f"/wiki/Special:EntityData/{id}.json" + (f"?revision={number}" if number else "")
        return 301, b"", {"Location": where}
    page = world.page(id)
    if number == 0:
        if page and isinstance(page.latest.content, Redirect):
            page = world.page(page.latest.content.to)
        if page is None or isinstance(page.latest.content, Redirect):
            return not_found(f"No entity with ID {id} was found.")
        revision = page.latest
    else:
        bad = f"Can't show revision {number} of entity {id}."
        found = None if page is None else next((one for one in page.visible if one.number == number), None)
        if page is None or found is None or found.hidden:
            return not_found(bad)
        if isinstance(found.content, Redirect):
            return not_found(bad, 400)
        revision = found
    entity = with_page(page, revision, revision.content)  # type: ignore[arg-type]
    if entity.get("sitelinks"):
        entity = entity | {"sitelinks": with_urls(entity["sitelinks"])}
    return 200, {"entities": {page.id: entity}}, {}


def page_views(
    world: World, project: str, access: str, agent: str, article: str, granularity: str, start: str, end: str
) -> tuple[int, Any, dict[str, str]]:
    """Views of an article by the month. Only people's are held: other agents and ways have none."""
    wrong = []
    if not all(re.fullmatch(r"20\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])(\d\d)?", text) for text in (start, end)):
        wrong.append("start timestamp is invalid, must be a valid date in YYYYMMDD format")
    if access not in ("all-access", "desktop", "mobile-app", "mobile-web"):
        wrong.append(
            "access should be equal to one of the allowed values: [all-access, desktop, mobile-app, mobile-web]"
        )
    if agent not in ("all-agents", "user", "spider", "automated"):
        wrong.append("agent should be equal to one of the allowed values: [all-agents, user, spider, automated]")
    if granularity not in ("daily", "monthly"):
        wrong.append("granularity should be equal to one of the allowed values: [daily, monthly]")
    start, end = start[:8], end[:8]
    if not wrong and start > end:
        wrong.append("start timestamp should be before the end timestamp")
    project = project.removeprefix("https://").removeprefix("www.").removesuffix(".org")
    held = (
        world.views.get((project, article.replace(" ", "_")), {}) if (access, agent) == ("all-access", "user") else {}
    )
    whole = [
        month for month in _months(start, end) if start <= month.replace("-", "") + "01" and _last_day(month) <= end
    ]
    if not wrong and granularity == "monthly" and not whole:
        wrong.append("no full months found in specified date range")
    if wrong:
        return 400, {"type": "https://mediawiki.org/wiki/HyperSwitch/errors/invalid_request", "method": "get",
                     "detail": wrong, "uri": ""}, {"content-type": "application/problem+json"}  # fmt: skip
    items = [
        {"project": project, "article": article.replace(" ", "_"), "granularity": "monthly",
         "timestamp": month.replace("-", "") + "0100", "access": access, "agent": agent, "views": held[month]}
        for month in whole if month in held and granularity == "monthly" and month >= "2015-07"
    ]  # fmt: skip
    if not items:
        body = {"detail": NO_VIEWS, "method": "get", "status": 404, "title": "Not Found", "type": "about:blank"}
        return 404, body, {"content-type": "application/problem+json"}
    return 200, {"items": items}, {}


def _months(start: str, end: str) -> list[str]:
    first, last = (int(text[:4]) * 12 + int(text[4:6]) - 1 for text in (start, end))
    return [f"{number // 12}-{number % 12 + 1:02}" for number in range(first, last + 1)]


def _last_day(month: str) -> str:
    return f"{month.replace('-', '')}{monthrange(int(month[:4]), int(month[5:]))[1]:02}"
