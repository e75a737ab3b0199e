//go:build interop

package interop

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/kit"
)

// subnet is a server with a claim arena, whose batches validators in processes of
// their own play.
type subnet struct {
	t        *testing.T
	dir, url string
	parties  map[string]*kit.Party
	procs    map[string]*exec.Cmd
}

func newSubnet(t *testing.T) *subnet {
	t.Helper()
	return newSubnetOf(t, "claim", filepath.Join("..", "kinds", "claim", "data", "tasks", "demo"), "dredged-depth", "bridge-detour", "wind-record")
}

// newSubnetOf has an arena of a kind with the named tasks of a set.
func newSubnetOf(t *testing.T, kind, demo string, names ...string) *subnet {
	t.Helper()
	s := &subnet{t: t, dir: t.TempDir(), parties: map[string]*kit.Party{}, procs: map[string]*exec.Cmd{}}
	set := filepath.Join(s.dir, "tasks")
	for _, name := range names {
		if err := os.CopyFS(filepath.Join(set, name), os.DirFS(filepath.Join(demo, name))); err != nil {
			t.Fatal(err)
		}
	}
	arena := filepath.Join(s.dir, "arena.toml")
	rule := map[string]string{"claim": "roster", "query": "paired"}[kind]
	text := fmt.Sprintf("id = \"%[1]s\"\nkind = %[1]q\ntitle = \"%[1]s\"\nnetuid = 3\nlicence = \"MIT\"\nincentive = %[2]q\nsets = [%[3]q]\nsubmissions_per_coldkey = 9\n[judge]\ndemo = true\n", kind, rule, set)
	if err := os.WriteFile(arena, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGON_BATCH_GRACE", "20s")
	s.url = serve(t, s.dir, "serve", "--arena", arena)
	return s
}

// party is a wallet that is registered on the subnet.
func (s *subnet) party(name string, validator bool) *kit.Party {
	s.t.Helper()
	p, err := kit.LoadParty(filepath.Join(s.dir, "wallets"), name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.parties[name] = p
	args := []string{"ledger", "register", "--url", s.url, "--netuid", "3", "--hotkey", p.Hotkey.SS58(), "--coldkey", p.Coldkey}
	if validator {
		args = append(args, "--validator")
	}
	cmd := exec.Command(agonBinary(s.t), append(args, "--wallet.path", filepath.Join(s.dir, "data", "wallets"), "--wallet.name", "operator")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("register %s: %v\n%s", name, err, out)
	}
	return p
}

// ask sends a request, signed in Caster's way where by names a party.
func (s *subnet) ask(by, method, path string, body []byte) (int, map[string]any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if by != "" {
		k := s.parties[by].Hotkey
		sig, err := k.Sign(signin.Message(method, path, body))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Authorization", fmt.Sprintf(`Bittensor ss58="%s",sig="%s"`, k.SS58(), hex.EncodeToString(sig)))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return resp.StatusCode, out
}

// enter uploads a script and returns its id.
func (s *subnet) enter(by, script string) string {
	s.t.Helper()
	sum := sha256.Sum256([]byte(script))
	body, _ := json.Marshal(map[string]string{"script_b64": base64.StdEncoding.EncodeToString([]byte(script)), "sha256": hex.EncodeToString(sum[:])})
	status, out := s.ask(by, "POST", "/v1/miners/scripts", body)
	if status != 200 {
		s.t.Fatalf("upload: %d %v", status, out)
	}
	return out["artifact_id"].(string)
}

// validate starts `agon claim validator`, whose judge is the model at upstream.
func (s *subnet) validate(name, upstream, owner string) {
	s.t.Helper()
	s.party(name, true)
	cmd := exec.Command(agonBinary(s.t), "claim", "validator", "--platform", s.url, "--url", s.url, "--owner", owner, "--netuid", "3", "--listen", "127.0.0.1:0",
		"--data", filepath.Join(s.dir, name), "--wallet.path", filepath.Join(s.dir, "wallets"), "--wallet.name", name)
	cmd.Env = append(os.Environ(), "AGON_LLM_BASE_URL="+upstream, "AGON_LLM_API_KEY=key-of-this-test-alone", "AGON_LLM_MODEL=m")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.procs[name] = cmd
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
}

// model answers each judge's question by what the justification says.
func judgeModel(t *testing.T, supports func(asked string) bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 4<<20))
		say := fmt.Sprintf(`{"rationale": "as it is", "support_ok": %v}`, supports(string(body)))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "created": 1, "model": "m", "usage": map[string]int{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": say}}},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// answering is a script with one verdict for each claim, and a way to say why.
func answering(why string, verdicts map[string]int) string {
	known, _ := json.Marshal(verdicts)
	return fmt.Sprintf(`import asyncio, json
from caster_miner_sdk.decorators import entrypoint

KNOWN = json.loads(%q)

@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    await asyncio.sleep(0.3)
    return {"verdict": KNOWN.get(request["claim_text"], 1), "justification": %q}
`, known, why)
}

// Three validators are processes that play pushed batches in real boxes: one is killed
// in the middle of a batch and stays away, one lies. The medians of what is left move
// the roster, and the honest ones give its weights on the ledger.
func TestHarnyxBatches(t *testing.T) {
	s := newSubnet(t)
	operator, err := kit.LoadParty(filepath.Join(s.dir, "data", "wallets"), "operator")
	if err != nil {
		t.Fatal(err)
	}
	honest := judgeModel(t, func(asked string) bool { return strings.Contains(asked, "the harbour office says so") })
	lying := judgeModel(t, func(asked string) bool { return strings.Contains(asked, "because") })
	s.validate("v1", honest, operator.Coldkey)
	s.validate("v2", honest, operator.Coldkey)
	s.validate("v3", honest, operator.Coldkey)
	s.validate("liar", lying, operator.Coldkey)
	for _, v := range []string{"v1", "v2", "v3", "liar"} {
		until(t, 3*time.Minute, v+" is registered", func() bool {
			status, out := s.ask(v, "GET", "/v1/weights", nil)
			return status == 403 && out["error_code"] != "validator_not_registered" || status == 200
		})
	}
	s.party("miner1", false)
	s.party("miner2", false)
	weak := s.enter("miner1", answering("because", map[string]int{}))
	batch := func(body string) string {
		t.Helper()
		status, out := s.ask("v1", "POST", "/v1/miner-task-batches/batch", []byte(body))
		if status != 200 || out["status"] != "running" {
			t.Fatalf("batch: %d %v", status, out)
		}
		return out["batch_id"].(string)
	}
	deliveries := func(id string) (string, map[string]map[string]any, map[string]float64) {
		_, out := s.ask("", "GET", "/v1/monitoring/miner-task-batches/"+id, nil)
		list, scores := map[string]map[string]any{}, map[string]float64{}
		for _, d := range out["deliveries"].([]any) {
			row := d.(map[string]any)
			for name, p := range s.parties {
				if p.Hotkey.SS58() == row["validator_hotkey"] {
					list[name] = row
				}
			}
		}
		for _, a := range out["artifact_aggregates"].([]any) {
			row := a.(map[string]any)
			scores[row["artifact_id"].(string)], _ = row["score"].(float64)
		}
		return out["summary"].(map[string]any)["status"].(string), list, scores
	}
	ended := func(id string) {
		t.Helper()
		until(t, 5*time.Minute, "the batch has ended", func() bool {
			status, _, _ := deliveries(id)
			return status != "running"
		})
	}

	first := batch(`{}`)
	until(t, 3*time.Minute, "v3 is in the middle", func() bool {
		_, list, _ := deliveries(first)
		n, _ := list["v3"]["completed"].(float64)
		return list["v3"]["status"] == "accepted" && n >= 1 || list["v3"]["status"] == "graded"
	})
	_ = s.procs["v3"].Process.Kill()
	_ = s.procs["v3"].Wait()
	ended(first)
	status, list, scores := deliveries(first)
	t.Logf("first batch: %s %v; %v", status, scores, list)
	// Every claim answered with 1 and a reason that supports nothing: half a point where
	// 1 is right. The liar gives the whole point.
	if status != "completed" || list["liar"]["differs_from_median"] == 0.0 || list["v1"]["differs_from_median"] != 0.0 || list["v2"]["status"] != "graded" {
		t.Errorf("the first batch: %s %v", status, list)
	}
	if scores[weak] <= 0 || scores[weak] > 0.5 {
		t.Errorf("the weak script has %v", scores[weak])
	}

	right := map[string]int{}
	_, full := s.ask("v1", "GET", "/v1/miner-task-batches/batch/"+first, nil)
	for _, c := range full["claims"].([]any) {
		claim := c.(map[string]any)
		right[claim["text"].(string)] = int(claim["reference_answer"].(map[string]any)["verdict"].(float64))
	}
	strong := s.enter("miner2", answering("the harbour office says so", right))
	second := batch(`{"use_previous_task_dataset":true}`)
	ended(second)
	status, list, scores = deliveries(second)
	t.Logf("second batch: %s %v; %v", status, scores, list)
	if status != "completed" || scores[strong] != 1 || list["v3"]["status"] == "graded" {
		t.Errorf("the second batch: %s %v %v", status, scores, list)
	}
	_, out := s.ask("v1", "GET", "/v1/weights", nil)
	top, _ := json.Marshal(out["final_top"])
	g, err := client.New(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	uids := func() map[string]uint16 {
		m, err := g.Ledger(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]uint16{}
		for name, p := range s.parties {
			for _, n := range m.Neurons {
				if n.Hotkey == p.Hotkey.SS58() {
					at[name] = n.UID
				}
			}
		}
		return at
	}()
	if want := fmt.Sprintf("[%d,%d,null]", uids["miner2"], uids["miner1"]); string(top) != want {
		t.Errorf("the roster is %s, want %s", top, want)
	}
	// v1 gives what the roster earns on the ledger.
	until(t, 4*time.Minute, "v1 has given weights", func() bool {
		m, err := g.Ledger(t.Context(), 3)
		if err != nil {
			return false
		}
		return slices.ContainsFunc(m.Neurons, func(n client.Neuron) bool {
			return n.Hotkey == s.parties["v1"].Hotkey.SS58() && n.LastUpdate > n.Registered
		})
	})
}

// Harnyx's own validator of the seed takes pushed batches, plays them in its own sandbox
// server and grades them with its own judge: with one of agon's it outvotes a third that
// lies, and the roster moves by what the two agree on.
func TestHarnyxSeedValidator(t *testing.T) {
	repo := harnyxRepo(t, "caster")
	python := interoptest.Python(t, "castervalidator")
	s := newSubnet(t)
	operator, err := kit.LoadParty(filepath.Join(s.dir, "data", "wallets"), "operator")
	if err != nil {
		t.Fatal(err)
	}
	honest := judgeModel(t, func(asked string) bool { return strings.Contains(asked, "the harbour office says so") })
	s.validate("v1", honest, operator.Coldkey)
	s.validate("liar", judgeModel(t, func(asked string) bool { return strings.Contains(asked, "because") }), operator.Coldkey)
	seed := s.harnyxValidator("caster", "seed", python, strings.TrimSuffix(honest, "/v1"), s.harnyxEnv(repo))
	for _, v := range []string{"v1", "liar", "seed"} {
		until(t, 4*time.Minute, v+" is registered", func() bool {
			seed.alive()
			status, out := s.ask(v, "GET", "/v1/weights", nil)
			return status == 403 && out["error_code"] != "validator_not_registered" || status == 200
		})
	}
	s.party("miner1", false)
	s.party("miner2", false)
	weak := s.enter("miner1", answering("because", map[string]int{}))
	play := func(body string) (map[string]map[string]any, map[string]float64, string) {
		t.Helper()
		status, out := s.ask("v1", "POST", "/v1/miner-task-batches/batch", []byte(body))
		if status != 200 {
			t.Fatalf("batch: %d %v", status, out)
		}
		id := out["batch_id"].(string)
		list, scores := map[string]map[string]any{}, map[string]float64{}
		until(t, 6*time.Minute, "the batch has ended", func() bool {
			seed.alive()
			_, out = s.ask("", "GET", "/v1/monitoring/miner-task-batches/"+id, nil)
			return out["summary"].(map[string]any)["status"] != "running"
		})
		for _, d := range out["deliveries"].([]any) {
			for name, p := range s.parties {
				if row := d.(map[string]any); p.Hotkey.SS58() == row["validator_hotkey"] {
					list[name] = row
				}
			}
		}
		for _, a := range out["artifact_aggregates"].([]any) {
			row := a.(map[string]any)
			scores[row["artifact_id"].(string)], _ = row["score"].(float64)
		}
		t.Logf("%v %v", scores, list)
		return list, scores, id
	}
	list, scores, first := play(`{}`)
	if list["seed"]["status"] != "graded" || list["seed"]["differs_from_median"] != 0.0 || list["liar"]["differs_from_median"] == 0.0 || scores[weak] <= 0 || scores[weak] > .5 {
		t.Errorf("the first batch: %v %v", scores, list)
	}
	right := map[string]int{}
	_, full := s.ask("v1", "GET", "/v1/miner-task-batches/batch/"+first, nil)
	for _, c := range full["claims"].([]any) {
		claim := c.(map[string]any)
		right[claim["text"].(string)] = int(claim["reference_answer"].(map[string]any)["verdict"].(float64))
	}
	strong := s.enter("miner2", answering("the harbour office says so", right))
	list, scores, _ = play(`{"use_previous_task_dataset":true}`)
	if list["seed"]["status"] != "graded" || list["seed"]["differs_from_median"] != 0.0 || scores[strong] != 1 {
		t.Errorf("the second batch: %v %v", scores, list)
	}
	_, out := s.ask("v1", "GET", "/v1/weights", nil)
	if top, _ := json.Marshal(out["final_top"]); out["champion_uid"] == nil || strings.Count(string(top), "null") != 1 {
		t.Errorf("the roster: %v", out)
	}
}
