package shopping_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/kinds/shopping/shop"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// nativeAgent asks for tools in OpenAI's form, and stops after terminate.
const nativeAgent = `import json
from os import getenv

from src.agent.agent_interface import Tool, create_dialogue_step, execute_tool_call
from src.agent.proxy_client import ProxyClient

client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=2)


@Tool
def find_product(**args):
    return client.get("/search/find_product", args) or []


@Tool
def view_product_information(product_ids):
    return client.get("/search/view_product_information", {"product_ids": product_ids}) or []


@Tool
def recommend_product(product_ids):
    return f"Having recommended the products to the user: {product_ids}."


@Tool
def terminate(status="success"):
    return f"The interaction has been completed with status: {status}"


TOOLS = [{"type": "function", "function": {"name": n, "description": n, "parameters": {"type": "object", "properties": {k: {"type": t} for k, t in p.items()}}}} for n, p in {
    "find_product": {"q": "string", "page": "integer"}, "view_product_information": {"product_ids": "string"},
    "recommend_product": {"product_ids": "string"}, "terminate": {"status": "string"}}.items()]


def agent_main(problem_data):
    messages = [{"role": "system", "content": "You shop."}, {"role": "user", "content": problem_data["query"]}]
    steps, over = [], False
    while not over and len(steps) < 9:
        reply = client.post("/inference/chat/completions", {"model": getenv("SANDBOX_MODEL"), "temperature": 0, "max_tokens": 500, "messages": messages, "tools": TOOLS})
        if not reply:
            break
        said = reply["choices"][0]["message"]
        messages.append(said)
        done = []
        for c in said.get("tool_calls") or []:
            f = c["function"]
            done.append(execute_tool_call(f["name"], json.loads(f["arguments"])))
            messages.append({"role": "tool", "tool_call_id": c["id"], "content": json.dumps(done[-1]["result"])})
        steps.append(create_dialogue_step(said.get("content") or "", done, "", problem_data["query"], len(steps) + 1))
        over = not done or done[-1]["name"] == "terminate"
    return steps
`

// shopper is an upstream in OpenAI's form that knows the answers: it searches, looks,
// and recommends, in the form in which it is asked, and judges.
func shopper(t *testing.T, problems []shop.Problem) string {
	t.Helper()
	styles := map[string]string{ // of native agents, by what they say first
		"You shop.":     "The wish names its goods plainly enough, so their name is what the shop gets asked first. ",
		"You shop too.": "Before anything else it seems best to look for exactly these goods among everything sold here. ",
	}
	type call struct {
		Name   string         `json:"name"`
		Params map[string]any `json:"parameters"`
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Model    string
			Messages []struct{ Role, Content string }
			Tools    []any
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		turn, all, style := 0, "", ""
		for _, m := range ask.Messages {
			all += m.Content
			turn += strings.Count(m.Content, "<obs>")
			style = cmp.Or(style, styles[m.Content])
		}
		if len(ask.Tools) > 0 {
			for _, m := range ask.Messages {
				if m.Role == "assistant" {
					turn++
				}
			}
		}
		message := map[string]any{"role": "assistant", "content": `{"reasoning_quality": 0.9, "explanation": "All gates"}`}
		for i := range problems {
			p := &problems[i]
			if strings.Contains(all, "reasoning_quality") || !strings.Contains(all, p.Query) {
				continue
			}
			ids := []string{}
			for _, x := range p.Reward.Items {
				ids = append(ids, x.ProductID)
			}
			think, calls := "I search for what the user asks for, by the name of the goods.", []call{{"find_product", map[string]any{"q": p.Reward.Items[0].Title[0], "page": 1}}}
			switch turn {
			case 0:
			case 1:
				think, calls = "The results list candidates; I look at the details of those.", []call{{"view_product_information", map[string]any{"product_ids": strings.Join(ids, ",")}}}
			default:
				think = "Both were in the results; I take " + strings.Join(ids, ",") + " because it fits better than the other candidates."
				calls = []call{{"recommend_product", map[string]any{"product_ids": strings.Join(ids, ",")}}, {"terminate", map[string]any{"status": "success"}}}
			}
			if len(ask.Tools) == 0 {
				b, _ := json.Marshal(calls)
				message["content"] = "<think>" + think + "</think>\n<tool_call>" + string(b) + "</tool_call>"
				break
			}
			list := []any{}
			for j, c := range calls {
				b, _ := json.Marshal(c.Params)
				list = append(list, map[string]any{"id": fmt.Sprintf("call_%d_%d_%d", i, turn, j), "type": "function", "function": map[string]any{"name": c.Name, "arguments": string(b)}})
			}
			message["content"], message["tool_calls"] = style+style+think, list
			break
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": ask.Model, "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}},
			"usage": map[string]int{"prompt_tokens": len(all)/4 + 50, "completion_tokens": 100, "total_tokens": len(all)/4 + 150},
		})
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// Six problems suffice where the calls are the same for all; the sample that works as
// ORO's reference agent does stands for it.
func TestPlaysBecomeRows(t *testing.T) { playsBecomeRows(t, 6, sample(t, "react"), 5*time.Minute) }

func sample(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("data", "samples", name, play.AgentFile))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// playsBecomeRows: every public play of an agent that asks for tools in OpenAI's form, and
// of one that asks in XML within one message, is an agentic row; one that also searches by
// itself leaves rows of another axis, and a play by rules none that is agentic. Report, row
// and classifier say the same ratio of each.
func playsBecomeRows(t *testing.T, count int, xml []byte, long time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	o := kittest.Options(t.TempDir(), kinds.All())
	x, _, err := new(shopping.Floor).With(o).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g := problem.DemoHidden(x, encode.Ngram{}, 5, count)
	g.ORO = true // each has an answer
	problems, err := problem.Generate(ctx, g)
	if err != nil {
		t.Fatal(err)
	}
	for i := range problems {
		for j := range problems[i].Reward.Items { // the model is told what it has to find
			p, err := x.Product(ctx, problems[i].Reward.Items[j].ProductID)
			if err != nil || p == nil {
				t.Fatal(problems[i].Query, err)
			}
			problems[i].Reward.Items[j].Title = []string{p.Title}
		}
	}
	env := map[string]string{"AGON_LLM_BASE_URL": shopper(t, problems), "AGON_LLM_API_KEY": "canary-of-the-provider", "AGON_LLM_MODEL": "m", "AGON_LLM_PRICE_IN": "100000", "AGON_LLM_PRICE_OUT": "100000"}
	getenv := o.Getenv
	o.Getenv = func(name string) string {
		if v, ok := env[name]; ok {
			return v
		}
		return getenv(name)
	}
	set := filepath.Join(t.TempDir(), "public")
	if _, err := problem.WriteTasks(set, "test", problems); err != nil {
		t.Fatal(err)
	}
	arena := filepath.Join(t.TempDir(), "arena.toml")
	text := fmt.Sprintf("id = \"rows\"\nkind = \"shopping\"\ntitle = \"Rows\"\nnetuid = 5\nlicence = \"MIT\"\nincentive = %q\nsets = [%q]\n[judge]\ndemo = true\n[policy]\ntools = [\"%s\"]\n[policy.budget]\nmicros = 2000000\ncalls = 5000\n",
		play.RaceRule, set, strings.Join(play.ToolNames(), `", "`))
	if err := os.WriteFile(arena, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Arenas = []string{arena}
	f, err := kit.LoadArenaFile(arena, o.Kits)
	if err != nil {
		t.Fatal(err)
	}
	s, end, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	val, err := kit.LoadParty(s.Data.Path("wallets"), "validator")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.EnsureSubnet(ctx, f.Arena(), val); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.URL(), val.Hotkey)
	if err != nil {
		t.Fatal(err)
	}
	half := strings.Replace(strings.Replace(nativeAgent, "You shop.", "You shop too.", 1), "steps, over = [], False", "steps, over = [], False\n    client.get(\"/search/find_product\", {\"q\": \"lamp\", \"page\": 1})", 1)
	agents, ids := map[string][]byte{"native": []byte(nativeAgent), "xml": xml, "half": []byte(half), "rules": sample(t, "rules")}, map[string]string{}
	for name, code := range agents {
		miner, err := kit.LoadParty(s.Data.Path("wallets"), name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.EnsureRegistered(ctx, f.Arena(), miner); err != nil {
			t.Fatal(err)
		}
		mc, err := client.New(s.URL(), miner.Hotkey)
		if err != nil {
			t.Fatal(err)
		}
		sub, err := mc.Submit(ctx, f.ID, client.SubmitRequest{Name: name, Licence: "MIT", Files: []client.File{{Path: play.AgentFile, Content: code}}})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = sub.ID
	}
	work, stop := context.WithCancel(ctx)
	played := make(chan error, 1)
	own := o
	own.Metrics = freeAddress(t)
	go func() { played <- roles.Validator(work, own, c, val.Hotkey, nil) }()
	defer func() {
		stop()
		if err := <-played; err != nil {
			t.Error(err)
		}
	}()
	for name, id := range ids {
		sub, err := s.Platform.Submission(ctx, platform.Caller{}, id)
		for ; err == nil && sub.Decision == nil; sub, err = s.Platform.Submission(ctx, platform.Caller{}, id) {
			if ctx.Err() != nil {
				t.Fatalf("%s is still %s", name, sub.State)
			}
			again, done := context.WithTimeout(ctx, time.Second)
			_ = s.Platform.Wait(again, "") // news or a second: each is looked at
			done()
		}
		if err != nil {
			t.Fatal(err)
		}
		if solved := *sub.Solved; solved != len(problems) && name != "rules" {
			t.Errorf("%s solved %d of %d", name, solved, len(problems))
		}
	}

	validatorFigures(t, own.Metrics, len(ids))

	agon := func(args ...string) []byte {
		t.Helper()
		s, out, errOut := iostreams.Test("")
		home := t.TempDir()
		cfg := config.Env{Getenv: func(k string) string { return map[string]string{"AGON_DATA": o.Data}[k] }, Dir: home, Home: home, UserCacheDir: home}
		a := &cli.App{IO: s, Now: time.Now, Services: app.Services(kinds.All()), Extras: kinds.All().Commands(), Env: cfg}
		if code := a.Main(ctx, args); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errOut)
		}
		return []byte(out.String())
	}
	dir := filepath.Join(t.TempDir(), "corpus")
	agon("corpus", "build", "--arena", f.ID, "--url", s.URL(), "--out", dir)
	rows, ratios := map[string]int{}, map[string]float64{}
	for _, split := range []string{"train", "eval", "held"} {
		b, err := os.ReadFile(filepath.Join(dir, split, "rows.jsonl"))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var r corpus.Row
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			name := ""
			for n, id := range ids {
				if r.From.Submission == id {
					name = n
				}
			}
			rows[name+" "+string(r.Axis)]++
			ratios[r.From.Submission] += r.Ratio / float64(len(problems))
			// One play, asked of the classifier as anybody would.
			doc := filepath.Join(t.TempDir(), "run.atif.json")
			if err := os.WriteFile(doc, agon("run", "trace", r.From.Run, "--task", r.From.Task, "--format", "atif", "--url", s.URL()), 0o600); err != nil {
				t.Fatal(err)
			}
			var class corpus.Class
			if err := json.Unmarshal(agon("corpus", "classify", doc, "-o", "json"), &class); err != nil {
				t.Fatal(err)
			}
			if class.Axis != r.Axis || class.Ratio != r.Ratio || len(class.Rejects) > 0 {
				t.Errorf("%s %s: the row says %s %v, the classifier %+v", name, r.From.Task, r.Axis, r.Ratio, class)
			}
		}
	}
	if n := len(problems); rows["native agentic"] != n || rows["xml agentic"] != n || rows["half agentic"] != 0 || rows["half sub_task"] != n || rows["rules agentic"] != 0 {
		why, _ := os.ReadFile(filepath.Join(dir, "report.json"))
		t.Errorf("rows %v of %d problems each\n%s", rows, n, why)
	}
	for name, id := range ids {
		var report struct {
			Rows []struct {
				Category string
				Ratio    *float64 `json:"agentic_ratio"`
			}
		}
		out := agon("shop", "report", id, "--url", s.URL(), "-o", "json")
		if err := json.Unmarshal(out, &report); err != nil {
			t.Fatal(err)
		}
		said := false
		for _, x := range report.Rows {
			if x.Category != "all" {
				continue
			}
			said = true
			if name != "rules" && (x.Ratio == nil || math.Abs(*x.Ratio-ratios[id]) > 1e-12) {
				t.Errorf("%s: the report says %s, its rows %v", name, out, ratios[id])
			}
			if name == "rules" && x.Ratio != nil && *x.Ratio != 0 {
				t.Errorf("rules: the report says %v", *x.Ratio)
			}
		}
		if !said {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// validatorFigures reads what the validator at an address says of itself, after it has
// played at least so many runs.
func validatorFigures(t *testing.T, address string, runs int) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	figure := func(name string) (v float64) {
		for line := range strings.Lines(string(b)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				if _, err := fmt.Sscan(rest, &v); err != nil {
					t.Errorf("%s: %v", line, err)
				}
				return v
			}
		}
		t.Errorf("%s is not served", name)
		return v
	}
	claims, boxes := figure(`validator_claim_work_total{result="success"}`), figure("validator_sandbox_duration_seconds_count")
	if claims < float64(runs) || boxes < float64(runs) || figure("validator_claim_work_seconds_count") < claims || figure(`validator_heartbeat_total{result="success"}`) == 0 || figure("process_resident_memory_bytes") == 0 {
		t.Errorf("%v claims and %v boxes after %d runs", claims, boxes, runs)
	}
}
