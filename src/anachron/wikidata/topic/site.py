"""Where a Wikibase answers: its addresses, of Wikidata or of a company's own.

What is expected of an answer stands where it is read: `anachron.wikidata.topic.entities`, ``choose`` and ``views``.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from anachron.core.errors import ConfigError
from anachron.io.servers import QUERY_URL, VIEWS_URL, WIKIDATA_URL, public_url, server_identity


@dataclass(frozen=True)
class Site:
    """The addresses of a Wikibase. sparql, views: those of Wikidata where it is Wikidata, else none unless given.

    Addresses are written down and shown, so `ConfigError` is raised for one with a user, a password or a query, and for
    what is no address of HTTP.
    """

    url: str = WIKIDATA_URL
    sparql: str | None = None
    views: str | None = None

    def __post_init__(self) -> None:
        for name, known in (("url", None), ("sparql", QUERY_URL), ("views", VIEWS_URL)):
            address = getattr(self, name) or (known if self.url == WIKIDATA_URL else None)
            if address is not None:
                if (shown := public_url(address)).casefold() != address.casefold():
                    raise ConfigError(f"{shown}: write the address without a user, a password or a query behind a ?")
                object.__setattr__(self, name, server_identity(address))

    @property
    def of_wikimedia(self) -> bool:
        """Whether Wikimedia is asked for any of it, which wants manners of its own."""
        hosts = [urlsplit(address).hostname for address in (self.url, self.sparql, self.views) if address]
        return any(f".{host}".endswith((".wikidata.org", ".wikimedia.org")) for host in hosts)

    @property
    def api(self) -> str:
        return f"{self.url}/w/api.php"

    def entity(self, id: str, revision: int) -> str:
        """The address of an entity as of one of its revisions."""
        return f"{self.url}/wiki/Special:EntityData/{id}.json?revision={revision}"
