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
tests.test_no_context.TestNoContext.test_append
tests.test_no_context.TestNoContext.test_insert
tests.test_no_context.TestNoContext.test_insert_at_top
tests.test_no_context.TestNoContext.test_random_pairs
tests.test_no_context.TestNoContext.test_reverse_of_removal
tests.test_no_context.TestNoContext.test_several
tests.test_apply.TestApply.test_change
tests.test_apply.TestApply.test_change_without_context
tests.test_apply.TestApply.test_conflict
tests.test_apply.TestApply.test_insert_with_context
tests.test_apply.TestApply.test_moved
tests.test_apply.TestApply.test_new_file
tests.test_apply.TestApply.test_reverse
tests.test_no_context.TestNoContext.test_context_still_drifts
tests.test_no_context.TestNoContext.test_empty_file
tests.test_parse.TestParse.test_end_of_file_mark
tests.test_parse.TestParse.test_headers
tests.test_parse.TestParse.test_malformed
tests.test_parse.TestParse.test_reverse
IDS
echo "$reward" >"$logs/reward.txt"
