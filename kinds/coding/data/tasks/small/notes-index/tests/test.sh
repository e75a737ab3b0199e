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
tests.test_scripts.TestScripts.test_case_folded
tests.test_scripts.TestScripts.test_composed
tests.test_scripts.TestScripts.test_letters_kept
tests.test_scripts.TestScripts.test_links
tests.test_scripts.TestScripts.test_untitled
tests.test_scripts.TestSite.test_all_pages
tests.test_scripts.TestSite.test_backlinks
tests.test_scripts.TestSite.test_links_work_in_both_themes
tests.test_notes.TestBuild.test_backlink
tests.test_notes.TestBuild.test_index
tests.test_notes.TestNotes.test_links
tests.test_notes.TestNotes.test_titles
tests.test_notes.TestSlug.test_english
tests.test_scripts.TestScripts.test_dashes
tests.test_scripts.TestSite.test_theme_keeps_its_look
IDS
echo "$reward" >"$logs/reward.txt"
