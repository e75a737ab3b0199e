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
tests.test_compare.TestCompare.test_prerelease_before_release
tests.test_compare.TestCompare.test_sort
tests.test_precedence.TestPrecedence.test_numeric_prerelease
tests.test_precedence.TestPrecedence.test_site_example
tests.test_precedence.TestPrecedence.test_sort_site_example
tests.test_precedence.TestPrecedence.test_update_offer
tests.test_compare.TestCompare.test_core
tests.test_compare.TestCompare.test_equal
tests.test_compare.TestCompare.test_longer_prerelease
tests.test_compare.TestCompare.test_words_and_numbers
tests.test_parse.TestParse.test_prerelease_and_build
tests.test_parse.TestParse.test_refused
tests.test_parse.TestParse.test_release
tests.test_precedence.TestPrecedence.test_candidate_alone
tests.test_precedence.TestPrecedence.test_core_wins
tests.test_ranges.TestRanges.test_bounds
tests.test_ranges.TestRanges.test_exact
tests.test_ranges.TestRanges.test_newest
tests.test_ranges.TestRanges.test_strict
IDS
echo "$reward" >"$logs/reward.txt"
