"""Where days lie on a time axis in years."""

from anachron.core.dates import Date


def position(day: int) -> float:
    """Where a day (by its number) begins on a time axis in years: 2011.5 is the middle of 2011, 0.5 that of 1 BCE."""
    year = Date.from_day_number(day).year
    first, last = Date(year).first_day, Date(year).last_day
    return (year if year > 0 else year + 1) + (day - first) / (last - first + 1)
