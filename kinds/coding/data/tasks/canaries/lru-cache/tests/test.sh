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
tests.test_cache.TestCache.test_get_refreshes
tests.test_cache.TestCache.test_holds_capacity
tests.test_cache.TestCache.test_oldest_leaves
tests.test_capacity.TestCapacity.test_delete_makes_room
tests.test_capacity.TestCapacity.test_many
tests.test_capacity.TestCapacity.test_resize
tests.test_capacity.TestCapacity.test_single_slot
tests.test_cache.TestCache.test_bad_capacity
tests.test_cache.TestCache.test_delete
tests.test_cache.TestCache.test_get_missing
tests.test_cache.TestCache.test_hit_rate
tests.test_cache.TestCache.test_put_replaces
tests.test_capacity.TestCapacity.test_resize_refuses_zero
tests.test_linked.TestLinkedList.test_empty
tests.test_linked.TestLinkedList.test_order
tests.test_linked.TestLinkedList.test_unlink_middle
IDS
echo "$reward" >"$logs/reward.txt"
