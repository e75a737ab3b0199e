//go:build interop

package interop

import (
	"bytes"
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
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/interoptest"
)

// models is what stands for every model: of miners' providers, of the validators' judge,
// and of their judge of likeness. It keeps the keys that it was asked with.
type models struct {
	t    *testing.T
	url  string
	mu   sync.Mutex
	keys []string // guarded by mu
	asks map[string]int
}

func newModels(t *testing.T) *models {
	m := &models{t: t, asks: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

func (m *models) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	var in struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &in)
	var all strings.Builder
	for _, x := range in.Messages {
		var s string
		if json.Unmarshal(x.Content, &s) != nil {
			var parts []struct{ Text string }
			_ = json.Unmarshal(x.Content, &parts)
			for _, p := range parts {
				s += p.Text
			}
		}
		all.WriteString(s + "\n")
	}
	say, kind := "The harbour office says so.", "script"
	switch text := all.String(); {
	case strings.Contains(text, "primary_controller"):
		kind = "likeness"
		class, status, change := "novel", "replaced", any("another way")
		if strings.Contains(text, "COPY OF ANOTHER") {
			class, status, change = "duplicate", "preserved", nil
		}
		part := map[string]string{"status": status, "evidence": "as the diff shows"}
		b, _ := json.Marshal(map[string]any{
			"classification": class, "reasoning": "as it is", "mechanism_change": change, "ordinary_case_path": "the usual one",
			"architecture_assessment": map[string]any{"primary_controller": part, "evidence_state_and_flow": part, "answer_production_path": part},
		})
		say = string(b)
	case strings.Contains(text, "preferred_position"):
		kind = "judge"
		// The answer of the script that asked is better than the reference, and the
		// reference, which is not a guess, better than the others.
		var asked struct {
			Answers []struct {
				Position string
				Text     string `json:"answer_text"`
			}
		}
		for i := strings.LastIndex(text, `"answers"`); i >= 0; i = strings.LastIndex(text[:i], "{") {
			if json.NewDecoder(strings.NewReader(text[i:])).Decode(&asked) == nil && len(asked.Answers) == 2 {
				break
			}
		}
		if len(asked.Answers) != 2 {
			m.t.Errorf("the judge is asked: %s", text)
		}
		for i, a := range asked.Answers {
			better := map[int]string{0: "first", 1: "second"}
			if strings.Contains(a.Text, "The harbour office says so") {
				say = `{"preferred_position": "` + better[i] + `"}`
			}
			if strings.Contains(a.Text, "I would not know") {
				say = `{"preferred_position": "` + better[1-i] + `"}`
			}
		}
	}
	m.mu.Lock()
	m.asks[kind]++
	m.keys = append(m.keys, r.URL.Path+" "+r.Header.Get("Authorization"))
	m.mu.Unlock()
	usage := map[string]int{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
	if in.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(v map[string]any) {
			v["id"], v["object"], v["created"], v["model"] = "x", "chat.completion.chunk", 1, in.Model
			b, _ := json.Marshal(v)
			fmt.Fprintf(w, "data: %s\n\n", b)
		}
		chunk(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]string{"role": "assistant", "content": say}, "finish_reason": nil}}})
		chunk(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]string{}, "finish_reason": "stop"}}})
		chunk(map[string]any{"choices": []any{}, "usage": usage})
		fmt.Fprint(w, "data: [DONE]\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "x", "object": "chat.completion", "created": 1, "model": in.Model, "usage": usage,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": say}}},
	})
}

const queryHead = `from harnyx_miner_sdk.decorators import entrypoint
from harnyx_miner_sdk.query import CitationRef, Query, Response
from harnyx_miner_sdk.api import llm_chat, search_web
`

// searching looks the query up, asks a model with its miner's key, and cites.
const searching = queryHead + `
@entrypoint("query")
async def query(query: Query) -> Response:
    found = await search_web([query.text[:200]], provider="desearch", num=3)
    said = await llm_chat(provider="openrouter", model="openai/gpt-oss-20b", messages=[{"role": "user", "content": query.text}], max_tokens=64)
    cite = [CitationRef(receipt_id=found.receipt_id, result_id=found.results[0].result_id)] if found.results else None
    text = said.llm.raw_text
    if query.output_schema is not None:
        return Response(output={"answer": text}, citations=cite)
    return Response(text=text + (" [[1]]" if cite else ""), citations=cite)
`

const guessing = queryHead + `
@entrypoint("query")
async def query(query: Query) -> Response:
    return Response(text="I would not know.")
`

const crashing = queryHead + `
@entrypoint("query")
async def query(query: Query) -> Response:
    raise ValueError("not today")
`

// monitoringClient resolves the newest batch as Harnyx's local evaluation does.
const monitoringClient = `
from harnyx_miner import local_eval
from harnyx_miner.platform_monitoring import PlatformMonitoringClient

client = PlatformMonitoringClient.from_env()
found = client.resolve_batch_context(None)
assert found.recorded_results.error is None, found.recorded_results.error
tasks = local_eval._load_batch_tasks(found.detail)
champion = local_eval._require_champion_artifact_id(found.detail)
rows = local_eval._group_recorded_rows(found.recorded_results.rows)
assert set(rows) == {t.task_id for t in tasks}, rows
print(champion, len(tasks), "tasks", sum(len(r) for r in rows.values()), "rows")
`

// Harnyx's newest validator pulls work from agon serve, plays it in its own sandbox
// server by the platform's tool proxy with the miners' own keys, compares the answers,
// says which scripts are copies, and gives the weights on the ledger. Scripts and keys
// come by Harnyx's own commands. All of it is the code of its repository.
func TestHarnyxPull(t *testing.T) {
	repo := harnyxRepo(t, "harnyx")
	python := interoptest.Python(t, "harnyxvalidator")
	up := newModels(t)
	t.Setenv("AGON_OPENROUTER_URL", up.url)
	s := newSubnetOf(t, "query", filepath.Join("..", "kinds", "claim", "data", "query", "tasks", "demo"), "cranes", "coins", "fines")
	env := s.harnyxEnv(repo)
	miner := func(module string, args ...string) (string, error) {
		cmd := exec.Command(python, append([]string{"-c", "from " + module + " import main; main()"}, args...)...)
		cmd.Env, cmd.Dir = env, s.dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	submit := func(by, script string) string {
		t.Helper()
		if s.parties[by] == nil {
			s.party(by, false)
		}
		file := filepath.Join(s.dir, by+".py")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := miner("harnyx_miner.submit", "--agent-path", file, "--wallet-name", by, "--hotkey-name", "default")
		var got struct {
			ID string `json:"artifact_id"`
		}
		if lines := strings.Split(strings.TrimSpace(out), "\n"); err != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &got) != nil || got.ID == "" {
			t.Fatalf("submit: %v %s", err, out)
		}
		return got.ID
	}
	good, weak, bad := submit("miner1", searching), submit("miner2", guessing), submit("miner3", crashing)
	const secret = "sk-or-of-miner-one"
	config := func(args ...string) string {
		t.Helper()
		out, err := miner("harnyx_miner.miner_config", append(args, "--wallet-name", "miner1", "--hotkey-name", "default")...)
		if err != nil || strings.Contains(out, secret) {
			t.Fatalf("config: %v %s", err, out)
		}
		return out
	}
	config("--provider", "openrouter", "--api-key", secret)
	config("--provider", "exa", "--api-key", secret)
	config("--delete-provider", "exa")
	config("--task-retry-count", "1")
	if got := config("--get"); !strings.Contains(got, `"openrouter": {"created_at": "2`) || !strings.Contains(got, `"task_retry_count": 1`) || !strings.Contains(got, `"exa": {"created_at": null, "exists": false`) {
		t.Errorf("config: %s", got)
	}
	// The key is nowhere in the data directory as it is.
	_ = filepath.WalkDir(filepath.Join(s.dir, "data"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s has the key", p)
			}
		}
		return nil
	})

	v := s.harnyxValidator("harnyx", "v1", python, up.url, env)
	batch := func(body string) (int, map[string]any) {
		return s.ask("v1", "POST", "/v1/miner-task-batches/batch", []byte(body))
	}
	until(t, 4*time.Minute, "the validator is registered", func() bool {
		v.alive()
		status, _ := s.ask("v1", "GET", "/v1/weights", nil)
		return status == 503 // registered, and no batch yet
	})
	var made map[string]any
	until(t, time.Minute, "the validator asks for work", func() bool {
		var status int
		status, made = batch(`{}`)
		return status == 202
	})
	if again, out := batch(`{}`); again != 409 {
		t.Errorf("a second batch: %d %v", again, out)
	}
	read := func(id string) (string, map[string]map[string]any, map[string]any) {
		_, out := s.ask("", "GET", "/v1/monitoring/miner-task-batches/"+id, nil)
		rows := map[string]map[string]any{}
		for _, a := range out["artifact_aggregates"].([]any) {
			rows[a.(map[string]any)["artifact_id"].(string)] = a.(map[string]any)
		}
		return out["summary"].(map[string]any)["status"].(string), rows, out
	}
	ended := func(id string) (map[string]map[string]any, map[string]any) {
		t.Helper()
		until(t, 8*time.Minute, "the batch has ended", func() bool {
			v.alive()
			status, _, _ := read(id)
			return status != "running"
		})
		status, rows, out := read(id)
		if status != "completed" {
			b, _ := json.Marshal(out["deliveries"])
			t.Fatalf("the batch: %s %s\n%s", status, b, v.log())
		}
		return rows, out
	}
	first := made["batch_id"].(string)
	rows, out := ended(first)
	t.Logf("asked: %v", up.asks)
	if rows[good]["score"] != 1.0 || rows[weak]["score"] != 0.0 || rows[bad]["score"] != 0.0 {
		for id := range rows {
			t.Logf("%s", s.get("/v1/monitoring/miner-task-batches/"+first+"/artifacts/"+id+"/tasks"))
		}
		t.Errorf("scores: %v", rows)
	}
	if cost, _ := rows[good]["cost_usd"].(float64); cost <= 0 || rows[weak]["cost_usd"] != 0.0 {
		t.Errorf("costs, as the proxy measured them: %v", rows)
	}
	if !slices.ContainsFunc(up.keys, func(k string) bool { return k == "/v1/chat/completions Bearer "+secret }) {
		t.Errorf("nobody was asked with the miner's key: %v", up.keys)
	}
	if d := out["batch"].(map[string]any)["decision"].(map[string]any); d["champion"] != good {
		t.Errorf("decision: %v", d)
	}
	tasks := out["batch"].(map[string]any)["tasks"].([]any)
	if len(tasks) != 3 {
		t.Fatalf("tasks: %v", tasks)
	}
	task := tasks[0].(map[string]any)["task_id"].(string)
	results := s.get("/v1/monitoring/miner-task-batches/" + first + "/artifacts/" + bad + "/tasks/" + task + "/results")
	if !bytes.Contains(results, []byte(`"error_code":"miner_unhandled_exception"`)) {
		t.Errorf("the crash: %s", results)
	}

	// A copy of the champion's script is called one, and not played.
	copied, other := submit("miner2", "# COPY OF ANOTHER\nMINE = 'mine'\n"+strings.ReplaceAll(searching, "num=3", "num=2")), submit("miner3", strings.ReplaceAll(guessing, "know.", "know, sorry."))
	var status int
	if status, made = batch(`{"use_previous_task_dataset":true}`); status != 202 {
		t.Fatalf("batch: %d %v", status, made)
	}
	rows, out = ended(made["batch_id"].(string))
	if rows[copied] != nil || rows[other] == nil || rows[good]["score"] != 1.0 || rows[weak] != nil {
		t.Errorf("the second batch: %v", rows)
	}
	likeness := out["batch"].(map[string]any)["similarity"].(map[string]any)
	if x := likeness[copied].(map[string]any); x["outcome"] != "fail" || x["reference"] != good {
		t.Errorf("the copy: %v", x)
	}
	// What its local evaluation reads of the newest batch: the tasks, and what was said of the champion.
	cmd := exec.Command(python, "-c", monitoringClient)
	cmd.Env, cmd.Dir = env, s.dir
	told, err := cmd.CombinedOutput()
	if lines := strings.Split(strings.TrimSpace(string(told)), "\n"); err != nil || lines[len(lines)-1] != good+" 3 tasks 3 rows" {
		t.Errorf("Harnyx's client of monitoring: %v %s", err, told)
	}
	s.localEval(python, up.url, first, good, env)
	_, weights := s.ask("v1", "GET", "/v1/weights", nil)
	t.Logf("weights: %v; asked: %v", weights, up.asks)
	g, err := client.New(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, 4*time.Minute, "the validator has given weights", func() bool {
		v.alive()
		m, err := g.Ledger(t.Context(), 3)
		return err == nil && slices.ContainsFunc(m.Neurons, func(n client.Neuron) bool {
			return n.Hotkey == s.parties["v1"].Hotkey.SS58() && n.LastUpdate > n.Registered
		})
	})
}

// asking answers by a model alone, so that it needs no search.
const asking = queryHead + `
@entrypoint("query")
async def query(query: Query) -> Response:
    said = await llm_chat(provider="openrouter", model="openai/gpt-oss-20b", messages=[{"role": "user", "content": query.text}], max_tokens=64)
    if query.output_schema is not None:
        return Response(output={"answer": said.llm.raw_text})
    return Response(text=said.llm.raw_text)
`

// localEval plays an ended batch again with Harnyx's local evaluation: a miner's file,
// and beside it the champion's, which it reads here.
func (s *subnet) localEval(python, models, batch, champion string, env []string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "asking.py")
	if err := os.WriteFile(file, []byte(asking), 0o600); err != nil {
		s.t.Fatal(err)
	}
	defer s.endContainers("local")
	reports := filepath.Join(s.dir, "reports")
	cmd := s.harnyxLaunch("local-eval", "local", python, models, "0", append(env, "OPENROUTER_API_KEY=key-of-this-test-alone"),
		"--agent-path", file, "--batch-id", batch, "--output-dir", reports)
	output, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Errorf("local evaluation: %v\n%s", err, output)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	var made struct {
		JSON string `json:"json_report"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &made); err != nil {
		s.t.Errorf("local evaluation: %v\n%s", err, output)
		return
	}
	report, err := os.ReadFile(made.JSON)
	if err != nil {
		s.t.Error(err)
		return
	}
	type row struct {
		Label  string
		Score  float64 `json:"total_score"`
		Source string
	}
	var got struct {
		Result struct {
			Rows []row `json:"leaderboard"`
		} `json:"local_result_summary"`
		Tasks []struct {
			Target   struct{ Score float64 }
			Recorded []struct {
				Artifact string  `json:"artifact_id"`
				Score    float64 `json:"score"`
				Cost     float64 `json:"cost_usd"`
				MS       float64 `json:"elapsed_ms"`
			} `json:"recorded_platform_rows"`
		}
	}
	if err := json.Unmarshal(report, &got); err != nil {
		s.t.Error(err)
		return
	}
	for _, x := range got.Tasks {
		if len(x.Recorded) != 1 || x.Recorded[0].Artifact != champion || x.Recorded[0].Score != 1 || x.Recorded[0].Cost <= 0 || x.Recorded[0].MS <= 0 {
			s.t.Errorf("what it reads of the champion: %+v", x.Recorded)
		}
	}
	// The champion's search is of a provider that is not reachable here.
	if rows := got.Result.Rows; len(got.Tasks) != 3 || len(rows) < 2 || rows[0].Label != "target" || rows[0].Score != 3 {
		s.t.Errorf("local evaluation: %+v of %d tasks\n%s", rows, len(got.Tasks), output)
	}
}

// get is what a public route says.
func (s *subnet) get(path string) []byte {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}
