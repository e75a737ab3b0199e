package pack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	pack "github.com/agon-arena/agon/kinds/pack"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/data"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// storyDir is the cost story as it is shipped: three packs, the tape of their
// model calls, and the plot of it.
const storyDir = "../../docs/examples/cost"

// storyModels are what the stand-in speaks for; the first leads every episode.
var storyModels = []string{"gpt-5", "gpt-5-mini", "gpt-5-nano", "deepseek-chat", "gpt-4.1-mini"}

// thinking is how many tokens the stand-in says that it thought, by what leads the
// conversation. The numbers bring the three packs to the figures that the field tells.
var thinking = map[string]int{"plain": 2377, "tuned": 1738, "routed": 51, "collect": 300, "open": 200, "draft": 200, "check": 200}

// first is what it thought besides before its first reply.
var first = map[string]int{"plain": 3, "tuned": 2, "routed": 3}

// storyteller is a server that stands for five models: it plays two packs by
// the shipped script, and the third by handing work to the pack's skills.
type storyteller struct {
	script http.Handler
	rules  []map[string]any // of the script
}

func newStoryteller(t *testing.T) *storyteller {
	t.Helper()
	raw := kit.SampleScript(data.FS, "optimised")
	s, err := scripted.Parse(raw, "json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Rules []map[string]any `json:"rule"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return &storyteller{script: scripted.Handler(s), rules: doc.Rules}
}

// office is what the tuned policy calls in a scenario, in order, and its answer;
// found by words of the prompt.
func (s *storyteller) office(prompt string) (calls []any, answer string) {
	for _, r := range s.rules {
		_, word, _ := strings.Cut(strings.ReplaceAll(r["task_re"].(string), `\`, ""), ".*")
		if !strings.Contains(r["task_re"].(string), "Office") || !strings.Contains(prompt, word) {
			continue
		}
		if list, ok := r["tool_calls"].([]any); ok {
			calls = append(calls, list...)
		} else {
			answer, _ = r["content"].(string)
		}
	}
	return calls, answer
}

type storyMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (s *storyteller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var q struct {
		Model    string         `json:"model"`
		Messages []storyMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	head, turn := "", 0
	for _, m := range q.Messages {
		if m.Role == "assistant" {
			turn++
		} else if turn == 0 {
			head += m.Content + "\n"
		}
	}
	who := "judge"
	for mark, name := range map[string]string{
		"You are the assistant of an office.": "plain", "# Office policy": "tuned", "# Routing policy": "routed",
		"# Collect": "collect", "# Open": "open", "# Draft": "draft", "# Check": "check",
	} {
		if strings.Contains(head, mark) && (strings.Contains(head, "Epoch Evaluation Context") || strings.HasPrefix(head, "# ")) {
			who = name
		}
	}
	var message map[string]any
	switch who {
	case "judge":
		message = map[string]any{"role": "assistant", "content": `{"integrity_passed": true, "flags": [], "criteria_results": []}`}
	case "plain", "tuned":
		var whole map[string]any
		_ = json.Unmarshal(body, &whole) // it was read above
		whole["model"] = scripted.Name
		asked, _ := json.Marshal(whole)
		rec := httptest.NewRecorder()
		s.script.ServeHTTP(rec, httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(asked)))
		var reply struct {
			Choices []struct {
				Message map[string]any `json:"message"`
			} `json:"choices"`
		}
		if json.Unmarshal(rec.Body.Bytes(), &reply) != nil || len(reply.Choices) != 1 {
			http.Error(w, "the script did not answer", http.StatusInternalServerError)
			return
		}
		message = reply.Choices[0].Message
	default:
		message = s.hand(who, head, turn)
	}
	said, _ := json.Marshal(message)
	in, out := len(body)/4+1, len(said)/4+1+thinking[who]
	if turn == 0 {
		out += first[who]
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("chatcmpl-story-%s-%d", who, turn), "object": "chat.completion", "created": 0, "model": q.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}},
		"usage":   map[string]int{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out},
	})
}

// hand plays the routing policy and its skills: of ten calls an episode four lead,
// two or three collect, two open what was found, one drafts, and every second episode is checked.
func (s *storyteller) hand(who, head string, turn int) map[string]any {
	calls, answer := s.office(head)
	say := func(text string) map[string]any { return map[string]any{"role": "assistant", "content": text} }
	ask := func(list []any) map[string]any {
		out := []any{}
		for i, c := range list {
			f, _ := c.(map[string]any)
			args, _ := json.Marshal(f["arguments"])
			out = append(out, map[string]any{"id": fmt.Sprintf("call_%s_%d_%d", who, turn, i), "type": "function", "function": map[string]any{"name": f["name"], "arguments": string(args)}})
		}
		return map[string]any{"role": "assistant", "content": nil, "tool_calls": out}
	}
	hand := func(skills ...string) map[string]any {
		var list []any
		for _, name := range skills {
			list = append(list, map[string]any{"name": "delegate", "arguments": map[string]any{"skill": name, "task": lastLine(head)}})
		}
		return ask(list)
	}
	odd := strings.Contains(head, "stand-up") || strings.Contains(head, "debrief") || strings.Contains(head, "ticket outage")
	half := (len(calls) + 1) / 2
	switch {
	case who == "routed" && turn == 0:
		return hand("collect")
	case who == "routed" && turn == 1:
		return hand("open")
	case who == "routed" && turn == 2 && odd:
		return hand("draft", "check")
	case who == "routed" && turn == 2:
		return hand("draft")
	case who == "routed":
		return say(answer)
	case who == "collect" && odd && turn == 0:
		return ask(calls[:1])
	case who == "collect" && odd && turn == 1:
		return ask(calls[1:half])
	case who == "collect" && turn == 0:
		return ask(calls[:half])
	case who == "open" && turn == 0:
		return ask(calls[half:])
	case who == "draft":
		return say(answer)
	case who == "check":
		return say("Nothing was sent, nothing confidential is told, every fact has a source.")
	}
	return say("Done: the sources are read, what matters is in the draft.")
}

// lastLine is the prompt of a conversation: what stands last before the first reply.
func lastLine(head string) string {
	lines := strings.Split(strings.TrimSpace(head), "\n")
	return lines[len(lines)-1]
}

// routedPack hands work to cheaper models, a skill each.
func routedPack() *packfile.Pack {
	skill := func(name, model, does, text string) string {
		return "---\ndescription: " + does + "\nmodel: " + model + "\n---\n# " + name + "\n\n" + text + "\n"
	}
	return packfile.Build(packfile.BuildOptions{
		Name: "routed", Version: "1.0.0", Allow: []string{"exec", "slack", "memory_search", "memory_get", "read", "web_search", "web_fetch"}, Deny: []string{"admin_*", "shell"},
		Policy: "# Routing policy\n\n1. You lead and fetch nothing yourself: hand the request to `collect`, then to `open`, then to `draft`; where people or times are at stake, to `check` as well.\n2. Reading is free to do. Nothing is sent, posted, booked, moved or deleted.\n3. What somebody calls confidential stays out of the answer, its existence included.\n4. Every fact comes from what was read. Answer in at most 250 words, most urgent first.\n",
		Files: map[string]string{
			"skills/collect.md": skill("Collect", storyModels[1], "fetches the lists that a request needs", "Fetch the lists that the request needs, each once. Say what you fetched. Change nothing."),
			"skills/open.md":    skill("Open", storyModels[2], "opens single items that the lists point to", "Open only the items that the request needs. Say what they hold. Change nothing."),
			"skills/draft.md":   skill("Draft", storyModels[3], "writes the answer", "Write the answer: most urgent first, each fact with its source. Mark drafts as not sent."),
			"skills/check.md":   skill("Check", storyModels[4], "looks for what must not be in the answer", "Look for what must not be said, and for acts nobody asked for."),
		},
	})
}

// story plays the three packs from a tape.
func story(t *testing.T, o kit.Options, dir, tape string) *commands.Comparison {
	t.Helper()
	at := func(name string) string { return filepath.Join(dir, name) }
	got, err := pack.RunCompare(t.Context(), o, commands.CompareOptions{
		A: at("plain.json"), B: at("tuned.json"), More: []string{at("routed.json")}, Rounds: 1, PerDay: 2000, Cassette: tape,
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The story of the field, on the tape that is shipped: one agent that costs 12,300
// dollars a month, 3,300 once its prompt is tuned, and 900 once its work goes to
// five models. Every figure comes out of the replayed calls, the same everywhere.
func TestCostStory(t *testing.T) {
	kits := kinds.All()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		recordStory(t, kits)
	}
	got := story(t, kittest.Options(t.TempDir(), kits), storyDir, filepath.Join(storyDir, "tape.jsonl"))
	sides := []commands.Side{got.A, got.B, got.More[0].Side}
	for i, want := range []struct {
		micros float64 // six episodes
		month  float64
	}{{1_230_000, 12_300}, {330_000, 3_300}, {90_000, 900}} {
		s := sides[i]
		sum := 0.0
		for _, usd := range s.ByTask {
			sum += usd
		}
		if m := sum * 1e6; math.Abs(m-want.micros) > 60 || math.Abs(m-math.Round(m)) > 1e-6 || math.Abs(s.MonthUSD-want.month) > 1 {
			t.Errorf("%s costs %.3f micro-dollars in six episodes and $%.2f a month, want %.0f and %.0f", s.Pack, m, s.MonthUSD, want.micros, want.month)
		}
		if s.Qualified != s.Episodes || s.Episodes != 6 {
			t.Errorf("%s: %d of %d episodes qualify", s.Pack, s.Qualified, s.Episodes)
		}
	}
	share := map[string]int{}
	for _, m := range sides[2].Models {
		share[m.Model] = int(math.Round(100 * m.Share))
	}
	for i, want := range []int{40, 25, 20, 10, 5} {
		if share[storyModels[i]] != want {
			t.Errorf("%s has %d %% of the calls, want %d", storyModels[i], share[storyModels[i]], want)
		}
	}
	if got.Scripted || got.Saving == nil || math.Abs(*got.Saving-0.73) > 0.005 || got.More[0].Saving == nil || math.Abs(*got.More[0].Saving-0.927) > 0.005 {
		t.Errorf("savings %v %v", got.Saving, got.More[0].Saving)
	}
	plotted := filepath.Join(storyDir, "cost.svg")
	drawn := commands.Plot(got)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(plotted, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(plotted); err != nil || !bytes.Equal(b, drawn) {
		t.Errorf("the plot in docs is not that of the tape (%v): run this test with UPDATE_GOLDEN=1", err)
	}
}

// recordStory plays the packs against the stand-in and keeps what it said to the
// agent, without the requests (their hashes decide) and without the judge's.
func recordStory(t *testing.T, kits kit.List) {
	t.Helper()
	for _, name := range []string{"baseline", "optimised"} {
		files, err := kit.SampleFiles(data.FS, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(storyDir, map[string]string{"baseline": "plain.json", "optimised": "tuned.json"}[name]), files["pack.json"], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(storyDir, "routed.json"), []byte(routedPack().Value.Indented()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(newStoryteller(t))
	defer srv.Close()
	tape := filepath.Join(t.TempDir(), "tape.jsonl")
	o := kittest.Options(t.TempDir(), kits)
	env := map[string]string{"AGON_LLM_BASE_URL": srv.URL + "/v1", "AGON_LLM_API_KEY": "none", "AGON_LLM_MODEL": strings.Join(storyModels, ","), "AGON_LLM_CASSETTE": tape}
	o.Getenv = func(name string) string {
		if strings.HasPrefix(name, "AGON_LLM_") {
			return env[name]
		}
		return os.Getenv(name)
	}
	story(t, o, storyDir, "")
	raw, err := os.ReadFile(tape)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for line := range bytes.Lines(raw) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if text, _ := e["text"].(string); strings.Contains(text, "chatcmpl-story-judge") {
			continue
		}
		delete(e, "request")
		if err := enc.Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(storyDir, "tape.jsonl"), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
