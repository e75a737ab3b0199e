//go:build interop

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// nine are the manual steps of BitSota's page on mining without an agent, as
// they stand there: curl, jq, git and its client's command line.
const nine = `
bitsota-research-agent list-tasks --coordinator-url "$BITSOTA_COORDINATOR_URL" | jq '.[] | {slug, title, task_state, competition_mode, metric_name, metric_direction, repository, base_ref, allowed_patch_paths}'
bitsota-research-agent list-tasks --coordinator-url "$BITSOTA_COORDINATOR_URL" > tasks.json
export BITSOTA_TASK_ID="$(jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .id' tasks.json)"
jq --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug)' tasks.json
curl -fsS "$BITSOTA_COORDINATOR_URL/api/v1/tasks/$BITSOTA_TASK_ID/onboard.md" -o onboard.md
export BITSOTA_TASK_REPO="$(jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .repository' tasks.json)"
export BITSOTA_TASK_REF="$(jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .base_ref' tasks.json)"
git clone "$BITSOTA_TASK_REPO" bitsota-manual-task
cd bitsota-manual-task
git checkout "$BITSOTA_TASK_REF"
bash -lc "$(jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .setup_command' ../tasks.json)"
bash -lc "$(jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .benchmark_command' ../tasks.json)"
CLAIM_JSON="$(
bitsota-research-agent signed-request \
--coordinator-url "$BITSOTA_COORDINATOR_URL" \
--method POST \
--path "/api/v1/tasks/$BITSOTA_TASK_ID/claim" \
--body-json '{"claim_description":"manual miner run"}' \
--wallet-name default \
--wallet-hotkey default
)"
export BITSOTA_CLAIM_ID="$(printf '%s' "$CLAIM_JSON" | jq -r '.id')"
printf '%s\n' "$CLAIM_JSON" | jq
jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .allowed_patch_paths[]' ../tasks.json
printf 'def size():\n    return 90\n' > src/work.py
bash -lc "$(jq -r --arg slug "$BITSOTA_TASK_SLUG" '.[] | select(.slug == $slug) | .benchmark_command' ../tasks.json)"
cat > submission.json <<'E'
{
  "summary": "Short explanation of the method and result.",
  "claimed_metrics": {
    "size": 0.0
  },
  "proposed_idea": null,
  "implemented_submission_id": null,
  "artifact_uri": null,
  "artifact_sha256": null,
  "artifact_size_bytes": null,
  "execution_log": "Local benchmark command and result path used."
}
E
cd ..
bitsota-research-agent submit-workspace \
--coordinator-url "$BITSOTA_COORDINATOR_URL" \
--claim-id "$BITSOTA_CLAIM_ID" \
--repo-dir "$PWD/bitsota-manual-task" \
--submission-file "$PWD/bitsota-manual-task/submission.json" \
--wallet-name default \
--wallet-hotkey default
curl -fsS "$BITSOTA_COORDINATOR_URL/api/v1/submissions?task_id=$BITSOTA_TASK_ID" | jq '.[] | {id, status, miner_hotkey, created_at, claimed_metrics, observed_metrics}'
`

var toy = map[string]string{
	"task.toml": "version = \"1.0\"\n[task]\nname = \"research/toy\"\n[agon]\nkind = \"research\"\n", "instruction.md": "Make the number smaller.\n",
	"environment/research.toml": `slug = "toy"
title = "A toy"
benchmark_command = "python3 bench.py"
result_path = "last_run.json"
allowed_patch_paths = ["src/*.py"]
metric_name = "size"
metric_direction = "minimize"
competition_mode = "standard"
time_budget_seconds = 60
baseline = 100.0
`,
	"environment/repo/bench.py":    "import json, sys\nsys.path.insert(0, 'src')\nimport work\njson.dump({'metrics': {'size': float(work.size())}}, open('last_run.json', 'w'))\n",
	"environment/repo/src/work.py": "def size():\n    return 100\n",
}

// serveToy starts agon serve with the toy task on a fresh data directory. It
// returns a shell that runs scripts in dir as a registered miner.
func serveToy(t *testing.T) (dir, url, agon string, sh func(script string) string) {
	t.Helper()
	agon, dir = agonBinary(t), t.TempDir()
	for name, text := range toy {
		p := filepath.Join(dir, "set", "toy", name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	arena := filepath.Join(dir, "arena.toml")
	if err := os.WriteFile(arena, []byte("id = \"toy\"\nkind = \"research\"\nnetuid = 4\ntitle = \"toy\"\nsets = [\""+filepath.Join(dir, "set")+"\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url = serve(t, dir, "serve", "--arena", arena)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(agon, filepath.Join(bin, "bitsota-research-agent")); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "AGON_URL=" + url, "BITSOTA_COORDINATOR_URL=" + url, "BITSOTA_TASK_SLUG=toy"}
	sh = func(script string) string {
		cmd := exec.Command("bash", "-c", "set -euo pipefail\n"+script)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	sh(agon + " key new")
	register(sh, agon, dir, "default")
	return dir, url, agon, sh
}

// register has the operator register a hotkey of the default wallet, which a miner asks for first.
func register(sh func(string) string, agon, dir, hotkey string) {
	show := "AGON_WALLET_HOTKEY=" + hotkey + " " + agon + " key show -o json --jq "
	sh(agon + " ledger register --netuid 4 --hotkey \"$(" + show + ".ss58)\" --coldkey \"$(" + show + ".coldkey)\" --wallet.path " + filepath.Join(dir, "data", "wallets") + " --wallet.name operator")
}

// The nine steps, literally, on a fresh data directory.
func TestNineSteps(t *testing.T) {
	_, _, _, sh := serveToy(t)
	out := sh(nine)
	for _, want := range []string{`"status": "active"`, `"status": "pending_verification"`, `"observed_metrics": null`, `"base_ref": "main"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the steps do not print %s:\n%s", want, out)
		}
	}
}

// A client in Python, with the reference signatures, claims, cancels, submits and reads.
func TestPythonResearchMiner(t *testing.T) {
	python := interoptest.Python(t, "wallet")
	if err := exec.Command(python, "-c", "import substrateinterface").Run(); err != nil {
		interoptest.Absent(t, "substrate-interface")
	}
	script, err := filepath.Abs("research_miner.py")
	if err != nil {
		t.Fatal(err)
	}
	dir, url, agon, sh := serveToy(t)
	sh("echo //Miner | " + agon + " key import - python")
	register(sh, agon, dir, "python")
	out := sh(python + " " + script + " " + url + " //Miner toy")
	if !strings.Contains(out, "ok ") {
		t.Error(out)
	}
}
