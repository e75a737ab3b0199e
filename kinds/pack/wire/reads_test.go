package wire

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
)

func TestValidators(t *testing.T) {
	w, hashes := filled(t)
	list := rows(t, w.get("/api/validators", 200), "validators")
	if len(list) != 2 {
		t.Fatalf("%d validators: %v", len(list), list)
	}
	by := map[string]map[string]any{}
	for _, v := range list {
		by[v["hotkey"].(string)] = v
	}
	v := by[w.ss58('v')]
	want := map[string]any{
		"uid": 1.0, "stake": 19999.0, "llmModel": "scripted", "benchVersion": "pack-1+checks-1", "version": "0.1.0",
		"lastSetWeightsAt": "2026-03-04T04:4", "weightTargets": []any{4.0},
	}
	for name, x := range want {
		got := v[name]
		if s, ok := x.(string); ok && strings.HasPrefix(fmt.Sprint(got), s) {
			continue
		}
		if !reflect.DeepEqual(got, x) {
			t.Errorf("%s is %v, want %v", name, got, x)
		}
	}
	if r, _ := v["latestReport"].(map[string]any); r == nil || r["packHash"] != hashes['e'] && r["packHash"] != hashes['b'] {
		t.Errorf("latest report %v", v["latestReport"])
	}
}

func TestScoresByValidator(t *testing.T) {
	w, hashes := filled(t)
	if got := w.get("/api/scores/by-validator", 400); got["error"] != "validator query parameter is required" {
		t.Errorf("no validator: %v", got)
	}
	got := w.get("/api/scores/by-validator?validator="+w.ss58('v'), 200)
	by := map[any]map[string]any{}
	for _, e := range rows(t, got, "entries") {
		by[e["packHash"]] = e
	}
	a := by[hashes['a']]
	if a == nil || a["uid"] != 3.0 || a["qualified"] != true || a["score"] != 1.0 || a["minerHotkey"] != w.ss58('a') || a["weight"] != 0.0 || a["rejected"] != false {
		t.Fatalf("a: %v", a)
	}
	if c, _ := a["costUsd"].(float64); c < 0.0799 || c > 0.0801 {
		t.Errorf("cost of a: %v", a["costUsd"])
	}
	if s, _ := a["scenarioScores"].(map[string]any); s["inbox_triage"] == nil {
		t.Errorf("scenarios of a: %v", s)
	}
	if b := by[hashes['b']]; b == nil || b["weight"] != 1.0 {
		t.Errorf("b sits: %v", b)
	}
	w.skip(25 * time.Hour)
	if got := rows(t, w.get("/api/scores/by-validator?validator="+w.ss58('v'), 200), "entries"); len(got) != 0 {
		t.Errorf("a day later: %v", got)
	}
	if got := rows(t, w.get("/api/scores/by-validator?validator=nobody", 200), "entries"); len(got) != 0 {
		t.Errorf("nobody: %v", got)
	}
}

func TestMiner(t *testing.T) {
	w, hashes := filled(t)
	a, b := w.get("/api/miners/"+w.ss58('a'), 200), w.get("/api/miners/"+w.ss58('b'), 200)
	if b["isWinner"] != true || b["rank"] != 1.0 || b["packHash"] != hashes['b'] || b["qualified"] != true || b["uid"] != 4.0 || b["ownerkey"] != "cold-b" || b["isActive"] != true {
		t.Errorf("b: %v", b)
	}
	if a["isWinner"] != false || a["rank"] != 2.0 || a["coverage"] != 1.0 || a["confidence"] != "high" || a["validatorCount"] != 2.0 {
		t.Errorf("a: %v", a)
	}
	if got := names(rows(t, a, "scenarioSummary"), "name"); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"inbox_triage", "morning_brief", "stand_up"}) {
		t.Errorf("scenarios of a: %v", got)
	}
	if url := "http://arena.example:8900/api/packs/" + hashes['b'] + ".json"; b["gcsPackUrl"] != url {
		t.Errorf("url %v, want %s", b["gcsPackUrl"], url)
	}
	status, body := w.do("GET", "/api/packs/"+hashes['b']+".json", "", nil)
	if status != 200 || !bytes.Contains(body, []byte("AGENTS.md")) {
		t.Errorf("pack file: %d", status)
	}
	d := w.get("/api/miners/"+w.ss58('d'), 200)
	ban, _ := d["banRecord"].(map[string]any)
	if ban == nil || ban["failedPackCount"] != 1.0 || d["isBanned"] != false || d["rank"] != nil {
		t.Errorf("d: %v", d)
	}
	sub := rows(t, d, "recentSubmissions")[0]
	if sub["evalStatus"] != "failed" || !strings.HasPrefix(fmt.Sprint(sub["evalReason"]), "integrity_failed") || sub["gcsPackUrl"] != nil {
		t.Errorf("d's pack: %v", sub)
	}
	if f := w.get("/api/miners/"+w.ss58('f'), 200); f["gcsPackUrl"] != nil || rows(t, f, "recentSubmissions")[0]["evalStatus"] != "pending" {
		t.Errorf("f waits: %v", f)
	}
	// Nobody may read what is not decided; what nobody knows is not found.
	for _, path := range []string{"/api/packs/" + hashes['f'] + ".json", "/api/packs/" + hashes['d'] + ".json", "/api/packs/..%2f..%2fagon.db", "/api/packs/" + strings.Repeat("0", 64) + ".json", "/api/miners/" + w.ss58('x'), "/api/nothing"} {
		if status, _ := w.do("GET", path, "", nil); status != 404 {
			t.Errorf("%s: %d, want 404", path, status)
		}
	}
}

func TestMinerPack(t *testing.T) {
	w, hashes := filled(t)
	got := w.get("/api/miners/"+w.ss58('b')+"/packs/"+hashes['b'], 200)
	sum, _ := got["summary"].(map[string]any)
	if got["evalStatus"] != "passed" || got["minerUid"] != 4.0 || got["minerColdkey"] != "cold-b" || sum["qualified"] != true || sum["qualifiedCount"] != 2.0 || sum["validatorCount"] != 2.0 {
		t.Errorf("b: %v", got)
	}
	if c, _ := sum["bestCost"].(float64); c < 0.0199 || c > 0.0201 {
		t.Errorf("best cost %v", sum["bestCost"])
	}
	e := w.get("/api/miners/"+w.ss58('e')+"/packs/"+hashes['e'], 200)
	if e["evalStatus"] != "failed" || !strings.HasPrefix(fmt.Sprint(e["evalReason"]), "stand_up is not qualified: 2 of 5 criteria (/x)") {
		t.Errorf("e: %v", e)
	}
	w.get("/api/miners/"+w.ss58('a')+"/packs/"+hashes['b'], 404)
}

func TestSubmissions(t *testing.T) {
	w, hashes := filled(t)
	list := rows(t, w.get("/api/submissions", 200), "submissions")
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprint(s["packHash"], " ", s["evalStatus"]))
	}
	want := []string{hashes['e'] + " failed", hashes['d'] + " failed", hashes['c'] + " failed", hashes['b'] + " passed", hashes['a'] + " passed"}
	if !slices.Equal(got, want) {
		t.Errorf("submissions %v, want %v", got, want)
	}
	if !strings.Contains(fmt.Sprint(list[2]["evalReason"]), "similarity 0.9") {
		t.Errorf("a copy's reason: %v", list[2]["evalReason"])
	}
	if got := rows(t, w.get("/api/submissions?limit=2", 200), "submissions"); len(got) != 2 {
		t.Errorf("%d of 2", len(got))
	}
	w.get("/api/submissions?limit=x", 400)
}

// What the field's readers stumble over (spec/trajectoryrl.md 5.5): every text of every answer
// is looked at.
func TestTraps(t *testing.T) {
	w, hashes := filled(t)
	urls := []string{
		"/api/validators", "/api/scores/by-validator?validator=" + w.ss58('v'), "/api/submissions", "/api/eval-logs", "/api/miners", "/api/challenge/state", "/api/queue",
		"/api/v2/winner/current", "/api/winner/history", "/api/stats", "/api/previous-epoch", "/api/previous-epoch/miner-breakdown", "/api/skills", "/api/skills/tags",
		"/api/validator/" + w.ss58('v') + "/activity", "/api/bench/miner-scores?hotkey=" + w.ss58('b'),
		"/api/v2/leaderboard", "/api/v2/scores/recent", "/api/v2/validators/progress", "/api/winners", "/api/nodes/status", "/api/prices", "/api/bench",
	}
	for k, hash := range hashes {
		urls = append(urls, "/api/miners/"+w.ss58(k), "/api/miners/"+w.ss58(k)+"/packs/"+hash)
	}
	for i := 1; i <= 6; i++ {
		urls = append(urls, fmt.Sprint("/api/epoch/", i))
	}
	times := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
	number := map[string]bool{
		"uid": true, "miner_uid": true, "minerUid": true, "winner_uid": true, "stake": true, "costUsd": true, "score": true, "weight": true, "totalCostUsd": true, "avgCost": true, "avgScore": true,
		"bestCost": true, "cost": true, "rank": true, "blockHeight": true, "sizeBytes": true, "epoch_id": true, "since_epoch_id": true, "epoch_length_blocks": true, "coverage": true,
	}
	seen := 0
	var walk func(url, name string, v any)
	walk = func(url, name string, v any) {
		switch x := v.(type) {
		case map[string]any:
			for k, v := range x {
				walk(url, k, v)
			}
		case []any:
			for _, v := range x {
				walk(url, name, v)
			}
		case string:
			seen++
			if number[name] {
				t.Errorf("%s: %s is the text %q", url, name, x)
			}
			if strings.HasSuffix(name, "At") && !times.MatchString(x) || strings.HasSuffix(name, "_at") && !times.MatchString(x) {
				t.Errorf("%s: %s is %q: readers parse three digits of a second", url, name, x)
			}
			if strings.HasSuffix(strings.ToLower(name), "url") && !strings.HasPrefix(x, "http://arena.example:8900/api/") {
				t.Errorf("%s: %s is %q: not absolute", url, name, x)
			}
			if name != "content" && strings.ContainsAny(x, "[]\x1b\n\x00") {
				t.Errorf("%s: %s is %q: readers take brackets for markup", url, name, x)
			}
		}
	}
	for _, u := range urls {
		walk(u, "", w.get(u, 200))
	}
	if seen < 300 {
		t.Errorf("only %d texts were looked at", seen)
	}
}

func TestEpochs(t *testing.T) {
	w, hashes := filled(t)
	st := w.get("/api/challenge/state", 200)
	cur, _ := st["current_epoch"].(map[string]any)
	if cur["id"] != 6.0 || cur["challenger_pack_hash"] != hashes['f'] || cur["challenger_hotkey"] != w.ss58('f') || cur["status"] != "pending" {
		t.Errorf("current %v", cur)
	}
	if cfg, _ := st["config"].(map[string]any); cfg["winner_protection_margin"] != 0.1 || cfg["epoch_length_blocks"] != 75.0 {
		t.Errorf("config %v", cfg)
	}
	q := rows(t, w.get("/api/queue", 200), "queue")
	if len(q) != 1 || q[0]["pack_hash"] != hashes['f'] || q[0]["eligible_now"] != true || q[0]["miner_uid"] != 8.0 {
		t.Errorf("queue %v", q)
	}
	for id, want := range map[int]string{1: "winner_replaced", 2: "winner_replaced", 3: "aborted_quorum", 4: "aborted_quorum", 5: "winner_held"} {
		got := w.get(fmt.Sprint("/api/epoch/", id), 200)
		ep, _ := got["epoch"].(map[string]any)
		if ep["outcome"] != want || ep["status"] != "finalized" || ep["id"] != float64(id) {
			t.Errorf("epoch %d: %v", id, ep)
		}
		if id == 2 {
			subs := rows(t, got, "submissions")
			if len(subs) != 2 || subs[0]["challenger"].(map[string]any)["qualified"] != true || ep["consensus_qualified"] != true {
				t.Errorf("epoch 2: %v", got)
			}
		}
	}
	w.get("/api/epoch/99", 404)
	w.get("/api/epoch/0", 400)
	w.get("/api/epoch/x", 400)
	cw := w.get("/api/v2/winner/current", 200)
	win, _ := cw["winner"].(map[string]any)
	fin, _ := cw["finalized_epoch"].(map[string]any)
	if win["pack_hash"] != hashes['b'] || win["since_epoch_id"] != 2.0 || win["uid"] != 4.0 || fin["challenge_epoch_id"] != 5.0 || fin["winner_replaced"] != false {
		t.Errorf("winner %v", cw)
	}
	h := rows(t, w.get("/api/winner/history?limit=2", 200), "history")
	if len(h) != 2 || h[0]["epoch_id"] != 5.0 || h[0]["changed_from_prev"] != false || h[0]["winner_hotkey"] != w.ss58('b') || h[1]["epoch_id"] != 2.0 || h[1]["changed_from_prev"] != true {
		t.Errorf("history %v", h)
	}
	if s := w.get("/api/stats", 200); s["totalReports"] != 8.0 || s["totalLlmCalls"] != 24.0 || s["totalTokens"] != 880.0 || s["totalCostUsd"] != 0.32 {
		t.Errorf("stats %v", s)
	}
	p := w.get("/api/previous-epoch", 200)
	if p["status"] != "winner" || p["epochNumber"] != 5.0 || len(rows(t, p, "finalMinerResults")) != 3 {
		t.Errorf("previous epoch %v", p)
	}
	if m := rows(t, w.get("/api/miners", 200), "miners"); len(m) != 7 || !has(names(m, "packHash"), hashes['f']) {
		t.Errorf("roster %v", m)
	}
	if act := rows(t, w.get("/api/validator/"+w.ss58('v')+"/activity?limit=1", 200), "activity"); len(act) != 1 {
		t.Errorf("activity %v", act)
	}
}

func TestSkills(t *testing.T) {
	w, hashes := filled(t)
	list := rows(t, w.get("/api/skills", 200), "skills")
	if len(list) != 2 || list[0]["packHash"] != hashes['b'] || list[1]["packHash"] != hashes['a'] {
		t.Fatalf("skills %v", list)
	}
	slug := list[0]["slug"].(string)
	if !regexp.MustCompile(`^[a-z0-9-]{1,49}$`).MatchString(slug) {
		t.Errorf("slug %q", slug)
	}
	one := w.get("/api/skills/"+slug, 200)
	if !strings.Contains(one["content"].(string), "\n") {
		t.Errorf("content %v", one["content"])
	}
	if status, body := w.do("GET", "/api/skills/"+slug+"/SKILL.md", "", nil); status != 200 || string(body) != one["content"] {
		t.Errorf("file: %d", status)
	}
	if got := rows(t, w.get("/api/skills?tag=seated&tag=inbox_triage", 200), "skills"); len(got) != 1 {
		t.Errorf("by tags: %v", got)
	}
	first := strings.ToUpper(strings.Fields(one["content"].(string))[1])
	if got := rows(t, w.get("/api/skills?q="+url.QueryEscape(first+" sources"), 200), "skills"); len(got) != 1 || got[0]["slug"] != slug {
		t.Errorf("by its text (%s): %v", first, got)
	}
	for _, q := range []string{"?q=nothing-like-it", "?q=sources+nothing-like-it", "?agent=notepad", "?page=3", "?tag=seated&tag=no"} {
		if got := rows(t, w.get("/api/skills"+q, 200), "skills"); len(got) != 0 {
			t.Errorf("%s: %v", q, got)
		}
	}
	w.get("/api/skills/no-such", 404)
	if tags, _ := w.get("/api/skills/tags", 200)["tags"].(map[string]any); tags["policy-pack"] != 2.0 || tags["seated"] != 1.0 {
		t.Errorf("tags %v", tags)
	}
}

// unpack reads an archive of ours.
func unpack(t *testing.T, b []byte) map[string]string {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	out := map[string]string{}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		c, err := io.ReadAll(tr)
		must(t, err)
		out[h.Name] = string(c)
	}
}

func TestEvalLogs(t *testing.T) {
	w, hashes := filled(t)
	all := rows(t, w.get("/api/eval-logs", 200), "logs")
	if len(all) != 2+2*3-1 && len(all) != 2+2*3 { // cycles of v and w, and their packs
		t.Fatalf("%d logs", len(all))
	}
	if !slices.IsSortedFunc(all, func(x, y map[string]any) int {
		return strings.Compare(y["createdAt"].(string), x["createdAt"].(string))
	}) {
		t.Error("not the newest first")
	}
	for _, typ := range []string{"miner", "cycle"} {
		list := rows(t, w.get("/api/eval-logs?type="+typ, 200), "logs")
		for _, l := range list {
			if l["logType"] != typ {
				t.Errorf("%s in a list of %s", l["logType"], typ)
			}
			target := strings.TrimPrefix(l["gcsUrl"].(string), "http://arena.example:8900")
			status, body := w.do("GET", target, "", nil)
			if status != 200 || float64(len(body)) != l["sizeBytes"] {
				t.Fatalf("%s: %d with %d bytes, listed with %v", target, status, len(body), l["sizeBytes"])
			}
			if err := checkArchive(body, maxUnpacked); err != nil {
				t.Errorf("%s: %v", target, err)
			}
			files := unpack(t, body)
			if !strings.Contains(files["validator.log"], "gate=") || strings.ContainsAny(files["validator.log"], "[]\x1b") {
				t.Errorf("validator.log: %q", files["validator.log"])
			}
			if typ == "miner" && (files["metadata.json"] == "" || !strings.Contains(files["miner.log"], "the agent's") || !strings.Contains(files["validator.log"], "verdict (/) of office/")) {
				t.Errorf("%s has %q", target, files)
			}
		}
		if len(list) < 2 {
			t.Errorf("%d logs of %s", len(list), typ)
		}
	}
	count := func(query string) int { return len(rows(t, w.get("/api/eval-logs?"+query, 200), "logs")) }
	day := w.now().UTC().Format(time.DateOnly)
	next := w.now().UTC().Add(24 * time.Hour).Format(time.DateOnly)
	for query, want := range map[string]int{
		"miner=" + w.ss58('b'): 2, "pack_hash=" + hashes['b']: 2, "validator=" + w.ss58('v') + "&type=cycle": 1, "validator=1&type=cycle": 1, "validator=77": 0, "validator=nobody": 0, "limit=1": 1, "offset=1": len(all) - 1, "offset=900": 0,
		"from=" + day: len(all), "to=" + day: len(all), "from=" + next: 0, "to=2026-03-03": 0, "from=2026-03-04T00:00:00Z&to=2026-03-04T23:59:59Z": len(all),
		"eval_id=20260304_0000_w20516": len(all), "eval_id=other": 0, "limit=5000": len(all),
	} {
		if got := count(query); got != want {
			t.Errorf("%s: %d logs, want %d", query, got, want)
		}
	}
	if got := w.get("/api/eval-logs?type=other", 400); got["error"] != `type must be "miner" or "cycle"` {
		t.Errorf("type: %v", got)
	}
	for _, q := range []string{"from=yesterday", "limit=0", "limit=-1", "limit=x", "offset=-1"} {
		w.get("/api/eval-logs?"+q, 400)
	}
	for _, id := range []string{"miner.x.1.y.tar.gz", "upload.x.tar.gz", "..%2f..%2fagon.db", "cycle.1"} {
		if status, _ := w.do("GET", "/api/logs/"+id, "", nil); status != 404 {
			t.Errorf("%s: %d", id, status)
		}
	}
}

// Of a hidden scenario nobody learns more than that it was played and how it went.
func TestHidden(t *testing.T) {
	w := newWorld(t, "morning-brief")
	_, hash := w.enter('a', samplePack(t, "baseline"))
	for w.playOne('v', func(string, string) (bool, float64) { return true, 0.03 }) {
	}
	p := w.get("/api/miners/"+w.ss58('a')+"/packs/"+hash, 200)
	if p["evalStatus"] != "passed" || fmt.Sprint(p["scenarios"]) != "[inbox_triage stand_up hidden_3]" {
		t.Errorf("scenarios %v of %v", p["scenarios"], p["evalStatus"])
	}
	if last := rows(t, rows(t, p, "validators")[0], "scenarios")[2]; last["cost"] != nil || last["qualified"] != true {
		t.Errorf("hidden: %v", last)
	}
	for _, l := range rows(t, w.get("/api/eval-logs", 200), "logs") {
		_, body := w.do("GET", strings.TrimPrefix(l["gcsUrl"].(string), "http://arena.example:8900"), "", nil)
		for name, content := range unpack(t, body) {
			if strings.Contains(name+content, "morning") || strings.HasPrefix(name, "hidden_") {
				t.Errorf("%s shows the hidden scenario: %s", name, content)
			}
		}
	}
}

// What an undecided pack left is not shown: no file, no reason, no log, no cost.
func TestUndecided(t *testing.T) {
	w := newWorld(t)
	_, hash := w.enter('a', samplePack(t, "baseline"))
	w.playOne('v', func(string, string) (bool, float64) { return true, 0.03 })
	p := w.get("/api/miners/"+w.ss58('a')+"/packs/"+hash, 200)
	sc := rows(t, rows(t, p, "validators")[0], "scenarios")
	if p["evalStatus"] != "pending" || p["gcsPackUrl"] != nil || p["evalReason"] != nil || len(sc) != 1 || sc[0]["cost"] != nil {
		t.Errorf("pending: %v", p)
	}
	if got := rows(t, w.get("/api/eval-logs?type=miner", 200), "logs"); len(got) != 0 {
		t.Errorf("logs of a pending pack: %v", got)
	}
	if got := rows(t, w.get("/api/skills", 200), "skills"); len(got) != 0 {
		t.Errorf("skills of a pending pack: %v", got)
	}
	cur, _ := w.get("/api/challenge/state", 200)["current_epoch"].(map[string]any)
	if subs := rows(t, w.get("/api/challenge/state", 200), "current_submissions"); cur["status"] != "in_progress" || len(subs) != 1 || subs[0]["validator_hotkey"] != w.ss58('v') {
		t.Errorf("challenge: %v %v", cur, subs)
	}
}

// An empty arena answers everything, too.
func TestEmpty(t *testing.T) {
	w := newWorld(t)
	for _, u := range []string{
		"/api/validators", "/api/submissions", "/api/eval-logs", "/api/challenge/state", "/api/queue", "/api/v2/winner/current", "/api/winner/history", "/api/stats", "/api/skills", "/api/miners", "/api/miners/" + w.ss58('a'),
		"/api/v2/leaderboard", "/api/v2/scores/recent", "/api/v2/validators/progress", "/api/winners", "/api/nodes/status", "/api/prices", "/api/bench",
	} {
		w.get(u, 200)
	}
	w.get("/api/previous-epoch", 404)
}

// A ledger that does not answer is an error of ours, told without details; it is asked again.
func TestLedgerDown(t *testing.T) {
	w := newWorld(t)
	down := true
	w.cfg.Metagraph = func(context.Context) (*ledger.Metagraph, error) {
		if down {
			return nil, errors.New("secret host is down")
		}
		return w.net.g, nil
	}
	w.open()
	if got := w.get("/api/validators", 500); got["error"] != "Internal server error" {
		t.Errorf("got %v", got)
	}
	down = false
	w.get("/api/validators", 200)
}

// An answer is at most as old as configured.
func TestFresh(t *testing.T) {
	w := newWorld(t)
	w.cfg.Fresh = time.Hour
	w.open()
	if got := rows(t, w.get("/api/queue", 200), "queue"); len(got) != 0 {
		t.Fatal(got)
	}
	w.enter('a', samplePack(t, "baseline"))
	if got := rows(t, w.get("/api/queue", 200), "queue"); len(got) != 0 {
		t.Errorf("a look was made anew: %v", got)
	}
	w.skip(2 * time.Hour)
	if got := rows(t, w.get("/api/queue", 200), "queue"); len(got) != 1 {
		t.Errorf("after an hour: %v", got)
	}
}

func BenchmarkValidators(b *testing.B) {
	w, _ := filled(b)
	begin := time.Now()
	w.cfg.Now = func() time.Time { return w.now().Add(time.Since(begin)) } // looks are made anew as they would be
	w.open()
	s := httptest.NewServer(w.h)
	defer s.Close()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
		for p.Next() {
			r, err := c.Get(s.URL + "/api/validators")
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
