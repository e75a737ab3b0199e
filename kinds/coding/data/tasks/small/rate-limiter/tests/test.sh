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
tests.test_polling.TestPolling.test_busy_key
tests.test_polling.TestPolling.test_full_bucket_saves_nothing
tests.test_polling.TestPolling.test_retry_after_counts_down
tests.test_polling.TestPolling.test_tight_loop_gets_its_rate
tests.test_polling.TestPolling.test_uneven_steps
tests.test_bucket.TestBucket.test_arguments
tests.test_bucket.TestBucket.test_never_above_burst
tests.test_bucket.TestBucket.test_refills
tests.test_bucket.TestBucket.test_retry_after
tests.test_bucket.TestBucket.test_starts_full
tests.test_bucket.TestBucket.test_takes_all_or_none
tests.test_keyed.TestKeyed.test_forgets_idle_keys
tests.test_keyed.TestKeyed.test_keys_are_apart
tests.test_polling.TestPolling.test_overflow_saves_nothing
tests.test_polling.TestPolling.test_tokens_stay_whole
IDS
echo "$reward" >"$logs/reward.txt"
