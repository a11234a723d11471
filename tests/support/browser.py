"""Waiting for a page in a browser."""

from typing import Any


def wait_until(page: Any, expression: str) -> None:
    """Until an expression of JavaScript is true, a minute at most; the page forbids playwright's own way, which
    evaluates a string within it."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"not true after a minute: {expression}")
