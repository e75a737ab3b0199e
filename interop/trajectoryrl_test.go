//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

const epochArena = `id = "packs"
kind = "pack"
title = "Packs"
netuid = 11
licence = "MIT"
sets = ["office"]
incentive = "cost_takeover"
[options]
epochs = "on"
`

// trajectoryValidator is a validator made of that repository's own functions: it
// looks for the open epoch with and without its signature, fetches and verifies the
// pack, reports a scenario in three states, and says its score twice.
const trajectoryValidator = `
import asyncio, json, sys
from pathlib import Path
from bittensor_wallet import Wallet
from trajectoryrl.utils import trajrl_api as api
from trajectoryrl.utils.github import PackFetcher

async def main(path, name, score, cache):
    w = Wallet(name=name, hotkey="default", path=path)
    out = {"heartbeat": await api.heartbeat(w, bench_version="4.0", llm_model="m")}
    plain = await api.fetch_current_epoch()
    out["hidden"] = "challenger_pack_url" not in plain["epoch"]
    seen = await api.fetch_current_epoch(w)
    e = seen["epoch"]
    out["id"], out["remaining"], out["hash"], out["spec"] = e["challenge_epoch_id"], seen["remaining_blocks"], e["challenger_pack_hash"], e["spec_number"]
    fetcher = PackFetcher(cache_dir=Path(cache))
    got = fetcher.verify_submission(pack_url=e["challenger_pack_url"], pack_hash=e["challenger_pack_hash"])
    if asyncio.iscoroutine(got):
        got = await got
    out["pack"] = [got.valid, str(got.error or ""), sorted((got.pack_content or {}).get("files", {}))]
    common = dict(challenge_epoch_id=e["challenge_epoch_id"], spec_number=e["spec_number"], llm_model="m")
    out["progress"] = [await api.submit_scenario_progress(w, miner_hotkey=e["challenger_hotkey"], miner_uid=0, scenario_name="inbox", scenario_index=1, total_scenarios=6, quality=0.5, state=s, **common) for s in ("running", "verifying", "complete")]
    say = lambda s: api.submit_challenge_score(w, score=s, qualified=True, scenario_results={"inbox": {"score": 0.4286, "weight": 1.0, "qualified": True}}, harness_name="hermes", **common)
    out["said"] = [await say(float(score)), await say(5.0)]
    print(json.dumps(out))

asyncio.run(main(*sys.argv[1:]))
`

// trajectoryWinner is how that repository's validator takes the winner over: as it
// is served, and with a score that somebody changed.
const trajectoryWinner = `
import asyncio, copy, io, json, logging, sys
from trajectoryrl.utils import trajrl_api as api
from trajectoryrl.utils.winner_state import derive_winner_state

log = io.StringIO()
logging.basicConfig(stream=log, level=logging.WARNING)
got = asyncio.run(api.fetch_current_winner())
out = {"epoch": got["finalized_epoch"], "winner": None}
if got["finalized_epoch"]:
    s = derive_winner_state(got)
    out["winner"], out["score"], out["alarm"] = s.winner_hotkey, s.winner_score, log.getvalue()
    other = copy.deepcopy(got)
    other["winner"]["score"] += 0.5
    derive_winner_state(other)
    out["tampered"] = log.getvalue()
print(json.dumps(out))
`

// The newest miner.py and trajrl_api.py, unmodified, play an epoch: a pack is built,
// checked and entered, three validators fetch it signed, report and score it once,
// and take over who then sits; a score that was tampered with raises their alarm.
func TestTrajectoryRL(t *testing.T) {
	s := &stranger{t: t, dir: t.TempDir(), repo: interoptest.Checkout(t, "trajectoryrl", "neurons/miner.py", "github.com/trajectoryRL/trajectoryRL"), python: interoptest.Python(t, "ridges")}
	if err := os.WriteFile(filepath.Join(s.dir, "arena.toml"), []byte(epochArena), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGON_TRAJRL_FEE_RAO", "1000000000") // an entry costs an alpha
	url := serve(t, s.dir, "serve", "--arena", filepath.Join(s.dir, "arena.toml"))
	s.addr = strings.TrimPrefix(url, "http://")
	env := append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "PYTHONPATH="+s.repo, "TRAJECTORYRL_API_BASE_URL="+url, "SUBMISSION_FEE_ALPHA=1", "NETUID=11",
		"NETWORK=ws://"+s.addr+"/rpc", "WALLET_NAME=miner", "WALLET_HOTKEY=default", "NO_PROXY=*")
	python := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(s.python, args...)
		var errs bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stderr = s.dir, env, &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%.200v: %v\n%s\n%s", args, err, out, errs.String())
		}
		return strings.TrimSpace(string(out))
	}
	last := func(text string, v any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text[strings.LastIndexByte(text, '\n')+1:]), v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	s.register("11", []string{"miner"}, []string{"v1", "v2", "v3"})
	s.ledgerAs("miner", s.wallets(), "stake", "5", "--netuid", "11")
	if err := os.WriteFile(filepath.Join(s.dir, "SKILL.md"), []byte("# Skill\nRead every source once, change nothing, say what is missing.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	miner := filepath.Join(s.repo, "neurons", "miner.py")
	if got := python(miner, "build", "SKILL.md", "-o", "pack.json"); !strings.Contains(got, "Valid: PASSED") {
		t.Fatalf("build: %s", got)
	}
	if got := python(miner, "validate", "pack.json"); !strings.Contains(got, "Schema:  PASSED") {
		t.Fatalf("validate: %s", got)
	}
	if got := python(miner, "web-submit", "pack.json", "--api-base-url", url); !strings.Contains(got, "Submitted! pack_url = "+url+"/api/packs/") || !strings.Contains(got, "recycle receipt: ") {
		t.Fatalf("web-submit: %s", got)
	}
	for i, v := range []string{"v1", "v2", "v3"} {
		var got struct {
			Heartbeat, Hidden bool
			ID, Remaining     int
			Pack              []any
			Progress, Said    []bool
		}
		last(python("-c", trajectoryValidator, s.wallets(), v, fmt.Sprint(2+i), filepath.Join(s.dir, "cache-"+v)), &got)
		if !got.Heartbeat || !got.Hidden || got.ID < 1 || got.Remaining < 1 || fmt.Sprint(got.Pack) != "[true  [SKILL.md]]" || fmt.Sprint(got.Progress) != "[true true true]" || fmt.Sprint(got.Said) != "[true false]" {
			t.Fatalf("%s: %+v", v, got)
		}
	}
	var won struct {
		Epoch           map[string]any
		Winner          string
		Score           float64
		Alarm, Tampered string
	}
	until(t, 15*time.Minute, "the epoch has ended", func() bool {
		last(python("-c", trajectoryWinner), &won)
		return won.Epoch != nil
	})
	if won.Winner != s.keys["miner"][0] || won.Score != 3 || won.Epoch["outcome"] != "winner_replaced" || won.Alarm != "" {
		t.Errorf("taken over: %+v", won)
	}
	if !strings.Contains(won.Tampered, "winner derivation divergence") {
		t.Errorf("no alarm: %q", won.Tampered)
	}
	if out, err := exec.Command(agonBinary(t), "discover", "epochs", "--url", url).CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`"agreed":true`)) {
		t.Errorf("discover epochs: %v %s", err, out)
	}
}
