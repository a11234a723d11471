"""Anachron measures and repairs what language models believe about when facts hold.

The public names are listed in ``__init__.pyi``. Each is loaded when it is first used, so importing this package loads
neither torch nor transformers.
"""

from typing import Any

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("anachron")
    return _public(name)
