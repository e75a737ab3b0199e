package platform

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

func (f *fixture) blobCount() (n int) {
	f.t.Helper()
	must(f.t, f.cfg.Blobs.(*blobfs.Store).Each(bg, func(agon.Digest) error { n++; return nil }))
	return n
}

func (f *fixture) entries() (list []store.Entry) {
	f.t.Helper()
	f.read(func(tx *store.Tx) (err error) {
		list, err = tx.Entries(store.EntryFilter{Limit: 1000})
		return err
	})
	return list
}

// TestGates: each refusal has its status and code, and stores nothing at all.
func TestGates(t *testing.T) {
	big := strings.Repeat("x", 2<<20+1)
	with := func(change func(*client.SubmitRequest)) client.SubmitRequest {
		r := request("good")
		change(&r)
		return r
	}
	files := func(list ...client.File) client.SubmitRequest {
		return with(func(r *client.SubmitRequest) { r.Files = list })
	}
	tests := []struct {
		name   string
		caller string
		arena  string
		req    client.SubmitRequest
		status int
		code   string
	}{
		{"unsigned", "", "demo", request("x"), 401, "unsigned"},
		{"unknown arena", miner1, "nowhere", request("x"), 404, "not_found"},
		{"paused arena", miner1, "paused", request("x"), 409, "arena_paused"},
		{"closed arena", miner1, "closed", request("x"), 409, "arena_closed"},
		{"file over 2 MiB", miner1, "demo", request(big), 413, "too_large"},
		{"too large in all", miner1, "demo", files(
			client.File{Path: "a", Content: []byte(big[1:])}, client.File{Path: "b", Content: []byte(big[1:])},
			client.File{Path: "c", Content: []byte(big[1:])}, client.File{Path: "d", Content: []byte(big[1:])},
			client.File{Path: "e", Content: []byte("x")}), 413, "too_large"},
		{"too many files", miner1, "demo", with(func(r *client.SubmitRequest) { r.Files = make([]client.File, 65) }), 413, "too_large"},
		{"no files", miner1, "demo", files(), 422, "no_files"},
		{"path escapes", miner1, "demo", files(client.File{Path: "../agent.py"}), 422, "bad_files"},
		{"path twice", miner1, "demo", files(client.File{Path: "agent.py"}, client.File{Path: "agent.py"}), 422, "bad_files"},
		{"name of two lines", miner1, "demo", with(func(r *client.SubmitRequest) { r.Name = "a\nb" }), 422, "bad_name"},
		{"name with an escape", miner1, "demo", with(func(r *client.SubmitRequest) { r.Name = "a\x1b[2J" }), 422, "bad_name"},
		{"name not UTF-8", miner1, "demo", with(func(r *client.SubmitRequest) { r.Name = "a\xff" }), 422, "bad_name"},
		{"name too long", miner1, "demo", with(func(r *client.SubmitRequest) { r.Name = strings.Repeat("n", 81) }), 422, "bad_name"},
		{"unregistered", "stranger", "demo", request("x"), 403, "unregistered"},
		{"another licence", miner1, "demo", with(func(r *client.SubmitRequest) { r.Licence = "GPL-3.0" }), 422, "licence"},
		{"no licence", miner1, "demo", with(func(r *client.SubmitRequest) { r.Licence = "" }), 422, "licence"},
		{"kind refuses", miner1, "demo", request("async"), 422, "async"},
		{"kind misses a file", miner1, "demo", files(client.File{Path: "other.py", Content: []byte("x")}), 422, "no_agent"},
		{"same bytes by another", miner2, "demo", request("taken"), 409, "duplicate"},
		{"coldkey cap", miner1, "capped", request("third"), 429, "coldkey_cap"},
		{"size before registration", "stranger", "demo", request(big), 413, "too_large"},
	}
	f := newFixture(t, 1)
	for _, s := range []agon.ArenaState{agon.ArenaPaused, agon.ArenaClosed} {
		a := f.arena
		a.ID = string(s)
		must(t, f.EnsureArena(bg, a))
		must(t, f.SetArenaState(bg, Caller{Operator: true}, a.ID, s, ""))
	}
	a := f.arena
	a.ID, a.SubmissionsPerColdkey = "capped", 2
	must(t, f.EnsureArena(bg, a))
	f.submit(miner1, "taken")
	for _, c := range []string{"one", "two"} {
		_, err := f.Submit(bg, Caller{Hotkey: miner1}, "capped", request(c))
		must(t, err)
		// Refused attempts do not count.
		_, err = f.Submit(bg, Caller{Hotkey: miner1}, "capped", request("async"))
		wantCode(t, err, 422, "async")
	}
	blobs, rows := f.blobCount(), len(f.entries())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := f.Submit(bg, Caller{Hotkey: tt.caller}, tt.arena, tt.req)
			e := wantCode(t, err, tt.status, tt.code)
			if strings.ContainsAny(e.Message, "\x1b\n") {
				t.Errorf("message %q holds raw bytes of the request", e.Message)
			}
			if b, r := f.blobCount(), len(f.entries()); b != blobs || r != rows {
				t.Errorf("stored something: %d blobs (%d before), %d rows (%d before)", b, blobs, r, rows)
			}
		})
	}
	t.Run("findings travel", func(t *testing.T) {
		_, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("async"))
		if e := wantCode(t, err, 422, "async"); len(e.Findings) != 2 || e.Field != "agent.py" {
			t.Errorf("findings: %+v", e)
		}
	})
	t.Run("ledger down", func(t *testing.T) {
		f.ledger.down = true
		defer func() { f.ledger.down = false }()
		_, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("new"))
		if e := wantCode(t, err, 503, "ledger"); e.Fault != agon.FaultLedger {
			t.Errorf("fault %q", e.Fault)
		}
	})
	t.Run("the cap ends after a day", func(t *testing.T) {
		f.clock.add(24*time.Hour + time.Second)
		longest := request("third")
		longest.Name = strings.Repeat("n", maxName)
		_, err := f.Submit(bg, Caller{Hotkey: miner1}, "capped", longest)
		must(t, err)
	})
}

// TestDuplicate: the same miner gets the same submission, cap or not; another
// learns who was first only once that is public.
func TestDuplicate(t *testing.T) {
	f := newFixture(t, 1, func(_ *Config, a *agon.Arena) { a.SubmissionsPerColdkey = 1 })
	first := f.submit(miner1, "same")
	again := f.submit(miner1, "same")
	if again.ID != first.ID || again.Created || !first.Created {
		t.Fatalf("again: %+v", again)
	}
	_, err := f.Submit(bg, Caller{Hotkey: miner2}, "demo", request("same"))
	if e := wantCode(t, err, 409, "duplicate"); strings.Contains(e.Error(), first.ID) || strings.Contains(e.Error(), miner1) {
		t.Errorf("names the first too early: %s", e.Message)
	}
	f.playAll(val1, func(*client.Lease) float64 { return 1 })
	_, err = f.Submit(bg, Caller{Hotkey: miner2}, "demo", request("same"))
	if e := wantCode(t, err, 409, "duplicate"); !strings.Contains(e.Error(), first.ID) || !strings.Contains(e.Error(), miner1) {
		t.Errorf("does not name the first: %s", e.Message)
	}
	if n := len(f.entries()); n != 1 {
		t.Errorf("%d submissions", n)
	}
}

// brokenBlobs fails every Put after the first n.
type brokenBlobs struct {
	blob.Store
	n int
}

func (b *brokenBlobs) Put(ctx context.Context, data []byte) (agon.Digest, error) {
	if b.n--; b.n < 0 {
		return "", errors.New("disk full")
	}
	return b.Store.Put(ctx, data)
}

func TestSubmitStoresFilesFirst(t *testing.T) {
	f := newFixture(t, 1)
	for n := range 2 {
		good := f.cfg.Blobs
		f.cfg.Blobs = &brokenBlobs{Store: good, n: n}
		if _, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("x")); err == nil {
			t.Fatal("no error")
		}
		f.cfg.Blobs = good
		if len(f.entries()) != 0 {
			t.Fatal("a row without its files")
		}
	}
	s := f.submit(miner1, "x")
	files, err := f.SubmissionFiles(bg, Caller{Hotkey: miner1}, s.ID)
	if err != nil || len(files) != 1 || string(files[0].Content) != "x" {
		t.Fatalf("files: %+v, %v", files, err)
	}
}

// TestScoreKeys: submission, task, scorer, policy and seed make the key; the
// validator and the miner do not.
func TestScoreKeys(t *testing.T) {
	seedless := map[string]bool{} // of each key, the one that it would be without its seed
	key := func(change func(*agon.Arena), replicas int) map[string]bool {
		f := newFixture(t, 1)
		f.kind.replicas = replicas
		if change != nil {
			change(&f.arena)
			must(t, f.EnsureArena(bg, f.arena))
		}
		s := f.submit(miner1, "x")
		f.playAll(val1, func(*client.Lease) float64 { return 1 })
		keys := map[string]bool{}
		f.read(func(tx *store.Tx) error {
			runs, err := tx.RunsOf(s.ID)
			for _, r := range runs {
				m, err := tx.ScoreKeys(r.RunSpec.Run)
				if err != nil {
					return err
				}
				for task, k := range m {
					keys[string(k)] = true
					attempts, err := tx.Attempts(r.RunSpec.Run)
					must(t, err)
					played, err := PlayedPolicy(r.PolicyDigest, attempts[0].Driver)
					must(t, err)
					for _, ref := range r.Tasks {
						if ref.Key != task {
							continue
						}
						list, err := tx.Scores(r.RunSpec.Run)
						must(t, err)
						want, err := ScoreKey(s.Digest, ref.Digest, list[0].Scorer, played, r.Seed)
						must(t, err)
						if want != k {
							t.Errorf("run %s of seed %d has key %s, want %s", r.RunSpec.Run, r.Seed, k, want)
						}
						zero, err := ScoreKey(s.Digest, ref.Digest, list[0].Scorer, played, 0)
						must(t, err)
						seedless[string(zero)] = true
					}
				}
			}
			return err
		})
		return keys
	}
	base := key(nil, 1)
	if again := key(nil, 1); len(again) != 1 || len(seedless) != 1 {
		t.Errorf("the same play differs by more than its seed: %v, %v, %v", base, again, seedless)
	}
	if k := key(func(a *agon.Arena) { a.Policy.Budget.Calls = 7 }, 1); k[one(base)] {
		t.Error("another policy has the same key")
	}
	// What a run was played with is part of it; the order of words is not.
	played := func(d agon.Driver) agon.Digest {
		k, err := PlayedPolicy("sha256:p", d)
		must(t, err)
		return k
	}
	runsc := agon.Driver{Name: "runsc", Version: "1", Limits: []string{"memory", "pids"}}
	if k := played(runsc); k != played(agon.Driver{Name: "runsc", Version: "1", Limits: []string{"pids", "memory"}}) {
		t.Error("the order of limits changes the key")
	} else if k == played(agon.Driver{Name: "runc", Version: "1", Limits: runsc.Limits}) || k == played(agon.Driver{Name: "runsc", Version: "2", Limits: runsc.Limits}) ||
		k == played(agon.Driver{Name: "runsc", Version: "1", Limits: runsc.Limits[:1]}) {
		t.Error("another driver, version or limit has the same key")
	}
	on := func(images ...string) agon.Digest {
		return played(agon.Driver{Name: "runsc", Version: "1", Limits: runsc.Limits, Images: images})
	}
	if on() != played(runsc) || on("sha256:a") == on() || on("sha256:a") == on("sha256:b") || on("sha256:a", "sha256:b") != on("sha256:b", "sha256:a") {
		t.Error("the images played on are not in the key, or in their order")
	}
	if k := key(nil, 2); len(k) != 2 {
		t.Errorf("replicas: %v", k)
	}
}

func one(m map[string]bool) string {
	for k := range m {
		return k
	}
	return ""
}

func TestEnsureArena(t *testing.T) {
	f := newFixture(t, 2)
	for name, change := range map[string]func(*agon.Arena){
		"id":        func(a *agon.Arena) { a.ID = "Demo!" },
		"kind":      func(a *agon.Arena) { a.ID, a.Kind = "n", "chess" },
		"incentive": func(a *agon.Arena) { a.ID, a.Incentive = "n", "lottery" },
		"no tasks":  func(a *agon.Arena) { a.ID, a.Tasks = "n", nil },
		"twice":     func(a *agon.Arena) { a.ID, a.Tasks = "n", []agon.TaskRef{a.Tasks[0], a.Tasks[0]} },
		"no tree":   func(a *agon.Arena) { a.ID, a.Tasks = "n", []agon.TaskRef{{Key: "k", Digest: agon.Sum([]byte("?"))}} },
		"attempts":  func(a *agon.Arena) { a.Attempts = -1 },
		"netuid":    func(a *agon.Arena) { a.Netuid = 9 },
	} {
		a := f.arena
		change(&a)
		if err := f.EnsureArena(bg, a); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	must(t, f.SetArenaState(bg, Caller{Operator: true}, "demo", agon.ArenaPaused, ""))
	a := f.arena
	a.Title, a.Tasks = "new", a.Tasks[:1]
	must(t, f.EnsureArena(bg, a))
	got, err := f.Arena(bg, "demo")
	must(t, err)
	if got.Title != "new" || len(got.Tasks) != 1 || got.State != agon.ArenaPaused || got.Attempts != 2 {
		t.Errorf("updated arena: %+v", got)
	}
	wantCode(t, f.SetArenaState(bg, Caller{Hotkey: miner1}, "demo", agon.ArenaOpen, ""), 403, "not_operator")
	wantCode(t, f.SetArenaState(bg, Caller{}, "demo", agon.ArenaOpen, ""), 401, "unsigned")
	wantCode(t, f.SetArenaState(bg, Caller{Operator: true}, "demo", "ajar", ""), 422, "bad_state")
	wantCode(t, f.SetArenaState(bg, Caller{Operator: true}, "nowhere", agon.ArenaOpen, ""), 404, "not_found")
}
