//go:build interop

package interop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/shopping/encode"
)

// raceArena has every run played by three validators, and a race every four minutes.
const raceArena = `id = "oro"
kind = "shopping"
title = "ORO"
netuid = 15
licence = "MIT"
incentive = "race"
evidence = "foreign"
replicas = 3
unjudged_seats = true
cooldown_seconds = 1
sets = ["./public"]
[incentive_numbers]
qualify = 0.25
race_hours = 0.0667
race_problems = 4
[policy]
tools = ["find_product", "view_product_information"]
[policy.budget]
micros = 2000000
calls = 5000
[judge]
demo = true
`

// taker recommends one product, whatever is asked for.
const taker = `from src.agent.agent_interface import create_dialogue_step, execute_tool_call, register_tool
register_tool("recommend_product", lambda product_ids: product_ids)
register_tool("terminate", lambda status="success": status)


def agent_main(p):
    done = [execute_tool_call("recommend_product", {"product_ids": "%s"}), execute_tool_call("terminate", {"status": "success"})]
    return [create_dialogue_step("I take it.", done, "", p["query"], 1)]
`

// titled makes a suite of problems whose only constraint is the title, of products of
// kinds of their own, which the honest encoder tells apart.
func titled(t *testing.T, catalogue string, n int) (suite []map[string]any, other string) {
	t.Helper()
	f, err := os.Open(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() && len(suite) < n {
		var p struct {
			ID       string `json:"product_id"`
			Title    string `json:"title"`
			Category string `json:"category"`
		}
		if err := json.Unmarshal(in.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		switch {
		case seen[p.Category]:
			continue
		case other == "":
			other = p.ID
		default:
			suite = append(suite, map[string]any{
				"problem_id": fmt.Sprintf("00000000-0000-4000-8000-%012d", len(suite)+1), "query": fmt.Sprintf("wish %d for %s", len(suite)+1, p.Title), "category": "Product", "difficulty": "easy",
				"title": fmt.Sprint("Product ", len(suite)+1), "reward": map[string]any{"product_id": p.ID, "title": []string{p.Title}},
			})
		}
		seen[p.Category] = true
	}
	if len(suite) < n {
		t.Fatalf("%d kinds of goods in %s, want %d", len(suite), catalogue, n)
	}
	return suite, other
}

// embeddings is a service of an encoder; the broken one finds all titles alike, under the
// same name.
func embeddings(t *testing.T, broken bool) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Input []string `json:"input"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for i := range in.Input {
			if broken {
				in.Input[i] = "a title"
			}
		}
		list, err := encode.Ngram{}.Encode(r.Context(), in.Input)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		data := []any{}
		for i, v := range list {
			data = append(data, map[string]any{"index": i, "embedding": v})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// own starts a validator of agon's with an encoder.
func (o *oroWorld) own(wallet, encoder string) {
	o.t.Helper()
	cmd := exec.Command(agonBinary(o.t), "validator", "--url", "http://"+o.addr, "--wallet.name", wallet, "--wallet.path", o.wallets(), "--data", filepath.Join(o.dir, "data-"+wallet), "--boxes", "1")
	cmd.Dir = o.dir
	cmd.Env = append(append(os.Environ(), o.env...), "AGON_ENCODER_URL="+encoder, "AGON_ENCODER_MODEL=titles")
	ended := o.ended // that of ORO's validator
	o.keep("agon-"+wallet, cmd)
	o.ended = ended
}

// entry is the submission of a miner.
func (o *oroWorld) entry(wallet string) string {
	o.t.Helper()
	for _, s := range o.list("/v1/submissions?arena=oro", "items") {
		if s["miner"] == o.keys[wallet][0] {
			return s["id"].(string)
		}
	}
	o.t.Fatalf("%s has entered nothing", wallet)
	return ""
}

// racing is how many problems a race has.
const racing = 4

// plays are the validators that have played a leader in the race of a later period, by period.
func (o *oroWorld) plays(submission string) map[int][]string {
	o.t.Helper()
	out := map[int][]string{}
	for _, r := range o.list("/v1/runs?arena=oro&limit=200&submission="+submission, "items") {
		title, _ := r["title"].(map[string]any)
		tasks, _ := r["tasks"].([]any)
		if title == nil || len(tasks) != racing || r["state"] != "scored" {
			continue
		}
		period := int(title["period"].(float64))
		full := o.get("/v1/runs/" + r["run"].(string))
		attempts, _ := full["list"].([]any)
		for _, a := range attempts {
			if a := a.(map[string]any); a["counted"] == true {
				out[period] = append(out[period], a["validator"].(string))
			}
		}
	}
	return out
}

// TestORORace: a race over two rotations with three validators, ORO's own, one of agon's
// and one whose encoder is broken. The broken one is named and decides nothing; who solves
// all leads, is played by the others on the set of each new race, and leads in the end.
func TestORORace(t *testing.T) {
	o := newOROWorld(t)
	suite, other := titled(t, filepath.Join(o.dir, "catalogue.jsonl"), 32)
	for name, part := range map[string][]map[string]any{"public": suite[:8], "hidden": suite[8:]} {
		b, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		writeText(t, filepath.Join(o.dir, name+".json"), string(b))
	}
	o.agon("shop", "problems", "--from", "public.json", "--tasks", "public")
	o.agon("shop", "bank", "new", "bank.json", "--public", "public.json", "--hidden", "hidden.json")
	honest := embeddings(t, false)
	o.serve(raceArena, append(oroProblems(t, filepath.Join(o.dir, "hidden.json")), oroProblems(t, filepath.Join(o.dir, "public.json"))...),
		"AGON_SHOP_BANK="+filepath.Join(o.dir, "bank.json"), "AGON_ENCODER_URL="+honest, "AGON_ENCODER_MODEL=titles")
	o.register(oroNetuid, []string{"miner", "miner2", "miner3"}, []string{"v1", "v2", "v3"})

	agent, err := os.ReadFile(filepath.Join(o.repo, "src", "agent", "agent.py"))
	if err != nil {
		t.Fatal(err)
	}
	half := strings.Replace(string(agent), `query = problem_data.get("query", "")`, `query = problem_data.get("query", "")
    if sum(query.encode()) % 2:
        return [create_dialogue_step(think="I do not look.", tool_results=[], response="There is none.", query=query, step=1)]`, 1)
	writeText(t, filepath.Join(o.dir, "half.py"), half)
	writeText(t, filepath.Join(o.dir, "taker.py"), fmt.Sprintf(taker, other))
	o.validate()
	o.own("v2", honest)
	o.own("v3", embeddings(t, true))

	took := o.submit("miner3", filepath.Join(o.dir, "taker.py"))
	o.decided(took)
	var named []string
	findings, _ := o.get("/v1/submissions/" + o.entry("miner3"))["findings"].([]any)
	for _, f := range findings {
		if f := f.(map[string]any); f["code"] == "validator_disagreement" {
			named = append(named, f["field"].(string))
		}
	}
	if !slices.Equal(named, []string{o.keys["v3"][0]}) {
		t.Errorf("excluded %v, broken is %s; %v", named, o.keys["v3"][0], findings)
	}
	o.decided(o.submit("miner2", filepath.Join(o.dir, "half.py")))
	best := o.submit("miner", filepath.Join(o.repo, "src", "agent", "agent.py"))
	o.decided(best)
	top := func() string {
		id, _ := o.get("/v1/public/top")["top_agent_version_id"].(string)
		return id
	}
	if top() != best {
		b, _ := json.Marshal(o.get("/v1/submissions/" + o.entry("miner")))
		t.Fatalf("%s leads, not %s, who solves all: %s", top(), best, b)
	}
	leader := o.entry("miner")
	last := time.Time{}
	var got map[int][]string
	o.works(16*time.Minute, "the leader is played on the sets of two new races", func() bool {
		if time.Since(last) < 5*time.Second {
			return false
		}
		last, got = time.Now(), o.plays(leader)
		turns := 0
		for _, by := range got {
			if len(by) == 3 {
				turns++
			}
		}
		return turns >= 2
	})
	for period, by := range got {
		if len(by) == 3 && (!slices.Contains(by, o.keys["v1"][0]) || !slices.Contains(by, o.keys["v2"][0])) {
			t.Errorf("race %d was played by %v", period, by)
		}
	}
	if top() != best {
		t.Errorf("after two turns %s leads, not %s", top(), best)
	}
	if races := o.list("/v1/public/races/history", "races"); len(races) < 2 {
		t.Errorf("%d races in the history", len(races))
	}
}
