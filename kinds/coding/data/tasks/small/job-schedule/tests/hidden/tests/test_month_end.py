import unittest
from datetime import date
from itertools import islice

from sched import Calendar, Rule, merge


def iso(days):
    return [day.isoformat() for day in days]


class TestMonthEnd(unittest.TestCase):
    def test_31st(self):
        self.assertEqual(
            iso(Rule("monthly", date(2023, 1, 31)).take(5)),
            ["2023-01-31", "2023-02-28", "2023-03-31", "2023-04-30", "2023-05-31"],
        )

    def test_30th_in_leap_year(self):
        self.assertEqual(
            iso(Rule("monthly", date(2023, 12, 30)).take(4)),
            ["2023-12-30", "2024-01-30", "2024-02-29", "2024-03-30"],
        )

    def test_every_second_month(self):
        self.assertEqual(
            iso(Rule("monthly", date(2023, 8, 31), every=2).take(4)),
            ["2023-08-31", "2023-10-31", "2023-12-31", "2024-02-29"],
        )

    def test_every_three_months_over_years(self):
        self.assertEqual(
            iso(Rule("monthly", date(2023, 8, 31), every=3).take(4)),
            ["2023-08-31", "2023-11-30", "2024-02-29", "2024-05-31"],
        )

    def test_leap_day(self):
        self.assertEqual(
            iso(Rule("yearly", date(2020, 2, 29)).take(5)),
            ["2020-02-29", "2021-02-28", "2022-02-28", "2023-02-28", "2024-02-29"],
        )

    def test_until_on_long_month(self):
        rule = Rule("monthly", date(2023, 1, 31), until=date(2023, 3, 30))
        self.assertEqual(iso(rule), ["2023-01-31", "2023-02-28"])

    def test_next_after(self):
        rule = Rule("monthly", date(2023, 1, 31))
        self.assertEqual(rule.next_after(date(2023, 2, 28)), date(2023, 3, 31))
        self.assertEqual(rule.next_after(date(2023, 3, 29)), date(2023, 3, 31))

    def test_iterated_twice(self):
        rule = Rule("monthly", date(2023, 1, 31))
        self.assertEqual(rule.take(3), rule.take(3))

    def test_merge_of_month_ends(self):
        a = Rule("monthly", date(2023, 1, 31))
        b = Rule("monthly", date(2023, 1, 30))
        self.assertEqual(
            iso(islice(merge([a, b]), 5)),
            ["2023-01-30", "2023-01-31", "2023-02-28", "2023-03-30", "2023-03-31"],
        )

    def test_calendar(self):
        calendar = Calendar()
        calendar.add("invoice", Rule("monthly", date(2023, 1, 31)))
        self.assertEqual(
            calendar.between(date(2023, 12, 1), date(2023, 12, 31)),
            [(date(2023, 12, 31), ["invoice"])],
        )

    def test_weekly_unchanged(self):
        rule = Rule("weekly", date(2024, 2, 26), every=2)
        self.assertEqual(iso(rule.take(3)), ["2024-02-26", "2024-03-11", "2024-03-25"])
