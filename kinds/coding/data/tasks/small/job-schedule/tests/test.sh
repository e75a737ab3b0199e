#!/bin/sh
# Harbor's verifier: lays the hidden files over the tree and runs each listed
# test in its own process. The lists are those of task.toml.
set -u
repo=${REPO:-/repo}
logs=${LOGS:-/logs/verifier}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$logs"
echo 0 >"$logs/reward.txt"
cp -R "$here/hidden/." "$repo/" || exit 1
cd "$repo" || exit 1

# -I keeps the tree's sitecustomize and PYTHON* variables out; the tree comes
# first on sys.path only after unittest is loaded.
run='import sys, os, unittest
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.abspath(p) for p in sys.argv[2:]]
suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
result = unittest.TextTestRunner(verbosity=0).run(suite)
sys.exit(0 if result.testsRun == 1 and not result.skipped and result.wasSuccessful() else 1)'

reward=1
while IFS= read -r id; do
  timeout 20 python3 -I -c "$run" "$id" "." </dev/null || {
    echo "FAIL $id"
    reward=0
  }
done <<'IDS'
tests.test_month_end.TestMonthEnd.test_30th_in_leap_year
tests.test_month_end.TestMonthEnd.test_31st
tests.test_month_end.TestMonthEnd.test_calendar
tests.test_month_end.TestMonthEnd.test_every_three_months_over_years
tests.test_month_end.TestMonthEnd.test_leap_day
tests.test_month_end.TestMonthEnd.test_merge_of_month_ends
tests.test_month_end.TestMonthEnd.test_next_after
tests.test_month_end.TestMonthEnd.test_until_on_long_month
tests.test_month_end.TestMonthEnd.test_every_second_month
tests.test_month_end.TestMonthEnd.test_iterated_twice
tests.test_month_end.TestMonthEnd.test_weekly_unchanged
tests.test_rule.TestCalendar.test_between
tests.test_rule.TestCalendar.test_merge
tests.test_rule.TestRule.test_arguments
tests.test_rule.TestRule.test_daily
tests.test_rule.TestRule.test_monthly
tests.test_rule.TestRule.test_next_after
tests.test_rule.TestRule.test_old_name
tests.test_rule.TestRule.test_weekly_until
IDS
echo "$reward" >"$logs/reward.txt"
