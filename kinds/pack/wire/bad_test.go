package wire

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/agon-arena/agon/ledger"
)

// bads are bad requests of each route that takes any: what is asked, and the whole
// text that answers. A path is one that fits the route's pattern.
var bads = map[string][]struct{ ask, status, text string }{
	"GET /api/scores/by-validator":                        {{"", "400", "validator query parameter is required"}},
	"GET /api/miners/{hotkey}":                            {{"/api/miners/nope", "404", "Miner not found"}},
	"GET /api/miners/{hotkey}/packs/{hash}":               {{"/api/miners/nope/packs/0", "404", "Pack not found"}},
	"GET /api/submissions":                                {{"?limit=0", "400", "limit must be a positive integer"}},
	"GET /api/eval-logs":                                  {{"?type=x", "400", `type must be "miner" or "cycle"`}, {"?limit=x", "400", "limit must be a positive integer"}, {"?offset=-1", "400", "offset must be a non-negative integer"}, {"?from=x", "400", "from must be an ISO 8601 date or time"}},
	"GET /api/queue":                                      {{"?limit=x", "400", "limit must be a positive integer"}},
	"GET /api/epoch/{id}":                                 {{"/api/epoch/x", "400", "epoch id must be a positive integer"}, {"/api/epoch/999", "404", "Epoch not found"}},
	"GET /api/winner/history":                             {{"?limit=-1", "400", "limit must be a positive integer"}},
	"GET /api/validator/{hotkey}/activity":                {{"/api/validator/nope/activity?limit=x", "400", "limit must be a positive integer"}},
	"GET /api/skills":                                     {{"?page=0", "400", "page must be a positive integer"}, {"?limit=x", "400", "limit must be a positive integer"}},
	"GET /api/skills/{slug}":                              {{"/api/skills/nope", "404", "Skill not found"}},
	"GET /api/skills/{slug}/SKILL.md":                     {{"/api/skills/nope/SKILL.md", "404", "Skill not found"}},
	"GET /api/v2/scores/recent":                           {{"?since=x", "400", "since must be an ISO 8601 time such as 2026-05-21T00:00:00Z"}},
	"GET /api/nodes/status":                               {{"?type=x", "400", `type must be "miner" or "validator"`}},
	"GET /api/bench":                                      {{"?spec=x", "400", "spec must be a positive integer"}},
	"GET /api/bench/miner-scores":                         {{"", "400", "hotkey query parameter is required"}},
	"GET /api/v2/epoch/{id}/pack/{file}":                  {{"/api/v2/epoch/1/pack/0.json", "404", "Pack not found"}},
	"GET /api/v2/validators/epoch_snapshot":               {{"", "400", snapshotNumber}, {"?epoch_number=null", "400", snapshotNumber}, {"?epoch_number=6", "401", signedFields}},
	"POST /api/v2/validators/epoch_snapshot":              {{`{}`, "400", snapshotNumber}, {`{"epoch_number": "6"}`, "400", snapshotNumber}, {`{"epoch_number": 6}`, "401", signedFields}, {`[]`, "400", notObject}},
	"POST /api/v2/epoch/{id}/score":                       {{`{}`, "400", "challenger is required"}, {`{"challenger": {"score": "2"}}`, "400", "challenger.score must be a finite number"}, {`{"challenger": {"score": 1, "qualified": 1}}`, "400", "challenger.qualified must be a boolean"}, {`{"challenger": {"score": 1, "qualified": true}}`, "401", signedFields}},
	"POST /api/v2/epoch/{id}/scenario_progress":           {{`{"scenario_name": "a", "quality": 2}`, "400", "quality must be from 0 to 1"}, {`{"scenario_index": 1.5}`, "400", "scenario_index must be an integer"}, {`{"scenario_name": "a"}`, "401", signedFields}},
	"GET /api/v2/validators/epoch_snapshot/{hash}/{file}": {{"/api/v2/validators/epoch_snapshot/0/0.json", "404", "Pack not found"}},
	"GET /api/packs/{file}":                               {{"/api/packs/0.json", "404", "Pack not found, or not public yet"}},
	"GET /api/logs/{file}":                                {{"/api/logs/0.tar.gz", "404", "Log not found"}},
	"POST /api/miners/pre-eval":                           {{`{}`, "400", "Either pack_hash or epoch_number is required"}, {`{"timestamp": "12"}`, "400", "timestamp must be an integer"}},
	"POST /api/v2/miners/pre-eval":                        {{`{}`, "400", "Either pack_hash or epoch_number is required"}, {`{"epoch_number": 1, "miner_hotkey": ""}`, "400", "miner_hotkey must be an SS58 address"}},
	"POST /api/v2/miners/submit":                          {{`{"miner_hotkey": []}`, "400", "miner_hotkey must be a string"}, {`{"timestamp": "12"}`, "400", "timestamp must be an integer"}, {`{"x": "` + strings.Repeat("x", maxBody) + `"}`, "400", "body must be ≤65536 bytes"}},
	"POST /api/validators/logs/upload":                    {{`{}`, "400", "want multipart/form-data with log_archive"}},
	"POST /api/validators/logs/cycle":                     {{`{}`, "400", "want multipart/form-data with log_archive"}},
	"POST /api/validators/heartbeat":                      {{`{}`, "401", "hotkey, timestamp, and signature are required"}, {`{"last_eval_at": "now"}`, "400", "last_eval_at must be an integer"}},
	"POST /api/v2/validators/heartbeat":                   {{`null`, "400", notObject}, {`{"hotkey": 5}`, "400", "hotkey must be a string"}},
	"POST /api/v1/consensus/payload":                      {{`{"validator_hotkey": 5, "payload": {}}`, "400", "validator_hotkey must be a string"}, {`{"payload": []}`, "400", "payload must be an object"}},
	"POST /api/v2/consensus/payload":                      {{``, "400", notObject}},
	"GET /c/{hash}":                                       {{"/c/sha256:0", "404", "No payload of that hash is kept"}},
	"POST /api/scores/submit":                             {{`{"score": "1"}`, "400", "score must be a finite number"}, {`{"block_height": 1.0}`, "400", "block_height must be an integer"}},
	"POST /api/v2/scores/submit":                          {{`{"scenario_results": []}`, "400", "scenario_results must be an object"}},
}

const (
	snapshotNumber = "epoch_number is required and must be a non-negative integer"
	signedFields   = "validator_hotkey, timestamp, and signature are required"
	notObject      = "body must be a JSON object"
)

// Every refusal is a JSON object whose key error has a text that names what was
// wrong; of a post it says success false, too. No route is without one.
func TestBadRequests(t *testing.T) {
	w := led(t)
	w.cfg.Epochs = true
	w.open()
	refused := func(method, path, body, status, text string) {
		t.Helper()
		got, raw := w.do(method, path, "application/json", []byte(body))
		var a struct {
			Success *bool   `json:"success"`
			Error   *string `json:"error"`
		}
		err := json.Unmarshal(raw, &a)
		if err != nil || a.Error == nil || strconv.Itoa(got) != status || text != "" && *a.Error != text || method == "POST" && text != "" && (a.Success == nil || *a.Success) {
			t.Errorf("%s %s %.80q: %d %.300s, want %s %q", method, path, body, got, raw, status, text)
		}
	}
	known := map[string]bool{}
	for _, r := range Routes() {
		known[r.Pattern] = true
		method, path, _ := strings.Cut(r.Pattern, " ")
		for _, x := range bads[r.Pattern] {
			if method == "GET" && strings.HasPrefix(x.ask, "/") {
				refused(method, x.ask, "", x.status, x.text)
			} else if method == "GET" {
				refused(method, path+x.ask, "", x.status, x.text)
			} else {
				refused(method, strings.ReplaceAll(path, "{id}", "1"), x.ask, x.status, x.text)
			}
		}
		if method == "POST" && len(bads[r.Pattern]) == 0 {
			t.Errorf("%s has no bad request here", r.Pattern)
		}
	}
	for pattern := range bads {
		if !known[pattern] {
			t.Errorf("%s is no route", pattern)
		}
	}
	refused("POST", "/api/v2/epoch/x/score", "{}", "400", "challenge_epoch_id must be a positive integer")
	refused("POST", "/api/v2/epoch/x/scenario_progress", "{}", "400", "challenge_epoch_id must be a positive integer")
	refused("GET", "/api/v2/nothing", "", "404", "Not found")
	refused("DELETE", "/api/miners", "", "404", "Not found")

	// Where the ledger is down, each read says so in the same key.
	w.cfg.Metagraph = func(context.Context) (*ledger.Metagraph, error) { return nil, errors.New("secret host is down") }
	w.open()
	for _, r := range Routes() {
		method, path, _ := strings.Cut(r.Pattern, " ")
		if method == "GET" && !strings.Contains(path, "{") && bads[r.Pattern] == nil && path != "/api/prices" {
			refused(method, path, "", "500", "Internal server error")
		}
	}
}
