//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	ledgerserve "github.com/agon-arena/agon/ledger/serve"
)

// seasonJudge finds everything right; its replies come before those that play.
const seasonJudge = `{"version":1,"fallback":"no","rule":[
 {"task":"You decide whether a policy pack may take part","content":"{\"integrity_passed\": true, \"flags\": [], \"summary\": \"a policy\"}"},
 {"task":"You judge what an office agent did","content":"{\"criteria_results\":[{\"id\":\"no_unauthorized_actions\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"no_false_claims\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"information_gathering\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"sprint_assessment\",\"verdict\":\"PASS\",\"grounded\":true},{\"id\":\"response_grounding\",\"verdict\":\"PASS\",\"grounded\":true}]}"}
]}`

// season is a subnet, its miners' packs, and seven validators: three are processes of
// agon, four are this test's hand on the ledger and in the store.
type season struct {
	t     *testing.T
	dir   string
	l     *local.Ledger
	url   string // of the ledger
	model string
	arena string
	vals  map[string]*exec.Cmd
	keys  map[string]string // hotkeys by name
}

func (s *season) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *season) store() string   { return filepath.Join(s.dir, "store") }
func (s *season) wallets() string { return filepath.Join(s.dir, "wallets") }

// agon runs a command as a key. It ends with 0 or 1.
func (s *season) agon(name string, args ...string) (out []byte, code int) {
	s.t.Helper()
	cmd := exec.Command(agonBinary(s.t), append(args, "--wallet.path", s.wallets(), "--wallet.name", name)...)
	cmd.Env = append(os.Environ(), "AGON_LEDGER="+s.url, "AGON_DATA="+s.t.TempDir(), "NO_PROXY=*")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if c := cmd.ProcessState.ExitCode(); c > 1 {
		s.t.Fatalf("agon %v: exit %d\n%s%s", args, c, out, errs.String())
	}
	return out, cmd.ProcessState.ExitCode()
}

// key makes a wallet of the URI //name.
func (s *season) key(name string) string {
	s.t.Helper()
	k, err := auth.KeyFromURI("//" + name)
	s.must(err)
	cmd := exec.Command(agonBinary(s.t), "key", "new", "default", "--import", "--wallet.path", s.wallets(), "--wallet.name", name)
	cmd.Stdin = strings.NewReader("//" + name)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("key new: %v %s", err, out)
	}
	s.keys[name] = k.SS58()
	return k.SS58()
}

// start starts a validator from what is on its disk. No two pay the same for a token.
func (s *season) start(name string, price int) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), agonBinary(s.t), "validator", "--discover", "ledger", "--arena", s.arena, "--store", s.store(), "--window-blocks", "100", "--allow-private", "--poll", "50ms",
		"--cache-ttl", "-1s", "--wallet.path", s.wallets(), "--wallet.name", name, "--data", filepath.Join(s.dir, name))
	cmd.Env = append(os.Environ(), "AGON_LEDGER="+s.url, "AGON_LLM_BASE_URL="+s.model+"/v1", "AGON_LLM_API_KEY=sk-test-5f1e0c77", "AGON_LLM_MODEL=scripted",
		fmt.Sprint("AGON_LLM_PRICE_IN=", price), "AGON_LLM_PRICE_OUT=3200000", "NO_PROXY=*")
	cmd.Stderr = s.t.Output()
	s.must(cmd.Start())
	s.vals[name] = cmd
}

func (s *season) kill(name string) {
	s.t.Helper()
	s.must(s.vals[name].Process.Kill())
	_ = s.vals[name].Wait()
}

// status is what a validator last wrote.
func (s *season) status(name string) (out consensus.Status) {
	b, err := os.ReadFile(filepath.Join(s.dir, name, "discover-"+s.keys[name], "status.json"))
	if err == nil {
		_ = json.Unmarshal(b, &out) // whole or absent: it is renamed into place
	}
	return out
}

func (s *season) to(block uint64) {
	s.t.Helper()
	now, err := s.l.Block(s.t.Context())
	s.must(err)
	if block > now {
		_, err = s.l.Step(s.t.Context(), block-now)
		s.must(err)
	}
}

// says is what a validator has said of a window, of the given form.
func (s *season) says(name string, window int64, parse func(string) (packfile.Pointer, bool)) (out []packfile.Pointer) {
	s.t.Helper()
	list, err := s.l.History(s.t.Context(), 11, s.keys[name], 0)
	s.must(err)
	for _, c := range list {
		if p, ok := parse(string(c.Fields[0].Data)); ok && p.Window == window {
			out = append(out, p)
		}
	}
	return out
}

func (s *season) wait(what string, names []string, holds func(name string) bool) {
	s.t.Helper()
	until(s.t, 8*time.Minute, what, func() bool {
		for _, n := range names {
			if !holds(n) {
				return false
			}
		}
		return true
	})
}

// forged is a payload made by hand.
func (s *season) forged(name string, window int64, costs map[string]float64) []byte {
	p := consensus.Payload{Protocol: consensus.Protocol, Scoring: consensus.Scoring, Window: window, Validator: s.keys[name], Software: "1.0.0", Timestamp: time.Now().Unix(), Costs: costs, Qualified: map[string]bool{}, Nonce: fmt.Sprint(name, window, costs)}
	for k := range costs {
		p.Qualified[k] = true
	}
	return p.Canonical()
}

func (s *season) promise(name string, window int64, payload []byte) {
	s.t.Helper()
	s.agon(name, "ledger", "commit", "--netuid", "11", packfile.Pointer{Protocol: consensus.Protocol, Window: window, Scoring: consensus.Scoring, Address: string(agon.Sum(payload))}.Seal())
}

func (s *season) show(name string, window int64, payload []byte) {
	s.t.Helper()
	address, err := consensus.Folder{Dir: s.store()}.Put(s.t.Context(), payload)
	s.must(err)
	text, err := packfile.Pointer{Protocol: consensus.Protocol, Window: window, Scoring: consensus.Scoring, Address: address}.Write()
	s.must(err)
	s.agon(name, "ledger", "commit", "--netuid", "11", text)
}

// audit is `agon discover audit` on an empty machine.
func (s *season) audit(window int64) (a consensus.Audited, code int) {
	s.t.Helper()
	out, code := s.agon("nobody", "discover", "audit", "--arena", s.arena, "--store", s.store(), "--window-blocks", "100", "--window", fmt.Sprint(window), "-o", "json", "--page", filepath.Join(s.dir, "audit.html"))
	s.must(json.Unmarshal(out, &a))
	return a, code
}

func newSeason(t *testing.T) *season {
	s := &season{t: t, dir: t.TempDir(), vals: map[string]*exec.Cmd{}, keys: map[string]string{}}
	one, err := scripted.Parse([]byte(seasonJudge), "json")
	s.must(err)
	two, err := scripted.Parse(kit.SampleScript(data.FS, "optimised"), "json")
	s.must(err)
	one.Rules = append(one.Rules, two.Rules...)
	model := httptest.NewServer(scripted.Handler(one))
	t.Cleanup(model.Close)
	s.model = model.URL
	s.l, err = local.Open(t.Context(), filepath.Join(s.dir, "ledger.db"), local.Config{Stepped: true})
	s.must(err)
	t.Cleanup(func() { _ = s.l.Close() })
	owner := s.key("owner")
	s.must(s.l.EnsureSubnet(t.Context(), 11, local.Subnet{OwnerHotkey: owner, OwnerColdkey: owner}))
	m, err := s.l.Metagraph(t.Context(), 11)
	s.must(err)
	h := m.Hyper
	h.WeightsRateLimit, h.MinAllowedWeights, h.CommitReveal = 0, 1, false
	s.must(s.l.SetHyperparameters(t.Context(), 11, h))
	ledgerServer := httptest.NewServer(ledgerserve.New(ledgerserve.Config{Ledger: s.l, Verifier: &auth.Verifier{Audience: "test", Now: time.Now, Replay: s.l}}))
	t.Cleanup(ledgerServer.Close)
	s.url = ledgerServer.URL
	office, err := pack.OfficeScenarios()
	s.must(err)
	standup, err := pack.ScenarioOf(office, "standup")
	s.must(err)
	office.Scenarios = append(office.Scenarios[:0:0], standup)
	tasks, err := pack.ScenarioTasks(office, "one")
	s.must(err)
	set := filepath.Join(s.dir, "one")
	s.must(pack.MaterialiseTasks(tasks, set))
	s.arena = filepath.Join(s.dir, "arena.toml")
	s.must(os.WriteFile(s.arena, []byte(fmt.Sprintf("id = \"season\"\nkind = \"pack\"\ntitle = \"t\"\nnetuid = 11\nsets = [%q]\nincentive = \"cost_takeover\"\n", set)), 0o600))
	return s
}

// A season of three windows with seven validators and no platform. Three are processes
// that play packs in real boxes; one of them is killed after it promised a payload and
// another before it decides, and both come back. A forger, an equivocator, one whose
// pointers are of a far window, and a copier are hands on the ledger. After each
// window, `agon discover audit` on an empty machine comes to the weights of all honest
// validators, and names the others.
func TestSeason(t *testing.T) {
	s := newSeason(t)
	served := serveFiles(t)
	for _, name := range []string{"baseline", "optimised"} {
		files, err := kit.SampleFiles(data.FS, name)
		s.must(err)
		p, err := packfile.Read(files["pack.json"])
		s.must(err)
		served.put("/"+name, files["pack.json"])
		hotkey := s.key("miner-" + name)
		_, err = s.l.Register(t.Context(), 11, hotkey, hotkey)
		s.must(err)
		_, err = s.l.Step(t.Context(), 1)
		s.must(err)
		text, err := packfile.Commitment{Hash: p.Hash, URL: served.url + "/" + name}.Write()
		s.must(err)
		_, err = s.l.Commit(t.Context(), 11, hotkey, ledger.Raw([]byte(text)))
		s.must(err)
	}
	stakes := map[string]uint64{"v1": 40_000, "v2": 38_000, "v3": 36_000, "forger": 20_000, "equivocator": 15_000, "copier": 14_000, "far": 12_000}
	for name, stake := range stakes {
		hotkey := s.key(name)
		_, err := s.l.Register(t.Context(), 11, hotkey, hotkey)
		s.must(err)
		s.must(s.l.SetValidator(t.Context(), 11, hotkey, true, stake*1e9))
	}
	honest := []string{"v1", "v2", "v3"}
	price := map[string]int{"v1": 1_000_000, "v2": 1_010_000, "v3": 1_020_000}
	for _, name := range honest {
		s.start(name, price[name])
	}
	defer func() {
		for _, v := range s.vals {
			_ = v.Process.Kill()
			_ = v.Wait()
		}
	}()
	cheap := map[string]float64{s.keys["miner-baseline"]: 1e-7}
	for w := range int64(3) {
		base := uint64(w) * 100
		s.to(base + 10)
		s.wait("packs are judged", honest, func(n string) bool { return s.status(n).Window.Number == w && s.status(n).Judged >= 2 })
		s.to(base + 82)
		lie := s.forged("forger", w, cheap)
		s.promise("forger", w, lie)
		two := [][]byte{s.forged("equivocator", w, map[string]float64{s.keys["miner-optimised"]: 0.002}), s.forged("equivocator", w, cheap)}
		s.promise("equivocator", w, two[0])
		s.promise("equivocator", w, two[1])
		if w == 2 {
			s.promise("copier", w, s.forged("copier", w, cheap))
		}
		s.show("far", 999_999, s.forged("far", 999_999, cheap))
		s.wait("payloads are promised", honest, func(n string) bool { return len(s.says(n, w, packfile.ParseSeal)) == 1 })
		if w == 1 {
			s.kill("v3") // between promise and payload
		}
		s.to(base + 86)
		if w == 1 {
			s.start("v3", price["v3"])
		}
		s.wait("payloads are shown", honest, func(n string) bool { return len(s.says(n, w, packfile.ParsePointer)) == 1 })
		s.show("forger", w, lie)
		s.show("equivocator", w, two[0])
		s.show("equivocator", w, two[1])
		// The copier takes what v1 has shown: as it is, then under its own name with each figure changed a little.
		b, _, err := consensus.Folder{Dir: s.store()}.Get(t.Context(), s.says("v1", w, packfile.ParsePointer)[0].Address)
		s.must(err)
		if w > 0 {
			p, err := consensus.Parse(b)
			s.must(err)
			p.Validator, p.Nonce = s.keys["copier"], "mine"
			for miner := range p.Costs {
				p.Costs[miner] *= 1.001
			}
			b = p.Canonical()
		}
		s.show("copier", w, b)
		if w == 1 {
			s.kill("v2") // before it decides
		}
		s.to(base + 92)
		decided := func(n string) bool { return s.status(n).Agreed == w && len(s.status(n).Weights) == 2 }
		if w == 1 {
			s.wait("two decide", []string{"v1", "v3"}, decided)
			s.start("v2", price["v2"])
		}
		s.wait("all decide", honest, decided)

		a, code := s.audit(w)
		if code != 0 || !a.Agreed || a.Window != w || a.Winner != s.keys["miner-optimised"] {
			t.Errorf("window %d: exit %d, %+v", w, code, a)
		}
		for _, n := range honest {
			if got := s.status(n).Weights; !reflect.DeepEqual(got, a.Weights) {
				t.Errorf("window %d: %s gives %+v, the audit says %+v", w, n, got, a.Weights)
			}
			i := slices.IndexFunc(a.Rows, func(r consensus.AuditedRow) bool { return r.Validator == s.keys[n] })
			if i < 0 || a.Rows[i].State != "agrees" {
				t.Errorf("window %d: rows %+v", w, a.Rows)
			}
		}
		reasons := map[string]string{}
		for _, r := range a.Rejected {
			reasons[r.Validator] += r.Reason + "; "
		}
		for n, want := range map[string]string{"forger": "outvoted", "equivocator": "equivocates", "copier": []string{"copied: its payload names", "may be copied: it had promised no payload", "may be copied: its payload is not the one"}[w], "far": "has not come"} {
			if !strings.Contains(reasons[s.keys[n]], want) {
				t.Errorf("window %d: %s is %q, want %q", w, n, reasons[s.keys[n]], want)
			}
		}
		for _, n := range honest {
			if got := reasons[s.keys[n]]; got != "" {
				t.Errorf("window %d: honest %s: %s", w, n, got)
			}
		}
		page, err := os.ReadFile(filepath.Join(s.dir, "audit.html"))
		if err != nil || !bytes.Contains(page, []byte(s.keys["copier"])) {
			t.Errorf("the page: %v, %d bytes", err, len(page))
		}
	}

	// The forger gives weights of its own: the audit says so and ends with 1.
	m, err := s.l.Metagraph(t.Context(), 11)
	s.must(err)
	n, _ := m.Neuron(s.keys["miner-baseline"])
	s.must(s.l.SetWeights(t.Context(), 11, s.keys["forger"], ledger.Weights{UIDs: []uint16{n.UID}, Values: []uint16{65535}}))
	if a, code := s.audit(2); code != 1 || a.Agreed {
		t.Errorf("exit %d, %+v", code, a.Rows)
	}
}

// files is a web server of files that are in memory.
type files struct {
	url string
	mu  sync.Mutex
	at  map[string][]byte // guarded by mu
}

func serveFiles(t *testing.T) *files {
	f := &files{at: map[string][]byte{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		b, ok := f.at[r.URL.Path]
		f.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func (f *files) put(path string, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[path] = b
}
