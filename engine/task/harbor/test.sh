#!/bin/sh
# Harbor's verifier: lays the hidden files over the tree and runs each listed
# test of task.toml in its own process. agon itself grades otherwise.
set -u
logs=${LOGS:-/logs/verifier}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$logs"
echo 0 >"$logs/reward.txt"
cp -R "$here/hidden/." "${REPO:-/repo}/" || exit 1
cd "${REPO:-/repo}" || exit 1
run='import sys, os, unittest
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.abspath(p) for p in sys.argv[2:]]
suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
result = unittest.TextTestRunner(verbosity=0).run(suite)
sys.exit(0 if result.testsRun == 1 and not result.skipped and result.wasSuccessful() else 1)'
reward=1
while IFS= read -r id; do
  timeout @TIMEOUT@ python3 -I -c "$run" "$id" @PATHS@ </dev/null || {
    echo "FAIL $id"
    reward=0
  }
done <<'IDS'
@IDS@
IDS
echo "$reward" >"$logs/reward.txt"
