package wire

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/cost"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/signin"
	"github.com/agon-arena/agon/ledger"
)

var bg = context.Background()

// subnet is the ledger: a metagraph that does not change.
type subnet struct{ g *ledger.Metagraph }

func (n subnet) Member(_ context.Context, hotkey string) (dialect.Member, bool, error) {
	x, ok := n.g.Neuron(hotkey)
	return dialect.Member{Hotkey: hotkey, Coldkey: x.Coldkey, UID: x.UID, Validator: x.Permit, Stake: x.Stake}, ok, nil
}

func (n subnet) Registered(_ context.Context, _ uint16, hotkey string) (string, bool, error) {
	x, ok := n.g.Neuron(hotkey)
	return x.Coldkey, ok, nil
}

func (n subnet) IsValidator(_ context.Context, _ uint16, hotkey string) (bool, error) {
	x, _ := n.g.Neuron(hotkey)
	return x.Permit, nil
}

func (n subnet) Metagraph(context.Context, uint16) (*client.Metagraph, error) {
	return &client.Metagraph{Netuid: n.g.Netuid, Block: n.g.Block}, nil
}

// world is a platform with an arena of three scenarios, six miners, two
// validators (v, w) and an outsider (x).
type world struct {
	t     testing.TB
	api   *platform.Platform
	blobs blob.Store
	net   subnet
	cfg   Config
	h     http.Handler
	keys  map[byte]*auth.Key

	mu   sync.Mutex
	time time.Time // guarded by mu
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.time
}

func (w *world) skip(d time.Duration) {
	w.mu.Lock()
	w.time = w.time.Add(d)
	w.mu.Unlock()
}

func newWorld(t testing.TB, hidden ...string) *world {
	t.Helper()
	w := &world{t: t, keys: map[byte]*auth.Key{}, time: time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.UTC)}
	w.net.g = &ledger.Metagraph{Netuid: 11, Block: 50_000}
	for i, c := range []byte("ovwabcdefx") {
		k, err := auth.KeyFromSeed(auth.Sr25519, bytes.Repeat([]byte{c}, 32))
		must(t, err)
		w.keys[c] = k
		if c == 'x' {
			continue
		}
		n := ledger.Neuron{UID: uint16(i), Hotkey: k.SS58(), Coldkey: "cold-" + string(c), RegisteredAt: 1}
		if c == 'v' || c == 'w' {
			n.Permit, n.Stake = true, uint64(20_000-i)*1e9
		}
		w.net.g.Neurons = append(w.net.g.Neurons, n)
	}
	w.net.g.Weights = []ledger.WeightRow{{UID: 1, UIDs: []uint16{4, 0}, Values: []uint16{65535, 0}, Block: 49_900}}
	dir := t.TempDir()
	st := teststore.Open(t, dir)
	t.Cleanup(func() { st.Close() })
	var err error
	w.blobs, err = blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{})
	must(t, err)
	w.api, err = platform.New(platform.Config{
		Store: st, Blobs: w.blobs, Kinds: map[string]kind.Kind{kindpack.Name: kindpack.New(kindpack.Config{})}, Ledger: w.net, Now: w.now,
		Incentives: map[string]incentive.Rule{cost.ArenaRule: cost.Takeover()},
	})
	must(t, err)
	a := agon.Arena{ID: "packs", Kind: kindpack.Name, Title: "office [/] work", Netuid: 11, State: agon.ArenaOpen, Licence: "MIT", Incentive: cost.ArenaRule, MaxLeases: 4, Attempts: 2}
	a.Policy.Agent.WallMS = 300_000
	for _, name := range []string{"inbox-triage", "stand-up", "morning-brief"} {
		d, err := blob.PutFiles(bg, w.blobs, []blob.File{{Path: "task.toml", Content: []byte(name)}}, blob.TreeLimits{})
		must(t, err)
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: "office/" + name, Digest: d, Hidden: slices.Contains(hidden, name)})
	}
	must(t, w.api.EnsureArena(bg, a))
	docs, err := w.api.Documents(bg, "trajrl", filepath.Join(dir, "trajrl"), KeyDocument)
	must(t, err)
	w.cfg = Config{
		Platform: w.api, Arena: a.ID, BlockTime: 12 * time.Second, Documents: docs, Dir: filepath.Join(dir, "trajrl"), Model: "scripted", Now: w.now,
		Metagraph: func(context.Context) (*ledger.Metagraph, error) { return w.net.g, nil },
		Verifier:  &dialect.Verifier{Now: w.now, Members: w.net, Replay: auth.NewMemoryReplay(w.now)},
	}
	w.open()
	return w
}

// open makes the handler, as a start of the program would.
func (w *world) open() {
	w.t.Helper()
	h, err := New(bg, w.cfg)
	must(w.t, err)
	w.h = h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) ss58(k byte) string { return w.keys[k].SS58() }

func samplePack(t testing.TB, name string) []byte {
	t.Helper()
	files, err := kit.SampleFiles(data.FS, name)
	must(t, err)
	return files[kindpack.File]
}

// enter submits a pack and returns its id and hash.
func (w *world) enter(k byte, content []byte) (id, hash string) {
	w.t.Helper()
	w.skip(time.Second)
	s, err := w.api.Submit(bg, platform.Caller{Hotkey: w.ss58(k)}, "packs", client.SubmitRequest{Name: "of-" + string(k), Licence: "MIT", Files: []client.File{{Path: kindpack.File, Content: content}}})
	must(w.t, err)
	p, err := packfile.Read(content)
	must(w.t, err)
	return s.ID, p.Hash
}

// playOne lets a validator play the next run; false when there is none. The
// outcome is told by whose pack it is.
func (w *world) playOne(v byte, outcome func(miner string, task string) (solved bool, usd float64)) bool {
	w.t.Helper()
	c := platform.Caller{Hotkey: w.ss58(v)}
	l, err := w.api.Claim(bg, c, client.ClaimRequest{Kinds: []string{kindpack.Name}, Driver: "runc"})
	must(w.t, err)
	if l == nil {
		return false
	}
	w.skip(7 * time.Second)
	task := l.Run.Tasks[0].Key
	solved, usd := outcome(l.Submission.Miner, task)
	micros := agon.Micros(usd * 1e6)
	ep := kindpack.Episode{Scenario: task, Response: "done [/] \x1b[31m", Cost: kindpack.Cost{Micros: micros, Calls: 3, Input: 100, Output: 10}, Calls: []mock.Call{}}
	body, err := json.Marshal(ep)
	must(w.t, err)
	evidence, err := blob.PutFiles(bg, held{w, c, l.ID}, []blob.File{
		{Path: kindpack.FileCalls, Content: []byte("{\"tool\":\"exec\"}\n")}, {Path: kindpack.FileEpisode, Content: body}, {Path: kindpack.FileLog, Content: []byte("the agent's [/] log\n")},
	}, blob.TreeLimits{})
	must(w.t, err)
	value := 0.25
	if solved {
		value = 1
	}
	weight := 1.0
	if strings.Contains(task, "inbox") {
		weight = 1.5
	}
	note, _ := json.Marshal(map[string]string{"text": "verdict [/] of " + task})
	_, err = w.api.Heartbeat(bg, c, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying, Events: []agon.Event{
		{Run: l.Run.Run, Attempt: l.Attempt, Task: task, Seq: 1, At: w.now(), Type: agon.EventNote, Data: note},
	}})
	must(w.t, err)
	_, err = w.api.Result(bg, c, l.ID, client.Result{
		Token: l.Token, Outcome: "ok", Driver: agon.Driver{Name: "runc"}, Cost: micros, BoxMS: 5, Evidence: evidence,
		Scores: []agon.Score{{Task: task, Value: value, Solved: solved, Scorer: "pack-1+checks-1", Detail: "2 of 5 criteria [/x]", Metrics: map[string]float64{
			cost.Metric: float64(micros), kindpack.MetricWeight: weight,
		}}},
	})
	must(w.t, err)
	return true
}

// held stores evidence under a lease, as a validator does.
type held struct {
	w     *world
	c     platform.Caller
	lease string
}

func (h held) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	d := agon.Sum(b)
	return d, h.w.api.PutBlob(ctx, h.c, h.lease, d, b)
}

func (h held) Get(context.Context, agon.Digest) ([]byte, error) { return nil, blob.ErrNotFound }

func (h held) Has(context.Context, agon.Digest) (bool, error) { return false, nil }

// filled is a world where a sits with the dearer pack until b took the seat, c's
// is a copy, d's is refused, e's fails its second scenario, and f's waits.
func filled(t testing.TB) (*world, map[byte]string) {
	t.Helper()
	w := newWorld(t)
	hashes := map[byte]string{}
	play := func(miner, task string) (bool, float64) {
		switch miner {
		case w.ss58('a'):
			return true, 0.08
		case w.ss58('b'):
			return true, 0.02
		}
		return !strings.Contains(task, "stand-up"), 0.01
	}
	both := func() {
		for i := 0; w.playOne("vw"[i%2], play); i++ {
		}
	}
	_, hashes['a'] = w.enter('a', samplePack(t, "baseline"))
	both()
	_, hashes['b'] = w.enter('b', samplePack(t, "optimised"))
	both()
	_, hashes['c'] = w.enter('c', samplePack(t, "near-copy"))
	_, hashes['d'] = w.enter('d', samplePack(t, "gaming"))
	_, hashes['e'] = w.enter('e', packfile.Build(packfile.BuildOptions{Policy: "Ring the bell, then walk the dog round the lake until dusk falls on the hills.", Name: "Walk [/] the dog"}).Canonical)
	both()
	_, hashes['f'] = w.enter('f', packfile.Build(packfile.BuildOptions{Policy: "Quarterly numbers belong to Finance; everything else may be summarised in five lines."}).Canonical)
	return w, hashes
}

func (w *world) do(method, target, ctype string, body []byte) (int, []byte) {
	w.t.Helper()
	r := httptest.NewRequest(method, target, bytes.NewReader(body))
	r.Host = "arena.example:8900"
	if ctype != "" {
		r.Header.Set("Content-Type", ctype)
	}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	return rec.Code, rec.Body.Bytes()
}

// get reads a JSON object that must come with the status.
func (w *world) get(target string, status int) map[string]any {
	w.t.Helper()
	got, body := w.do("GET", target, "", nil)
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil || got != status {
		w.t.Fatalf("GET %s: %d %.400s, want %d", target, got, body, status)
	}
	return out
}

// post sends a JSON body signed by key k for a purpose.
func (w *world) post(k byte, path, purpose string, body map[string]any) (int, map[string]any) {
	w.t.Helper()
	field := "validator_hotkey"
	switch {
	case strings.Contains(path, "heartbeat"):
		field = "hotkey"
	case strings.HasSuffix(path, "miners/submit"):
		field = "miner_hotkey"
	}
	if purpose != "" {
		ts := fmt.Sprint(w.now().Unix())
		sig, err := w.keys[k].Sign(signin.Message(purpose, w.ss58(k), ts))
		must(w.t, err)
		for name, v := range map[string]any{field: w.ss58(k), "timestamp": w.now().Unix(), "signature": "0x" + hex.EncodeToString(sig)} {
			if _, given := body[name]; !given {
				body[name] = v
			}
		}
	}
	b, err := json.Marshal(body)
	must(w.t, err)
	status, raw := w.do("POST", path, "application/json", b)
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		w.t.Fatalf("POST %s: %d %.300s", path, status, raw)
	}
	return status, out
}

// rows reads a list of objects.
func rows(t testing.TB, m map[string]any, name string) []map[string]any {
	t.Helper()
	list, ok := m[name].([]any)
	if !ok {
		t.Fatalf("%s is %v", name, m[name])
	}
	out := make([]map[string]any, 0, len(list))
	for _, x := range list {
		o, ok := x.(map[string]any)
		if !ok {
			t.Fatalf("%s has %v", name, x)
		}
		out = append(out, o)
	}
	return out
}

// names lists one text of each row.
func names(list []map[string]any, field string) []string {
	var out []string
	for _, x := range list {
		s, _ := x[field].(string)
		out = append(out, s)
	}
	return out
}

func has(list []string, want string) bool { return slices.Contains(list, want) }
