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
tests.test_shared.TestShared.test_cycle_behind_shared
tests.test_shared.TestShared.test_cycle_path_is_only_the_cycle
tests.test_shared.TestShared.test_diamond
tests.test_shared.TestShared.test_levels_of_diamond
tests.test_shared.TestShared.test_roots_depend_on_each_other
tests.test_shared.TestShared.test_shared_deep
tests.test_shared.TestShared.test_wide
tests.test_graph.TestGraph.test_add
tests.test_resolve.TestOrder.test_alone
tests.test_resolve.TestOrder.test_chain
tests.test_resolve.TestOrder.test_cycle
tests.test_resolve.TestOrder.test_levels
tests.test_resolve.TestOrder.test_missing
tests.test_resolve.TestOrder.test_tree
tests.test_shared.TestShared.test_missing_root
tests.test_shared.TestShared.test_self_cycle
IDS
echo "$reward" >"$logs/reward.txt"
