package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
)

// raced enters a good agent and lets v play it to its end.
func (w *world) raced() (version string) {
	w.t.Helper()
	_, sub := w.submit('a', "My agent", goodAgent)
	for _, n := range []int{2, 3} {
		run, _ := w.play('v', n)
		w.must('v', "POST", "/v1/validator/evaluation-runs/"+text(w.t, run, "eval_run_id")+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 200, "")
	}
	return text(w.t, sub, "agent_version_id")
}

// All validators of an epoch read the same standings, whatever is decided meanwhile
// and though the server starts anew; only who worked may set weights on the winner.
func TestWeightSalt(t *testing.T) {
	w := newWorld(t)
	const at = "/v1/validator/weight-salt"
	w.must(0, "GET", at, "", 401, "")
	w.must('a', "GET", at, "", 403, "")
	first := w.must('v', "GET", at, "", 200, "")
	stood, _ := first["epoch_standings"].(map[string]any)
	if first["eligible"] != false || stood["top_hotkey"] != nil || stood["t_burn"] != .75 || len(stood["finishers"].([]any)) != 0 {
		t.Fatalf("before any race: %v", first)
	}
	version := w.raced()
	again := func() map[string]any {
		t.Helper()
		h, err := New(w.cfg) // it forgets what stands in memory
		if err != nil {
			t.Fatal(err)
		}
		w.h = h
		return w.must('v', "GET", at, "", 200, "")
	}
	got := again()
	if s, _ := got["epoch_standings"].(map[string]any); got["epoch_index"] != first["epoch_index"] || s["top_hotkey"] != nil || got["eligible"] != true {
		t.Fatalf("in the same epoch: %v", got)
	}
	if got := w.must('w', "GET", at, "", 200, ""); got["eligible"] != false {
		t.Errorf("a validator without work: %v", got)
	}
	w.skip(epochLength)
	got = again()
	stood, _ = got["epoch_standings"].(map[string]any)
	list, _ := stood["finishers"].([]any)
	if got["epoch_index"] != first["epoch_index"].(float64)+1 || stood["top_hotkey"] != w.keys['a'].SS58() || len(list) != 1 {
		t.Fatalf("in the next epoch: %v", got)
	}
	if f, _ := list[0].(map[string]any); f["miner_hotkey"] != w.keys['a'].SS58() || f["agent_version_id"] != version || f["race_score"] != .75 {
		t.Errorf("%v", f)
	}
	w.skip(-epochLength / 2)
	if back := again(); back["epoch_index"] != got["epoch_index"] {
		t.Errorf("a clock that went back: %v", back)
	}
}

// Pairs are counted on the day of their first result, once each.
func TestTrajectoryHistory(t *testing.T) {
	w := newWorld(t)
	const at = "/v1/public/trajectories/history"
	if got := w.must(0, "GET", at, "", 200, ""); got["total"] != 0. || len(got["series"].([]any)) != 0 {
		t.Errorf("before any play: %v", got)
	}
	w.raced()
	w.skip(24 * time.Hour)
	got := w.must(0, "GET", at, "", 200, "")
	list, _ := got["series"].([]any)
	if len(list) != 1 || got["total"] != 6. || got["daily_rate"] != 6. || got["weekly_rate"] != 6. {
		t.Fatalf("%v", got)
	}
	if d, _ := list[0].(map[string]any); d["date"] != w.clock().Add(-24*time.Hour).UTC().Format(time.DateOnly) || d["distinct"] != 6. || d["cumulative"] != 6. {
		t.Errorf("%v", d)
	}

	day := func(n int) time.Time { return time.Date(2026, 3, n, 23, 59, 59, 0, time.UTC) }
	first := map[pair]time.Time{{"a", "x"}: day(1), {"a", "y"}: day(8), {"b", "x"}: day(8), {"b", "y"}: day(9)}
	out := historyOf(first, false, day(9))
	if series := out["series"].([]trajectoryDay); out["total"] != nil || out["daily_rate"] != 2 || out["weekly_rate"] != 2 || len(series) != 3 || series[2] != (trajectoryDay{"2026-03-09", 1, 4}) {
		t.Errorf("%v", out)
	}
}

// Nothing can be selected, nor has a race here a drand round or a pack: each is said in
// the words that the client knows.
func TestNewestRefusals(t *testing.T) {
	w := newWorld(t)
	version := w.raced()
	const selection = "/v1/miner/race-selection"
	w.must(0, "DELETE", selection, "", 401, "")
	w.must('a', "DELETE", selection, "", 404, "NO_SELECTION")
	w.must('a', "PUT", selection, `{"agent_version_id":"`+version+`"}`, 409, "RACE_LOCKED")
	w.must('b', "PUT", selection, `{"agent_version_id":"`+version+`"}`, 403, "NOT_VERSION_OWNER")
	w.must('a', "PUT", selection, `{"agent_version_id":"`+uuid.NewString()+`"}`, 404, "AGENT_VERSION_NOT_FOUND")
	w.must('a', "PUT", selection, `{"agent_version_id":7}`, 422, "")
	w.must('a', "PUT", selection, `{}`, 422, "")
	race, _ := w.must(0, "GET", "/v1/public/races/current", "", 200, "")["race"].(map[string]any)
	said := w.must(0, "GET", "/v1/public/races/"+text(t, race, "race_id")+"/seed-commitment", "", 404, "RACE_NOT_FOUND")
	if !strings.Contains(text(t, said, "detail"), "/v1/arenas/demo-shopping/seeds") {
		t.Errorf("%v", said)
	}
	w.must(0, "GET", "/v1/public/episode-results/"+uuid.NewString()+"/feedback", "", 404, "ARTIFACT_NOT_FOUND")
	for _, c := range [][2]string{{"GET", "/v1/validator/pack/aa"}, {"POST", "/v1/validator/race/" + uuid.NewString() + "/pack"}, {"POST", "/v1/validator/episode-artifacts/presign"}} {
		w.must('a', c[0], c[1], "", 403, "")
		w.must('v', c[0], c[1], "", 404, "")
	}
}

// Each of the 56 calls of oro-sdk 7.0.2 reaches a route, or is one that ORO's own web
// site has: its demo, its waiting list, and its sign-in with a provider.
func TestRoutesOfNewestSDK(t *testing.T) {
	routes := strings.Fields(`
		POST /v1/auth/challenge POST /v1/auth/session POST /v1/auth/logout GET /health GET /health/deep
		GET /v1/miner/agents GET /v1/miner/agents/{id}/versions GET /v1/miner/agent-versions/{id} POST /v1/miner/submit
		GET /v1/miner/inference-auth GET /v1/miner/inference-auth/{p} POST /v1/miner/inference-auth/{p} DELETE /v1/miner/inference-auth/{p}
		PATCH /v1/miner/inference-auth/default POST /v1/miner/chutes-auth GET /v1/miner/chutes-auth/status
		PUT /v1/miner/race-selection DELETE /v1/miner/race-selection
		GET /v1/public/agent-versions/{id} GET /v1/public/agent-versions/{id}/problems GET /v1/public/agent-versions/{id}/runs
		GET /v1/public/agent-versions/{id}/status POST /v1/public/artifacts/download-url GET /v1/public/episode-results/{id}/feedback
		GET /v1/public/evaluation-runs/{id} GET /v1/public/evaluations/pending GET /v1/public/evaluations/running
		GET /v1/public/inference/models GET /v1/public/leaderboard GET /v1/public/races/current GET /v1/public/races/history
		GET /v1/public/races/{id} GET /v1/public/races/{id}/seed-commitment GET /v1/public/races/{id}/validator-variance
		GET /v1/public/suites GET /v1/public/suites/current GET /v1/public/suites/{id}/problems GET /v1/public/top
		GET /v1/public/top-miner-payout GET /v1/public/top/history GET /v1/public/trajectories/history GET /v1/public/validators
		POST /v1/validator/work/claim POST /v1/validator/evaluation-runs/{id}/heartbeat POST /v1/validator/evaluation-runs/{id}/progress
		GET /v1/validator/evaluation-runs/{id}/problems POST /v1/validator/evaluation-runs/{id}/complete POST /v1/validator/uploads/presign
		POST /v1/validator/episode-artifacts/presign GET /v1/validator/pack/{sha} POST /v1/validator/race/{id}/pack
		GET /v1/validator/weight-salt`)
	w := newWorld(t)
	mux, ok := w.h.(*http.ServeMux)
	if !ok {
		t.Fatalf("the routes are a %T", w.h)
	}
	for i := 0; i < len(routes); i += 2 {
		path := strings.NewReplacer("{id}", uuid.NewString(), "{p}", "chutes", "{sha}", "aa").Replace(routes[i+1])
		if _, pattern := mux.Handler(httptest.NewRequest(routes[i], path, nil)); pattern == "/" || pattern == "" {
			t.Errorf("%s %s has no route", routes[i], routes[i+1])
		}
	}
}

// drawn is a platform whose periods were drawn by drand.
type drawn struct {
	Platform
	list []client.SeedPeriod
}

func (d drawn) Seeds(context.Context, string) ([]client.SeedPeriod, error) { return d.list, nil }

// A race that was drawn by drand says so as the newest SDK reads it: what it says can be
// computed from what it says.
func TestSeedCommitment(t *testing.T) {
	w := newWorld(t)
	w.raced()
	race, _ := w.must(0, "GET", "/v1/public/races/current", "", 200, "")["race"].(map[string]any)
	secret, committed := strings.Repeat("5e", 32), w.clock().UTC()
	sum, err := seeds.Commitment(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature := bytes.Repeat([]byte{7}, 48)
	s := client.SeedPeriod{
		Period: int64(race["race_number"].(float64)) - 1, Commitment: sum, CommittedAt: &committed,
		Drand: &client.Drand{Round: 12345678, Signature: hex.EncodeToString(signature), Randomness: agon.Sum(signature).Hex()},
	}
	ask := func() map[string]any {
		t.Helper()
		w.cfg.Platform = drawn{w.api, []client.SeedPeriod{s}}
		if w.h, err = New(w.cfg); err != nil {
			t.Fatal(err)
		}
		return w.must(0, "GET", "/v1/public/races/"+text(t, race, "race_id")+"/seed-commitment", "", 200, "")
	}
	if got := ask(); got["secret"] != nil || got["world_seed"] != nil || got["revealed"] != false || got["secret_sha256"] != sum.Hex() || got["drand_round"] != 12345678. {
		t.Errorf("before it is shown: %v", got)
	}
	s.Secret = secret
	got := ask()
	raw, err := hex.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	if random := sha256.Sum256(signature); got["drand_randomness"] != hex.EncodeToString(random[:]) || got["world_seed"] != agon.Sum(append(raw, random[:]...)).Hex() || got["revealed"] != true {
		t.Errorf("%v", got)
	}
}

// A version is closed when it is decided, not when its runs of a stage are scored.
func TestClosed(t *testing.T) {
	for _, c := range []struct {
		state  agon.SubmissionState
		active int // runs
		want   bool
	}{
		{agon.SubmissionQueued, 1, false},
		{agon.SubmissionPlaying, 1, false},
		{agon.SubmissionPlaying, 0, false}, // a judging by others is open, or the next stage
		{agon.SubmissionScored, 0, true},
		{agon.SubmissionScored, 1, false}, // it sits, and is played on a new set
		{agon.SubmissionExcluded, 0, true},
		{agon.SubmissionRefused, 0, true},
	} {
		if got := closed(c.state, c.active); got != c.want {
			t.Errorf("%s, %d runs to play: %v", c.state, c.active, got)
		}
	}
}
