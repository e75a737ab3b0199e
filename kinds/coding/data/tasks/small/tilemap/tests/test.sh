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
tests.test_wide.TestWide.test_back
tests.test_wide.TestWide.test_long_between_short
tests.test_wide.TestWide.test_meadow_file
tests.test_codec.TestCodec.test_back
tests.test_codec.TestCodec.test_bytes
tests.test_codec.TestCodec.test_empty
tests.test_codec.TestCodec.test_long_run_bytes
tests.test_codec.TestCodec.test_ragged
tests.test_files.TestFiles.test_cave
tests.test_files.TestFiles.test_damaged
tests.test_files.TestFiles.test_tower
tests.test_wide.TestWide.test_cut_off
tests.test_wide.TestWide.test_same_bytes
tests.test_wide.TestWide.test_symmetric_length
IDS
echo "$reward" >"$logs/reward.txt"
