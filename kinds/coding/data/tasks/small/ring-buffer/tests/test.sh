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
tests.test_buffer.TestPop.test_order
tests.test_buffer.TestRead.test_wrapped
tests.test_buffer.TestRead.test_wrapped_twice
tests.test_window.TestWindow.test_slides
tests.test_wrapping.TestWrapping.test_like_deque
tests.test_wrapping.TestWrapping.test_long_window
tests.test_wrapping.TestWrapping.test_pop_then_append
tests.test_wrapping.TestWrapping.test_size_one
tests.test_buffer.TestAppend.test_partly_filled
tests.test_buffer.TestAppend.test_returns_overwritten
tests.test_buffer.TestAppend.test_size_checked
tests.test_buffer.TestPop.test_empty
tests.test_buffer.TestRead.test_negative_index
tests.test_buffer.TestRead.test_out_of_range
tests.test_window.TestWindow.test_empty
tests.test_window.TestWindow.test_not_full
tests.test_wrapping.TestWrapping.test_drained
IDS
echo "$reward" >"$logs/reward.txt"
