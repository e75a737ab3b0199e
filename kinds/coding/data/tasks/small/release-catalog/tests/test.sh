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
tests.test_circles.TestCircles.test_dangling
tests.test_circles.TestCircles.test_link_to_itself
tests.test_circles.TestCircles.test_links_to_each_other
tests.test_circles.TestCircles.test_through_alias_path
tests.test_circles.TestCircles.test_v2
tests.test_circles.TestCircles.test_v2_size
tests.test_catalog.TestCatalog.test_aliases
tests.test_catalog.TestCatalog.test_by_alias
tests.test_catalog.TestCatalog.test_unknown
tests.test_catalog.TestCatalog.test_versions
tests.test_catalog.TestRelease.test_linked_directory
tests.test_catalog.TestRelease.test_total_size
tests.test_circles.TestCircles.test_linked_file
tests.test_circles.TestCircles.test_same_directory_linked_twice
IDS
echo "$reward" >"$logs/reward.txt"
