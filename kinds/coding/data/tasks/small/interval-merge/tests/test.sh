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
tests.test_adjacent.TestAdjacent.test_chain
tests.test_adjacent.TestAdjacent.test_floats
tests.test_merge.TestMerge.test_touching
tests.test_adjacent.TestAdjacent.test_arguments_kept
tests.test_adjacent.TestAdjacent.test_coverage_of_touching
tests.test_adjacent.TestAdjacent.test_half_step_apart
tests.test_adjacent.TestAdjacent.test_no_empty_slot
tests.test_interval.TestInterval.test_bounds
tests.test_interval.TestInterval.test_overlaps
tests.test_interval.TestInterval.test_reversed
tests.test_merge.TestFree.test_busy_at_edges
tests.test_merge.TestFree.test_gaps
tests.test_merge.TestFree.test_outside
tests.test_merge.TestFree.test_subtract
tests.test_merge.TestMerge.test_apart
tests.test_merge.TestMerge.test_coverage
tests.test_merge.TestMerge.test_empty
tests.test_merge.TestMerge.test_nested
tests.test_merge.TestMerge.test_overlapping
IDS
echo "$reward" >"$logs/reward.txt"
