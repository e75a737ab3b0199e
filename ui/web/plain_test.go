package web

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/plain"
)

// raw steers a terminal or misleads a reader in every way that plain knows.
const raw = "MARK\x1b[31m\x1b]0;t\x07\u009b1m\r\b\x00\u202e\u2066\u200f\u2028\ufeff\U000e0041\u0085 END"

// firstUnsafe is what of s may reach nobody.
func firstUnsafe(s string) (string, bool) {
	for i, r := range s {
		_, n := utf8.DecodeRuneInString(s[i:])
		if plain.Unsafe(r) || r == utf8.RuneError && n == 1 {
			return s[max(0, i-60):min(len(s), i+20)], true
		}
	}
	return "", false
}

// sow puts raw into every field that a miner or a validator writes, wherever
// the platform takes it, and returns how many it took.
func (f *fixture) sow() (sub, run string) {
	ctx := context.Background()
	for field, r := range map[string]client.SubmitRequest{ // a form that is not plain is refused
		"name":    {Name: raw, Licence: "MIT", Files: []client.File{{Path: "agent", Content: []byte("x")}}},
		"licence": {Name: "a", Licence: raw, Files: []client.File{{Path: "agent", Content: []byte("x")}}},
		"path":    {Name: "a", Licence: "MIT", Files: []client.File{{Path: raw, Content: []byte("x")}}},
	} {
		if _, err := f.Submit(ctx, platform.Caller{Hotkey: miner}, "demo", r); err == nil {
			f.t.Errorf("a submission's %s may hold controls", field)
		}
	}
	s := f.submit(miner, "MARK", raw)
	by := platform.Caller{Hotkey: player}
	inner, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": raw, "content": raw, "name": raw, "tool_call_id": raw}}, "input": raw, "model": raw})
	must(f.t, err)
	receipt := agon.Receipt{
		ID: raw, Session: raw, Task: raw, Route: raw, Model: raw, Provider: raw, RequestHash: agon.Digest(raw), ResponseHash: agon.Digest(raw), PriceVersion: raw,
		Outcome: raw, Payer: raw, Emitted: raw, Prev: agon.Digest(raw), Signer: raw, Sig: raw,
	}
	call := map[string]any{"id": raw, "name": raw, "arguments": raw}
	everything := map[string]any{
		"receipt": receipt, "request": map[string]any{"text": string(inner), "head": raw}, "response": map[string]any{"text": raw, "head": raw},
		"message": map[string]any{"role": raw, "content": raw, "reasoning": raw, "finish_reason": raw, "tool_calls": []any{call}},
		"error":   raw, "stream": raw, "text": raw, "phase": raw, "detail": raw, "task": raw, "reason": raw, "nonce": raw, "arguments": map[string]any{raw: raw},
		"tool": map[string]any{"tool": raw, "outcome": raw, "request": map[string]any{raw: raw}, "response": raw, "receipt_id": raw}, "exit": map[string]any{"limit": raw}, "scorer": raw, "code": raw, "name": raw,
		raw: raw,
	}
	for l := f.claimAs(raw); l != nil; l = f.claimAs(raw) {
		run = l.Run.Run
		var evs []agon.Event
		for i, typ := range []string{agon.EventModel, agon.EventTool, agon.EventOutput, agon.EventPhase, agon.EventBox, agon.EventScore, agon.EventNote, agon.EventRefused, "unknown_kind"} {
			evs = append(evs, event(int64(i+1), typ, l.Run.Tasks[0].Key, everything))
		}
		for i, e := range evs { // each alone: one that is refused hides none of the others
			if e.Task = raw; i%2 == 0 {
				e.Task = l.Run.Tasks[0].Key
			}
			if _, err := f.Heartbeat(ctx, by, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{e}}); err != nil {
				e.Task = l.Run.Tasks[0].Key
				_, err = f.Heartbeat(ctx, by, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{e}})
				must(f.t, err)
			}
		}
		evidence, err := blob.PutFiles(ctx, putter{f.Platform, player}, []blob.File{{Path: "log", Content: []byte(raw)}}, blob.TreeLimits{})
		must(f.t, err)
		r := client.Result{Evidence: evidence, Token: l.Token, Outcome: raw, Reason: raw, Driver: agon.Driver{Name: raw, Version: raw}, Cost: 1, BoxMS: 1}
		for _, t := range l.Run.Tasks {
			r.Scores = append(r.Scores, agon.Score{Task: t.Key, Value: 1, Solved: true, Scorer: raw, Detail: raw, Metrics: map[string]float64{raw: 1}})
		}
		// What the platform refuses for its form needs no page; the rest must be taken.
		for _, mend := range []func(){
			func() {},
			func() { r.Outcome = "ok" },
			func() { r.Driver = agon.Driver{Name: "runc", Version: raw} },
			func() { r.Driver.Version = "1" },
			func() {
				for i := range r.Scores {
					r.Scores[i].Metrics = nil
				}
			},
			func() {
				for i := range r.Scores {
					r.Scores[i].Scorer = "fake-1"
				}
			},
			func() { r.Reason = "" },
		} {
			mend()
			if _, err = f.Result(ctx, by, l.ID, r); err == nil {
				break
			}
		}
		must(f.t, err)
	}
	if _, err := f.Appeal(ctx, platform.Caller{Hotkey: miner}, s.ID, raw); err != nil {
		f.t.Logf("no appeal: %v", err)
	}
	// One under way, that failed by a fault of ours, with a reason.
	f.submit(rival, "MARK 2", "# "+raw)
	if l := f.claimAs("x"); l != nil {
		_, err := f.Result(ctx, by, l.ID, client.Result{Token: l.Token, Fault: agon.FaultValidator, Reason: raw, Outcome: "box_lost", Driver: agon.Driver{Name: "runc", Version: "1"}})
		must(f.t, err)
	}
	return s.ID, run
}

func (f *fixture) claimAs(version string) *client.Lease {
	f.t.Helper()
	l, err := f.Claim(context.Background(), platform.Caller{Hotkey: player}, client.ClaimRequest{Kinds: []string{kindtest.Fake{}.Name()}, Driver: "runc", Version: version})
	must(f.t, err)
	return l
}

// TestPagesArePlain reads every page, every fragment and the live stream after
// raw was put into every field of strangers: no control character, mark of
// writing direction or escape reaches a reader.
func TestPagesArePlain(t *testing.T) {
	f := newFixture(t)
	sub, run := f.sow()
	for _, who := range []string{"", miner, player, boss} {
		shown := 0
		pages := f.walk(f.browser(who), "/submissions/"+sub, "/runs/"+run, "/runs/"+run+"?q=MARK", "/ledger/7", "/operator", "/nowhere/"+"MARK%1B%5B31m%E2%80%AE", "/runs/"+run+"?q=MARK%1B%5B31m%E2%80%AE")
		for at, body := range pages {
			if strings.Contains(at, "/file?") || strings.HasPrefix(at, "/static/") {
				continue // bytes, handed over as a download
			}
			if strings.Contains(body, "MARK") {
				shown++
			}
			if where, bad := firstUnsafe(body); bad {
				t.Errorf("as %q: %s holds %q", who, at, where)
			}
		}
		if shown < 8 {
			t.Errorf("as %q: only %d of %d pages show the text", who, shown, len(pages))
		}
	}
	// The stream of steps, whose lines end with what a text must not make.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/runs/"+run+"/live", nil)
	must(t, err)
	resp, err := f.browser(miner).Do(req)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	if where, bad := firstUnsafe(string(b)); bad || !strings.Contains(string(b), "MARK") {
		t.Errorf("the stream holds %q", where)
	}
}
