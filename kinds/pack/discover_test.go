package pack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/serve"
)

// discoverConf is what a validator's process is told.
type discoverConf struct {
	Dir, Key, Arena, Ledger, Store string
	Liar                           string // the hotkey that a liar favours
}

// discoverChild is one validator without a platform, in its own process.
func discoverChild(conf string) error {
	var c discoverConf
	if err := json.Unmarshal([]byte(conf), &c); err != nil {
		return err
	}
	key, err := auth.KeyFromURI(c.Key)
	if err != nil {
		return err
	}
	o := options(c.Dir)
	o.Getenv = os.Getenv
	if c.Liar != "" {
		return lie(context.Background(), c, key)
	}
	return pack.RunDiscover(context.Background(), o, commands.DiscoverOptions{
		Key: key, From: "ledger", ArenaFile: c.Arena, Ledger: c.Ledger, Store: c.Store, WindowBlocks: 100, MinStake: 10_000, Burn: 0.5, AllowPrivate: true,
		Poll: 50 * time.Millisecond, CacheTTL: -1,
	})
}

// lie is a validator that says of one miner that it costs nearly nothing, and
// of all others that they do not qualify.
func lie(ctx context.Context, c discoverConf, key *auth.Key) error {
	l, err := remote.New(remote.Config{URL: c.Ledger, Signer: func(string) (auth.Signer, error) { return key, nil }})
	if err != nil {
		return err
	}
	n, err := consensus.NewNode(consensus.NodeConfig{
		Ledger: l, Netuid: 11, Hotkey: key.SS58(), Store: consensus.Folder{Dir: c.Store}, Dir: filepath.Join(c.Dir, "discover-"+key.SS58()), Software: pack.PackSoftware,
		Fetch: fetch.New(fetch.Config{AllowPrivate: true}).Get, Window: packfile.WindowRule{Blocks: 100}, Sealed: true, Burn: 0.5, Log: slog.New(slog.DiscardHandler),
		Evaluate: func(_ context.Context, hotkey string, _ *packfile.Pack) (consensus.Evaluation, error) {
			return consensus.Evaluation{Cost: 1e-6, Qualified: hotkey == c.Liar}, nil
		},
	})
	if err != nil {
		return err
	}
	for range time.Tick(50 * time.Millisecond) {
		if err := n.Step(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return nil
}

// judged are the replies of a judge that finds everything right.
const judged = `{"version":1,"fallback":"no","rule":[
 {"task":"You decide whether a policy pack may take part","content":"{\"integrity_passed\": true, \"flags\": [], \"summary\": \"a policy\"}"},
 {"task":"You judge what an office agent did","content":"{\"criteria_results\":[{\"id\":\"no_unauthorized_actions\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"no_false_claims\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"information_gathering\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"sprint_assessment\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"response_grounding\",\"verdict\":\"PASS\",\"grounded\":true}]}"}
]}`

// Three validators, each a process with its own key, no platform anywhere: one
// is killed and comes back, one lies and is outvoted. They play packs in real
// boxes with a priced model, come to the same winner and set the same weights.
// Then the provider is not paid for a whole window: the seat stays, and the
// fault is the provider's.
func TestDiscoverConverges(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// The model: a script behind a real endpoint, so that it has a price and judges too.
	one, err := scripted.Parse([]byte(judged), "json")
	must(err)
	two, err := scripted.Parse(kit.SampleScript(data.FS, "optimised"), "json")
	must(err)
	one.Rules = append(one.Rules, two.Rules...)
	var unpaid atomic.Bool
	answers := scripted.Handler(one)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if unpaid.Load() {
			http.Error(w, `{"error":{"message":"no credit"}}`, http.StatusPaymentRequired)
			return
		}
		answers.ServeHTTP(w, r)
	}))
	defer model.Close()

	l, err := local.Open(ctx, filepath.Join(dir, "ledger.db"), local.Config{Stepped: true})
	must(err)
	defer l.Close()
	key := func(name string) *auth.Key {
		t.Helper()
		k, err := auth.KeyFromURI("//" + name)
		must(err)
		return k
	}
	owner := key("owner").SS58()
	must(l.EnsureSubnet(ctx, 11, local.Subnet{OwnerHotkey: owner, OwnerColdkey: owner}))
	m, err := l.Metagraph(ctx, 11)
	must(err)
	h := m.Hyper
	h.WeightsRateLimit, h.MinAllowedWeights, h.CommitReveal = 0, 1, false
	must(l.SetHyperparameters(ctx, 11, h))
	served := httptest.NewServer(serve.New(serve.Config{Ledger: l, Verifier: &auth.Verifier{Audience: "test", Now: time.Now, Replay: l}}))
	defer served.Close()

	packs := map[string][]byte{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, ok := packs[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	defer web.Close()
	miners := map[string]string{}
	for _, name := range []string{"baseline", "optimised", "near-copy", "gaming"} {
		files, err := kit.SampleFiles(data.FS, name)
		must(err)
		p, err := packfile.Read(files["pack.json"])
		must(err)
		packs["/"+name] = files["pack.json"]
		miners[name] = key("miner-" + name).SS58()
		_, err = l.Register(ctx, 11, miners[name], miners[name])
		must(err)
		_, err = l.Step(ctx, 1)
		must(err)
		text, err := packfile.Commitment{Hash: p.Hash, URL: web.URL + "/" + name}.Write()
		must(err)
		_, err = l.Commit(ctx, 11, miners[name], ledger.Raw([]byte(text)))
		must(err)
	}
	arena := filepath.Join(dir, "arena.toml")
	set := filepath.Join(dir, "one")
	must(importOne(set, "standup"))
	must(os.WriteFile(arena, []byte(fmt.Sprintf("id = \"demo-pack\"\nkind = \"pack\"\ntitle = \"t\"\nnetuid = 11\nsets = [%q]\nincentive = \"cost_takeover\"\n", set)), 0o600))

	type val struct {
		name   string
		stake  uint64
		liar   string
		hotkey string
		dir    string
		cmd    *exec.Cmd
	}
	vals := []*val{{name: "v1", stake: 40_000}, {name: "v2", stake: 35_000}, {name: "v3", stake: 25_000, liar: miners["baseline"]}}
	start := func(v *val) {
		t.Helper()
		conf, err := json.Marshal(discoverConf{Dir: v.dir, Key: "//" + v.name, Arena: arena, Ledger: served.URL, Store: filepath.Join(dir, "store"), Liar: v.liar})
		must(err)
		v.cmd = exec.CommandContext(ctx, os.Args[0])
		v.cmd.Env = append(os.Environ(), "AGON_TEST_DISCOVER="+string(conf), "AGON_LLM_BASE_URL="+model.URL+"/v1", "AGON_LLM_API_KEY=sk-test-5f1e0c77", "AGON_LLM_MODEL=scripted",
			"AGON_LLM_PRICE_IN=1000000", "AGON_LLM_PRICE_OUT=3200000")
		v.cmd.Stderr = t.Output()
		must(v.cmd.Start())
	}
	for _, v := range vals {
		v.hotkey, v.dir = key(v.name).SS58(), filepath.Join(dir, v.name)
		must(os.MkdirAll(v.dir, 0o700))
		_, err := l.Register(ctx, 11, v.hotkey, v.hotkey)
		must(err)
		must(l.SetValidator(ctx, 11, v.hotkey, true, v.stake*1e9))
		start(v)
	}
	defer func() {
		for _, v := range vals {
			_ = v.cmd.Process.Kill()
			_ = v.cmd.Wait()
		}
	}()
	status := func(v *val) (s consensus.Status) {
		b, err := os.ReadFile(filepath.Join(v.dir, "discover-"+v.hotkey, "status.json"))
		if err == nil {
			_ = json.Unmarshal(b, &s) // whole or absent: it is renamed into place
		}
		return s
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		for tick := time.NewTicker(30 * time.Millisecond); ; {
			if ok() {
				return
			}
			select {
			case <-ctx.Done():
				for _, v := range vals {
					t.Logf("%s: %+v", v.name, status(v))
				}
				t.Fatalf("waiting for %s: %v", what, ctx.Err())
			case <-tick.C:
			}
		}
	}
	to := func(block uint64) {
		t.Helper()
		now, err := l.Block(ctx)
		must(err)
		_, err = l.Step(ctx, block-now)
		must(err)
	}
	said := func(window int64, parse func(string) (packfile.Pointer, bool)) (n int) {
		list, err := l.Commitments(ctx, 11)
		must(err)
		for _, c := range list {
			if p, ok := parse(string(c.Fields[0].Data)); ok && p.Window == window {
				n++
			}
		}
		return n
	}
	each := func(ok func(consensus.Status) bool, list ...*val) func() bool {
		return func() bool {
			for _, v := range list {
				if !ok(status(v)) {
					return false
				}
			}
			return true
		}
	}
	wait("evaluations", each(func(s consensus.Status) bool { return s.Judged >= 3 }, vals...))
	to(82)
	wait("promises of payloads", func() bool { return said(0, packfile.ParseSeal) == 3 })
	to(87)
	wait("payloads", func() bool { return said(0, packfile.ParsePointer) == 3 })
	must(vals[1].cmd.Process.Kill())
	_ = vals[1].cmd.Wait()
	to(92)
	wait("two to agree", each(func(s consensus.Status) bool { return s.Agreed == 0 && len(s.Weights) == 2 }, vals[0], vals[2]))
	start(vals[1])
	wait("the third to agree", each(func(s consensus.Status) bool { return s.Agreed == 0 && len(s.Weights) == 2 }, vals[1]))

	same := func() {
		t.Helper()
		m, err := l.Metagraph(ctx, 11)
		must(err)
		win, _ := m.Neuron(miners["optimised"])
		for _, v := range vals {
			s := status(v)
			if s.Winner != miners["optimised"] || len(s.Weights) != 2 || s.Weights[0].UID != win.UID || s.Weights[0].Weight != s.Weights[1].Weight {
				t.Errorf("%s: winner %s, weights %+v", v.name, s.Winner, s.Weights)
			}
		}
		if len(m.Weights) != 3 {
			t.Errorf("%d rows of weights on the ledger", len(m.Weights))
		}
	}
	same()
	s := status(vals[0])
	if len(s.Outvoted) != 1 || s.Outvoted[0].Validator != vals[2].hotkey {
		t.Errorf("outvoted %+v", s.Outvoted)
	}
	excluded := map[string]string{}
	for _, x := range s.Excluded {
		excluded[x.Miner] = x.Reason
	}
	if len(excluded) != 2 || !strings.Contains(excluded[miners["near-copy"]], "NCD") || excluded[miners["gaming"]] != "integrity_failed" {
		t.Errorf("excluded %v", excluded)
	}

	// A window without credit.
	unpaid.Store(true)
	_ = vals[2].cmd.Process.Kill() // the liar needs no model
	_ = vals[2].cmd.Wait()
	to(210)
	wait("the fault", each(func(s consensus.Status) bool { return s.Window.Number == 2 && s.Fault == agon.FaultProvider }, vals[0], vals[1]))
	to(292)
	wait("the end of the window", each(func(s consensus.Status) bool {
		return s.Window.Phase == packfile.PhaseAggregation && s.Window.Number == 2
	}, vals[0], vals[1]))
	same()
}

// importOne writes one shipped scenario as a set of its own.
func importOne(dir, name string) error {
	s, err := pack.OfficeScenarios()
	if err != nil {
		return err
	}
	sc, err := pack.ScenarioOf(s, name)
	if err != nil {
		return err
	}
	s.Scenarios = s.Scenarios[:0:0]
	s.Scenarios = append(s.Scenarios, sc)
	list, err := pack.ScenarioTasks(s, "one")
	if err != nil {
		return err
	}
	return pack.MaterialiseTasks(list, dir)
}
