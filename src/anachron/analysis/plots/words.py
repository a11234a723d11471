"""Names as the terminal, the figures and the page write them."""

AT_MOST, AT_LEAST = "\N{LESS-THAN OR EQUAL TO}", "\N{GREATER-THAN OR EQUAL TO}"
DISTANCE = "relative distance from the period \N{GREEK SMALL LETTER ALPHA}"


def counted(count: int, what: str) -> str:
    """``1 table``, ``2 tables``. what: in the singular, of a word whose plural has an s."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def prefix_name(prefix: str) -> str:
    return "no prefix" if prefix == "none" else f"prefix {prefix}"


def year_name(year: int) -> str:
    """A historical year in words: -44 is 44 BCE. 0, which an axis has, stands for the first."""
    return f"{-year} BCE" if year < 0 else str(max(year, 1))
