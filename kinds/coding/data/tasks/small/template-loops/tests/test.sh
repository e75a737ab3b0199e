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
tests.test_scopes.TestScopes.test_caller_keeps_its_dict
tests.test_scopes.TestScopes.test_hidden_name_is_back
tests.test_scopes.TestScopes.test_hidden_name_survives_empty_loop
tests.test_scopes.TestScopes.test_loop_names_end
tests.test_scopes.TestScopes.test_outer_loop_is_back
tests.test_scopes.TestScopes.test_parent
tests.test_scopes.TestScopes.test_same_name_nested
tests.test_scopes.TestScopes.test_set_does_not_reach_the_next_round
tests.test_scopes.TestScopes.test_set_ends_with_the_loop
tests.test_scopes.TestScopes.test_user_value_called_loop
tests.test_render.TestBlocks.test_for
tests.test_render.TestBlocks.test_if
tests.test_render.TestBlocks.test_loop_ends
tests.test_render.TestBlocks.test_malformed
tests.test_render.TestBlocks.test_set
tests.test_render.TestValues.test_escape
tests.test_render.TestValues.test_filters
tests.test_render.TestValues.test_path
tests.test_render.TestValues.test_unknown
tests.test_scopes.TestScopes.test_outermost_has_no_parent
tests.test_scopes.TestScopes.test_set_in_if_stays
IDS
echo "$reward" >"$logs/reward.txt"
