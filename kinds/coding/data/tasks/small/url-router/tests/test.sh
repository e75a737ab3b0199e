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
  timeout 20 python3 -I -c "$run" "$id" "." "src" </dev/null || {
    echo "FAIL $id"
    reward=0
  }
done <<'IDS'
tests.test_backtracking.TestBacktracking.test_int_leads_nowhere
tests.test_backtracking.TestBacktracking.test_prefix_is_no_route
tests.test_backtracking.TestBacktracking.test_rest_far_above
tests.test_backtracking.TestBacktracking.test_rest_last
tests.test_backtracking.TestBacktracking.test_static_leads_nowhere
tests.test_backtracking.TestBacktracking.test_values_do_not_leak
tests.test_backtracking.TestMethods.test_allowed_of_all
tests.test_backtracking.TestMethods.test_other_route_answers
tests.test_backtracking.TestBacktracking.test_empty_part_is_no_parameter
tests.test_backtracking.TestBacktracking.test_from_the_left
tests.test_backtracking.TestBacktracking.test_nothing_fits
tests.test_pattern.TestPattern.test_parts
tests.test_pattern.TestPattern.test_refused
tests.test_pattern.TestPattern.test_split
tests.test_router.TestRouter.test_method
tests.test_router.TestRouter.test_not_found
tests.test_router.TestRouter.test_parameters
tests.test_router.TestRouter.test_rest
tests.test_router.TestRouter.test_static
tests.test_router.TestRouter.test_twice
IDS
echo "$reward" >"$logs/reward.txt"
