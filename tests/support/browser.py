"""What tests of pages in a browser share."""

from typing import Any


def wait_until(page: Any, expression: str) -> None:
    """Until an expression of JavaScript is true, a minute at most; the page forbids playwright's own way, which
    evaluates a string within it."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"not true after a minute: {expression}")


def wider(page: Any) -> list[str]:
    """What of a page lies beyond the right edge of the window, where no box lets one scroll to it."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main *, header *")].filter((one) => {
             const box = one.getBoundingClientRect();
             return box.width && box.right > innerWidth + 0.5 && !one.closest(".wide, pre, .chart, .track, .skip, svg");
           }).map((one) => one.outerHTML.slice(0, 80))"""
    )
