package platform

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
)

// wantRights is the table again, written as a person would: one line for each
// class, one column for each stage, letters for who may read: p(ublic)
// m(iner) r(ival) v(alidator) o(perator).
const wantRights = `
progress  pmrvo pmrvo pmrvo
code      m...o m..vo pmrvo
logs      m...o m..vo pmrvo
traces    m...o m..vo pmrvo
evidence  m...o m..vo pmrvo
task      pmrvo pmrvo pmrvo
hidden    vo    vo    vo
`

func TestRightsTable(t *testing.T) {
	letter := map[Role]string{RolePublic: "p", RoleMiner: "m", RoleRival: "r", RoleValidator: "v", RoleOperator: "o"}
	seen := 0
	for line := range strings.Lines(strings.TrimSpace(wantRights)) {
		f := strings.Fields(line)
		for i, stage := range Stages {
			for _, role := range Roles {
				seen++
				if got, want := MayRead(What(f[0]), stage, role), strings.Contains(f[i+1], letter[role]); got != want {
					t.Errorf("%s at %s by %s: %v, want %v", f[0], stage, role, got, want)
				}
			}
		}
	}
	if seen != len(Whats)*len(Stages)*len(Roles) {
		t.Errorf("%d cells checked of %d", seen, len(Whats)*len(Stages)*len(Roles))
	}
	if MayRead("nonsense", StageDecided, RoleOperator) || MayRead(WhatCode, "nonsense", RoleOperator) {
		t.Error("what is not in the table is allowed")
	}
}

// TestRightsAreAsked opens every door at every stage as every role, and
// compares with the table.
func TestRightsAreAsked(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		for _, embargo := range []int{0, 48} {
			t.Run(fmt.Sprintf("hidden=%v,embargo=%d", hidden, embargo), func(t *testing.T) { walkDoors(t, hidden, embargo) })
		}
	}
}

func walkDoors(t *testing.T, hidden bool, embargo int) {
	f := newFixture(t, 1)
	f.arena.Tasks[0].Hidden, f.arena.Embargo = hidden, embargo
	must(t, f.EnsureArena(bg, f.arena))
	task := agon.Sum([]byte("small/t0"))

	callers := map[Role]Caller{
		RolePublic: {}, RoleMiner: {Hotkey: miner1}, RoleRival: {Hotkey: miner2},
		RoleValidator: {Hotkey: val1}, RoleOperator: {Hotkey: operator, Operator: true},
	}
	s := f.submit(miner1, "secret code")
	var run string
	var evidence agon.Digest
	check := func(stage Stage) {
		t.Helper()
		for role, c := range callers {
			if role == RoleValidator && stage == StageQueued {
				continue // nobody has held a lease yet
			}
			may := func(w What) bool {
				return MayRead(w, stage, role) && (w == WhatCode || !hidden || MayRead(WhatHidden, stage, role))
			}
			expect := func(what string, got, want bool) {
				t.Helper()
				if got != want {
					t.Errorf("%s at %s by %s: %v, want %v", what, stage, role, got, want)
				}
			}
			_, err := f.SubmissionFiles(bg, c, s.ID)
			expect("files", err == nil, may(WhatCode))
			_, err = f.Blob(bg, c, s.Digest)
			expect("manifest", err == nil, may(WhatCode))
			_, err = f.Blob(bg, c, agon.Sum([]byte("secret code")))
			expect("code blob", err == nil, may(WhatCode))
			if run != "" {
				evs, err := f.Events(bg, c, run, 0, 0, 0)
				must(t, err)
				for _, e := range evs {
					got := string(e.Data) != string(withheld)
					switch e.Type {
					case agon.EventPhase:
						expect("phase", got, true)
						expect("words of a phase", strings.Contains(string(e.Data), "chosen by the agent"), !hidden || MayRead(WhatHidden, stage, role))
					case agon.EventOutput:
						expect("output", got, may(WhatLogs))
					case agon.EventModel:
						expect("model call", got, may(WhatTraces))
					}
				}
				r, err := f.Run(bg, c, run)
				must(t, err)
				says := func(reason string) bool { return reason != "" && !strings.HasPrefix(reason, "withheld") }
				expect("reason", says(r.Reason) || says(r.List[0].Reason), may(WhatLogs))
			}
			if evidence != "" {
				_, err = f.Blob(bg, c, evidence)
				expect("evidence", err == nil, may(WhatEvidence))
			}
		}
		// Tasks do not depend on the stage of a submission.
		for role, c := range callers {
			_, err := f.Blob(bg, c, task)
			want := !hidden || MayRead(WhatHidden, StageQueued, role)
			if (err == nil) != want {
				t.Errorf("task by %s: %v, want %v", role, err, want)
			}
		}
	}
	check(StageQueued)

	l := f.claim(val1)
	run = l.Run.Run
	put := func(b string) agon.Digest {
		must(t, f.PutBlob(bg, Caller{Hotkey: val1}, "", agon.Sum([]byte(b)), []byte(b)))
		return agon.Sum([]byte(b))
	}
	beat := client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{
		{Seq: 1, Type: agon.EventPhase, Data: []byte(`{"phase":"playing","reason":"chosen by the agent"}`)},
		{Seq: 2, Type: agon.EventOutput, Data: []byte(`{"text":"x"}`)},
		{Seq: 3, Type: agon.EventModel, Data: []byte(`{"request":"x"}`)},
	}}
	_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, beat)
	must(t, err)
	lost := scored(l, 1)
	lost.Fault, lost.Reason = agon.FaultProvider, "a reason"
	put("stdout")
	lost.Evidence, err = blob.PutFiles(bg, putter{f}, []blob.File{{Path: "out", Content: []byte("stdout")}}, blob.TreeLimits{})
	must(t, err)
	f.result(val1, l, lost)
	evidence = lost.Evidence
	check(StagePlaying)

	l = f.claim(val1)
	done := scored(l, 1)
	done.Reason = "a reason"
	f.result(val1, l, done)
	if embargo > 0 { // it is decided, and nobody reads more than before
		check(StagePlaying)
		f.clock.add(time.Duration(embargo) * time.Hour)
	}
	check(StageDecided)
}

// putter stores blobs through the platform, as a validator does.
type putter struct{ f *fixture }

func (p putter) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	d := agon.Sum(b)
	return d, p.f.PutBlob(ctx, Caller{Hotkey: val1}, "", d, b)
}

func (p putter) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	return p.f.Blob(ctx, Caller{Hotkey: val1}, d)
}

func (p putter) Has(ctx context.Context, d agon.Digest) (bool, error) {
	_, err := p.Get(ctx, d)
	return err == nil, nil
}

func TestPutBlob(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.MaxBlobBytes = 10 })
	b := []byte("bytes")
	d := agon.Sum(b)
	for name, tt := range map[string]struct {
		c      Caller
		d      agon.Digest
		b      []byte
		status int
		code   string
	}{
		"unsigned":     {Caller{}, d, b, 401, "unsigned"},
		"miner":        {Caller{Hotkey: miner1}, d, b, 403, "no_permit"},
		"wrong digest": {Caller{Hotkey: val1}, agon.Sum(nil), b, 422, "bad_digest"},
		"no digest":    {Caller{Hotkey: val1}, "x\x1b", b, 422, "bad_digest"},
		"too large":    {Caller{Hotkey: val1}, d, make([]byte, 11), 413, "too_large"},
	} {
		wantCode(t, f.PutBlob(bg, tt.c, "", tt.d, tt.b), tt.status, tt.code)
		if ok, err := f.cfg.Blobs.Has(bg, d); ok || err != nil {
			t.Errorf("%s: stored", name)
		}
	}
	must(t, f.PutBlob(bg, Caller{Hotkey: val1}, "", d, b))
	if _, err := f.Blob(bg, Caller{Operator: true}, d); err != nil {
		t.Error(err)
	}
	_, err := f.Blob(bg, Caller{Hotkey: val1}, d)
	wantCode(t, err, 404, "not_found") // part of nothing yet
	_, err = f.Blob(bg, Caller{Operator: true}, "../../etc/passwd")
	wantCode(t, err, 422, "bad_digest")
}

// A permit is not a right to fill the disk: what a validator stores is counted by day.
func TestUploadQuota(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.UploadPerDay = 10 })
	put := func(c Caller, text string) error { return f.PutBlob(bg, c, "", agon.Sum([]byte(text)), []byte(text)) }
	one, two := Caller{Hotkey: val1}, Caller{Hotkey: val2}
	must(t, put(one, "1234567"))
	must(t, put(one, "1234567")) // the same bytes again cost nothing
	wantCode(t, put(one, "abcd"), 429, "upload_quota")
	if ok, err := f.cfg.Blobs.Has(bg, agon.Sum([]byte("abcd"))); ok || err != nil {
		t.Error("what was refused is stored")
	}
	must(t, put(one, "abc"))                                 // just fits
	must(t, put(two, "abcd"))                                // another's day is its own
	must(t, put(one, "abcd"))                                // there by now
	must(t, put(Caller{Operator: true}, "the operator may")) // has no limit
	wantCode(t, put(one, "x"), 429, "upload_quota")
	f.uploads = uploads{} // another process leads
	wantCode(t, put(one, "x"), 429, "upload_quota")
	wantCode(t, put(two, "1234567890"), 429, "upload_quota")
	f.clock.add(24 * time.Hour)
	must(t, put(one, "x"))
}
