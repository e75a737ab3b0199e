import unittest
from datetime import date
from itertools import islice

from sched import Calendar, Rule, merge


class TestRule(unittest.TestCase):
    def test_daily(self):
        rule = Rule("daily", date(2024, 2, 28), every=2)
        self.assertEqual(rule.take(2), [date(2024, 2, 28), date(2024, 3, 1)])

    def test_weekly_until(self):
        rule = Rule("weekly", date(2024, 1, 1), until=date(2024, 1, 15))
        self.assertEqual(list(rule), [date(2024, 1, 1), date(2024, 1, 8), date(2024, 1, 15)])

    def test_monthly(self):
        rule = Rule("monthly", date(2023, 11, 15))
        self.assertEqual(rule.take(3), [date(2023, 11, 15), date(2023, 12, 15), date(2024, 1, 15)])

    def test_next_after(self):
        rule = Rule("yearly", date(2020, 5, 1), until=date(2022, 5, 1))
        self.assertEqual(rule.next_after(date(2020, 5, 1)), date(2021, 5, 1))
        self.assertIsNone(rule.next_after(date(2022, 5, 1)))

    def test_old_name(self):
        rule = Rule("daily", date(2024, 1, 1))
        self.assertEqual(rule.occurrences(1), [date(2024, 1, 1)])

    def test_arguments(self):
        with self.assertRaises(ValueError):
            Rule("hourly", date(2024, 1, 1))
        with self.assertRaises(ValueError):
            Rule("daily", date(2024, 1, 1), every=0)


class TestCalendar(unittest.TestCase):
    def test_merge(self):
        a = Rule("daily", date(2024, 1, 1), every=2)
        b = Rule("daily", date(2024, 1, 1), every=3)
        days = [day.day for day in islice(merge([a, b]), 5)]
        self.assertEqual(days, [1, 3, 4, 5, 7])

    def test_between(self):
        calendar = Calendar()
        calendar.add("report", Rule("weekly", date(2024, 1, 1)))
        calendar.add("backup", Rule("daily", date(2024, 1, 7)))
        self.assertEqual(
            calendar.between(date(2024, 1, 7), date(2024, 1, 8)),
            [(date(2024, 1, 7), ["backup"]), (date(2024, 1, 8), ["report", "backup"])],
        )
