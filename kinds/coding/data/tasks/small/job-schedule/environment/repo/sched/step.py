"""Steps from one date to another."""

from datetime import date, timedelta

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_month(year, month):
    if month == 2 and is_leap(year):
        return 29
    return _DAYS[month - 1]


def add_days(day, count):
    return day + timedelta(days=count)


def add_months(day, count):
    """The same day count months later, or the last day of that month when it is shorter."""
    months = day.year * 12 + day.month - 1 + count
    year, month = divmod(months, 12)
    return date(year, month + 1, min(day.day, days_in_month(year, month + 1)))


STEPS = {
    "daily": lambda day, n: add_days(day, n),
    "weekly": lambda day, n: add_days(day, 7 * n),
    "monthly": lambda day, n: add_months(day, n),
    "yearly": lambda day, n: add_months(day, 12 * n),
}
