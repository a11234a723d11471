"""A proxy in a process of its own that answers everything itself: python -m support.proxy_server LOG."""

import sys
from pathlib import Path

from support.http_server import Handler, serve_for_ever


class Proxy(Handler):
    def do_POST(self) -> None:
        self.content()
        self.note()
        message = {"content": "by the proxy"}
        self.reply(200, {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]})

    def do_CONNECT(self) -> None:
        self.note()
        self.send_error(502)

    def note(self) -> None:
        with Path(sys.argv[1]).open("a") as log:
            log.write(f"{self.command} {self.path} {self.headers}\n")


if __name__ == "__main__":
    serve_for_ever(Proxy)
