"""What api.php answers, from its documented rules: wbgetentities, and query with revisions, info and logevents.

Looked up: the generated help of the modules (Special:ApiHelp/wbgetentities, query, query+revisions, query+info,
query+logevents), Manual:Maxlag parameter, API:Errors and warnings, API:Continue, and, where the help is silent, what
GetEntities, ResultBuilder, ApiQueryRevisions and ParamValidator do. The rules that clients stumble over:

* All errors come with the status 200 and their code in the header ``MediaWiki-API-Error`` too.
* More than 50 values of a parameter are the error ``toomanyvalues``; a limit above the highest is lowered, with a
  warning; unknown parameters are left out, with a warning.
* One text among the ids that is no id (``X1``, or above 2,147,483,647) makes the whole request ``no-such-entity``; ids
  of nothing, of deleted pages and, with ``redirects=no``, of redirects come back with ``"missing": ""``, in both
  versions of the format. A redirect to a redirect is not followed: it is missing.
* A merged item comes under the id that was asked for, with ``redirects: {from, to}``, the id of the other item and the
  page and revision of the other item.
* rvlimit, rvstart, rvend, rvdir=newer and the like want at most one page that exists (``invalidparammix``).
* The text of a hidden revision cannot be had, and it is marked (``texthidden``, ``sha1hidden``) only where the text or
  its sum is asked for; the row itself, with id and time, is listed like any other.
* What would be larger than 12,582,912 bytes is cut: entities that do not fit are left out of the answer, without a
  word but ``warnings: {result: ...}``; revisions go on with ``continue``.
"""

from wikidata.wikibase_forms import Answer, Refusal, Room, error, several, with_urls
from wikidata.wikibase_query import query
from wikidata.wikibase_world import Json, Redirect, World, entity_id, with_page

MAIN = "action format formatversion maxlag errorformat uselang origin assert requestid curtimestamp servedby utf8 ascii"
QUERY = "prop list titles pageids revids redirects continue indexpageids"
REVISIONS = "rvprop rvslots rvlimit rvstart rvend rvstartid rvendid rvdir rvcontinue"
KNOWN = {
    "wbgetentities": "ids sites titles redirects props languages languagefallback normalize sitefilter",
    "query": f"{QUERY} {REVISIONS} inprop letype leaction letitle lelimit ledir lestart leend leprop lecontinue",
}
PROPS = ("info", "sitelinks", "aliases", "labels", "descriptions", "claims", "datatype")


def call(world: World, params: dict[str, str]) -> tuple[Json, str | None]:
    """The JSON that is answered, and the code of the error where it is one."""
    version = 2 if params.get("formatversion") in ("2", "latest") else 1
    answer = Answer(version)
    action = params.get("action", "help")
    try:
        if action not in KNOWN:
            raise Refusal("badvalue", f'Unrecognized value for parameter "action": {action}.')
        if unknown := sorted(set(params) - set(MAIN.split()) - set(KNOWN[action].split())):
            plural = "s" if len(unknown) > 1 else ""
            answer.warn("main", f"Unrecognized parameter{plural}: {', '.join(unknown)}.")
        (get_entities if action == "wbgetentities" else query)(world, params, answer)
    except Refusal as refusal:
        return error(version, refusal.code, refusal.info, **refusal.more), refusal.code
    return answer.whole(), None


def lagged(version: int, seconds: float) -> Json:
    """The error of a server that is behind, where the request says ``maxlag``."""
    info = f"Waiting for all: {seconds} seconds lagged."
    return error(version, "maxlag", info, host="all", lag=seconds, type="wikibase-queryservice")


def get_entities(world: World, params: dict[str, str], answer: Answer) -> None:
    if not params.get("ids"):
        raise Refusal(
            "param-missing", 'Either provide the Item "ids" or pairs of "sites" and "titles" for corresponding pages'
        )
    ids, props = [], several(params, "props", "|".join(PROPS))
    for text in several(params, "ids"):
        id = entity_id(text)
        if id is None:
            raise Refusal("no-such-entity", f'Could not find an entity with the ID "{text}".', id=text,
                          messages=[{"name": "wikibase-api-no-such-entity", "parameters": [text]}])  # fmt: skip
        ids.append(id)
    follow = params.get("redirects", "yes") == "yes"
    languages, sites = several(params, "languages"), several(params, "sitefilter")
    room, found = Room(world, answer), {}
    for id in dict.fromkeys(ids):
        record = _record(world, id, follow, props, languages, sites)
        if room.takes(record):
            found[id] = record
    answer.body = {"entities": found, "success": 1}


def _record(world: World, id: str, follow: bool, props: list[str], languages: list[str], sites: list[str]) -> Json:
    page = world.page(id)
    if page and isinstance(page.latest.content, Redirect):
        page = world.page(page.latest.content.to) if follow else None
    if page is None or isinstance(page.latest.content, Redirect):
        return {"id": id, "missing": ""}
    whole = with_page(page, page.latest, page.latest.content)  # type: ignore[arg-type]
    head = {name: whole.pop(name) for name in ("pageid", "ns", "title", "lastrevid", "modified")}
    record = head if "info" in props else {}
    if page.id != id:
        record = record | {"redirects": {"from": id, "to": page.id}}
    for name, value in whole.items():
        if name in PROPS and name not in props and not (name == "sitelinks" and "sitelinks/urls" in props):
            continue
        if name in ("labels", "descriptions", "aliases") and languages:
            value = {code: text for code, text in dict(value).items() if code in languages}
        if name == "sitelinks":
            value = {site: link for site, link in dict(value).items() if not sites or site in sites}
            value = with_urls(value) if "sitelinks/urls" in props else value
        record[name] = value
    return record
