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
tests.test_ledger.TestTransfer.test_from_closed
tests.test_ledger.TestTransfer.test_too_much
tests.test_ledger.TestWithdraw.test_closed
tests.test_ledger.TestWithdraw.test_overdraft
tests.test_ledger.TestWithdraw.test_too_much
tests.test_refusals.TestRefusals.test_closed_with_money
tests.test_refusals.TestRefusals.test_many
tests.test_refusals.TestRefusals.test_one_cent_too_much
tests.test_refusals.TestRefusals.test_overdraft_counts
tests.test_ledger.TestDeposit.test_balance
tests.test_ledger.TestDeposit.test_closed
tests.test_ledger.TestDeposit.test_must_be_positive
tests.test_ledger.TestOpen.test_new_is_empty
tests.test_ledger.TestOpen.test_twice
tests.test_ledger.TestTransfer.test_moves
tests.test_ledger.TestTransfer.test_to_closed
tests.test_ledger.TestTransfer.test_unknown
tests.test_ledger.TestWithdraw.test_all
tests.test_money.TestMoney.test_cents
tests.test_money.TestMoney.test_refused
tests.test_money.TestMoney.test_text
tests.test_refusals.TestRefusals.test_closed_and_empty
IDS
echo "$reward" >"$logs/reward.txt"
