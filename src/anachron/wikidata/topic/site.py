"""Where a Wikibase answers: its addresses, of Wikidata or of a company's own.

Documented forms, which the live services are expected to have:

* ``URL/w/api.php``: the action API of MediaWiki (https://www.mediawiki.org/wiki/API:Main_page), with the module
  ``wbgetentities`` of Wikibase.
* ``URL/wiki/Special:EntityData/ID.json?revision=N``: an entity as of one revision
  (https://www.wikidata.org/wiki/Wikidata:Data_access).
* the query service takes ``query`` and gives JSON of SPARQL 1.1 where the request asks for it.
* page views of an article: the REST API of Wikimedia (https://wikimedia.org/api/rest_v1/).
"""

from dataclasses import dataclass

from anachron.io.servers import QUERY_URL, VIEWS_URL, WIKIDATA_URL, check_address


@dataclass(frozen=True)
class Site:
    """The addresses of a Wikibase. sparql, views: those of Wikidata where it is Wikidata, else none unless given.

    Raises `ConfigError` for what is no address of HTTP.
    """

    url: str = WIKIDATA_URL
    sparql: str | None = None
    views: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", self.url.rstrip("/"))
        known = self.url == WIKIDATA_URL
        object.__setattr__(self, "sparql", self.sparql or (QUERY_URL if known else None))
        object.__setattr__(self, "views", (self.views or VIEWS_URL).rstrip("/") if self.views or known else None)
        for address in (self.url, self.sparql, self.views):
            if address is not None:
                check_address(address)

    @property
    def api(self) -> str:
        return f"{self.url}/w/api.php"

    def entity(self, id: str, revision: int) -> str:
        """The address of an entity as of one of its revisions."""
        return f"{self.url}/wiki/Special:EntityData/{id}.json?revision={revision}"
