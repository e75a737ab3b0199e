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
tests.test_quotes.TestQuotes.test_german_export
tests.test_quotes.TestQuotes.test_german_rows
tests.test_quotes.TestQuotes.test_last_line_without_end
tests.test_quotes.TestQuotes.test_line_end_in_quotes
tests.test_quotes.TestQuotes.test_windows_line_ends
tests.test_quotes.TestQuotes.test_blank_lines_do_not_count
tests.test_quotes.TestQuotes.test_multiline_with_doubled_quotes
tests.test_quotes.TestQuotes.test_old_mac_line_ends
tests.test_quotes.TestQuotes.test_unclosed_quote
tests.test_quotes.TestSources.test_line_endings_kept
tests.test_reader.TestParse.test_line_end_in_quotes
tests.test_reader.TestParse.test_plain
tests.test_reader.TestParse.test_quoted
tests.test_reader.TestParse.test_windows_line_ends
tests.test_sniff.TestGuess.test_load
tests.test_sniff.TestGuess.test_nothing_found
tests.test_sniff.TestGuess.test_plain
tests.test_sniff.TestGuess.test_steady_beats_frequent
tests.test_sniff.TestHeader.test_header
IDS
echo "$reward" >"$logs/reward.txt"
