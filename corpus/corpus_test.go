package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

// step helpers of hand-made ATIF files.
func agent(llm int, calls ...string) map[string]any {
	s := map[string]any{"source": "agent", "message": "I look.", "llm_call_count": llm}
	var list, results []any
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		id := fmt.Sprintf("%s-%d", name, i)
		if args == "" {
			args = "{}"
		}
		list = append(list, map[string]any{"tool_call_id": id, "function_name": name, "arguments": json.RawMessage(args)})
		results = append(results, map[string]any{"source_call_id": id, "content": "products 11 and 12"})
	}
	if list != nil {
		s["tool_calls"], s["observation"] = list, map[string]any{"results": results}
	}
	return s
}

func atif(t testing.TB, steps ...map[string]any) []byte {
	t.Helper()
	all := append([]map[string]any{{"source": "user", "message": "buy it"}}, steps...)
	for i := range all {
		all[i]["step_id"] = i + 1
	}
	b, err := json.Marshal(map[string]any{"schema_version": "ATIF-v1.7", "agent": map[string]any{"name": "a", "version": "1"}, "steps": all})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shop is a kind whose answer is a recommendation of products.
var shop = Finals{"shop": {Tool: "recommend_product", Marks: []string{"find_product"}, Noun: "product", IDs: func(args string) ([]string, error) {
	var a struct {
		IDs string `json:"product_ids"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil || a.IDs == "" {
		return nil, errors.Join(err, errors.New("no ids"))
	}
	return strings.Split(a.IDs, ","), nil
}}}

const pick = `recommend_product {"product_ids":"11"}`

func TestClassify(t *testing.T) {
	unanswered := agent(1, "find_product")
	delete(unanswered, "observation")
	silent := map[string]any{"source": "agent", "message": "", "reasoning_content": "hm", "llm_call_count": 1}
	for _, c := range []struct {
		name    string
		steps   []map[string]any
		axis    Axis
		ratio   float64
		rejects []string
	}{
		{"pure ReAct", []map[string]any{agent(1, "find_product"), agent(1, pick)}, Agentic, 1, nil},
		{"pure script", []map[string]any{agent(0, "find_product"), agent(0, pick)}, SubTask, 0, nil},
		{"script and narration", []map[string]any{agent(0, "find_product"), agent(1), agent(0, pick)}, Narrated, 0, nil},
		{"half and half", []map[string]any{agent(1, "find_product"), agent(0, pick)}, SubTask, .5, nil},
		{"nine of ten", []map[string]any{agent(1, slices.Repeat([]string{"find_product"}, 8)...), agent(1, pick), agent(0, "terminate")}, Agentic, .9, nil},
		{"no recommendation", []map[string]any{agent(1, "find_product")}, Agentic, 1, []string{RejectFinalCount}},
		{"two recommendations", []map[string]any{agent(1, "find_product"), agent(1, pick, pick)}, Agentic, 1, []string{RejectFinalCount}},
		{"an id that nothing showed", []map[string]any{agent(1, "find_product"), agent(1, `recommend_product {"product_ids":"99"}`)}, Agentic, 1, []string{RejectFinalInvalid}},
		{"no ids", []map[string]any{agent(1, "find_product"), agent(1, "recommend_product")}, Agentic, 1, []string{RejectFinalInvalid}},
		{"a call without its result", []map[string]any{unanswered, agent(1, "find_product"), agent(1, pick)}, Agentic, 1, []string{RejectUnanswered}},
		{"ends in thought", []map[string]any{agent(1, "find_product"), agent(1, pick), silent}, Agentic, 1, []string{RejectThinkingEnd}},
		{"says nothing of a shop", []map[string]any{agent(1, "read_file")}, Agentic, 1, nil},
	} {
		got, err := ClassifyFile(atif(t, c.steps...), "", shop)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Axis != c.axis || got.Ratio != c.ratio || !slices.Equal(got.Rejects, c.rejects) || got.Rejects == nil {
			t.Errorf("%s: %+v, want %s %v %v", c.name, got, c.axis, c.ratio, c.rejects)
		}
	}
}

// The limit stands between 14,336 and 14,337 tokens.
func TestTokenLimit(t *testing.T) {
	at := func(words int) Class {
		s := agent(1)
		s["message"] = strings.Repeat(" a", words)
		c, err := ClassifyFile(atif(t, s), "other", shop)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	base := at(10).Tokens
	fit := at(10 + MaxTokens - base)
	if fit.Tokens != MaxTokens || len(fit.Rejects) != 0 {
		t.Errorf("%+v", fit)
	}
	if over := at(11 + MaxTokens - base); over.Tokens != MaxTokens+1 || !slices.Equal(over.Rejects, []string{RejectTooLong}) {
		t.Errorf("%+v", over)
	}
}

func TestScrub(t *testing.T) {
	s := NewScrubber()
	for in, want := range map[string]string{
		"key sk-abcdefghijklmnop1234 end":        "key [api_key removed] end",
		"write to jane.doe@example.org now":      "write to [email removed] now",
		"card 4111 1111 1111 1111":               "card [card removed]",
		"number 4111 1111 1111 1112":             "number 4111 1111 1111 1112",
		"DE89 3704 0044 0532 0130 00":            "[iban removed]",
		"https://me:secret@host/x":               "[url_credentials removed]host/x",
		"Authorization: Bearer abcdefghijklmnop": "Authorization: [bearer removed]",
		"nothing here @ all, 1.5 + 2":            "nothing here @ all, 1.5 + 2",
	} {
		if got := s.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if again := s.Text(want); again != want {
			t.Errorf("%q changes when it is scrubbed again: %q", want, again)
		}
	}
	if got := string(s.JSON([]byte(`{"b":["jane@example.org"],"a":{"k":1.50}}`))); got != `{"a":{"k":1.50},"b":["[email removed]"]}` {
		t.Errorf("%s", got)
	}
}

func TestPoison(t *testing.T) {
	p := NewPoison()
	long := "find the red running shoe with a white sole and size forty two under fifty euros from any shop"
	if err := p.Add("public", strings.NewReader("# a list\nWhat is it?\n"+long+"\nid:4711\n{\"text\":\"Short one\"}\n")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		texts, ids []string
		how        string
	}{
		{[]string{"what IS it"}, nil, "hash"},
		{[]string{"Please: " + strings.ToUpper(long) + "!"}, nil, "ngram"},
		{[]string{"Task\n\nshort   one.\n"}, nil, "hash"},
		{nil, []string{"4711"}, "id"},
		{[]string{"find the red running shoe"}, []string{"4712"}, ""},
	} {
		h, ok := p.Find(c.texts, c.ids)
		if ok != (c.how != "") || h.How != c.how {
			t.Errorf("%v %v: %+v", c.texts, c.ids, h)
		}
	}
	if err := NewPoison().Add("bad", strings.NewReader("sha256:12\n")); err == nil {
		t.Error("half a hash was let in")
	}
	if err := NewPoison().Add("bad", strings.NewReader(strings.Repeat("x", MaxPoisonLine+1))); err == nil {
		t.Error("an endless line was let in")
	}
}

// source is an arena of runs in memory: the shape of mcp.Source.
type source struct {
	arena client.Arena
	subs  map[string]*client.Submission
	runs  map[string]*client.Run
	evs   map[string][]agon.Event
}

func newSource(tasks int) *source {
	s := &source{subs: map[string]*client.Submission{}, runs: map[string]*client.Run{}, evs: map[string][]agon.Event{}}
	s.arena = client.Arena{Arena: agon.Arena{ID: "a", Kind: "golf", Licence: "MIT"}}
	for i := range tasks {
		s.arena.Tasks = append(s.arena.Tasks, agon.TaskRef{Key: fmt.Sprintf("t%d", i), Digest: agon.Sum([]byte{byte(i)})})
	}
	return s
}

func (s *source) Arenas(context.Context) ([]client.Arena, error) {
	return []client.Arena{s.arena}, nil
}

func (s *source) Submission(_ context.Context, id string) (*client.Submission, error) {
	return s.subs[id], nil
}

func (s *source) Run(_ context.Context, id string) (*client.Run, error) { return s.runs[id], nil }

func (s *source) Runs(context.Context, string, string, string, string, int) (*client.Page[client.Run], error) {
	p := &client.Page[client.Run]{}
	for _, r := range s.runs {
		p.Items = append(p.Items, *r)
	}
	return p, nil
}

func (s *source) Events(_ context.Context, run string, at int, seq int64, limit int) ([]agon.Event, error) {
	var out []agon.Event
	for _, e := range s.evs[run] {
		if e.Attempt == at && e.Seq > seq && len(out) < limit {
			out = append(out, e)
		}
	}
	return out, nil
}

// play adds a run in which a model answers query with a tool call and a word.
func (s *source) play(n int, sub string, task int, query, answer string, value float64) string {
	id := fmt.Sprintf("run-%03d", n)
	if s.subs[sub] == nil {
		s.subs[sub] = &client.Submission{Submission: agon.Submission{ID: sub, Miner: "m-" + sub, Coldkey: "c-" + sub, Digest: agon.Sum([]byte(sub)), Licence: "MIT", State: agon.SubmissionScored}}
	}
	ref := s.arena.Tasks[task]
	r := &client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: id, Arena: "a", Tasks: []agon.TaskRef{ref}, Seed: 7}, Submission: sub, State: agon.RunScored}}
	r.Scores = []agon.Score{{Run: id, Task: ref.Key, Value: value, Solved: value == 1, Scorer: "s-1"}}
	r.List = []agon.Attempt{{Run: id, N: 1, Validator: "v", Counted: true, CostMicros: 5}}
	s.runs[id] = r
	ask := []map[string]any{{"role": "system", "content": "You help."}, {"role": "user", "content": query}}
	call := map[string]any{"id": "c1", "name": "read_file", "arguments": `{"path":"` + answer + `.py"}`}
	s.model(id, ref.Key, ask, map[string]any{"content": "I look.", "tool_calls": []any{call}})
	ask = append(ask,
		map[string]any{"role": "assistant", "content": "I look.", "tool_calls": []any{map[string]any{"id": "c1", "type": "function", "function": map[string]any{"name": "read_file", "arguments": call["arguments"]}}}},
		map[string]any{"role": "tool", "tool_call_id": "c1", "content": "text of " + answer})
	s.model(id, ref.Key, ask, map[string]any{"content": "Done with " + answer + "."})
	return id
}

func (s *source) model(run, task string, messages []map[string]any, reply map[string]any) {
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": messages, "tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "read_file", "description": "reads", "parameters": map[string]any{"type": "object"}}}}})
	data, _ := json.Marshal(map[string]any{
		"receipt": agon.Receipt{ID: fmt.Sprintf("%s-%d", run, len(s.evs[run])), Model: "m", Provider: "p", Outcome: "ok", Payer: "run"},
		"request": map[string]any{"text": string(body)}, "message": reply,
	})
	s.evs[run] = append(s.evs[run], agon.Event{Run: run, Attempt: 1, Task: task, Seq: int64(len(s.evs[run]) + 1), At: time.Unix(0, 0).UTC(), Type: agon.EventModel, Data: data})
}

// Rows of a script are marked everywhere, and reach trainers only when asked for.
func TestScriptedRows(t *testing.T) {
	s := newSource(3)
	by := func(run, provider string) {
		for i, e := range s.evs[run] {
			s.evs[run][i].Data = bytes.Replace(e.Data, []byte(`"provider":"p"`), []byte(`"provider":"`+provider+`"`), 1)
		}
	}
	s.play(1, "real", 0, words(1), "one", 1)
	by(s.play(2, "fake", 1, words(2), "two", 1), agon.Script)
	silent := s.play(3, "fake", 2, words(3), "three", 0)
	s.evs[silent] = nil
	s.model(silent, s.arena.Tasks[2].Key, []map[string]any{{"role": "user", "content": words(3)}}, map[string]any{"content": scripted.NoReply})
	by(silent, agon.Script)
	trains := func(m *Manifest) (n int) {
		for name, f := range m.Files {
			if strings.HasSuffix(name, "/openai.jsonl") {
				n += f.Rows
			}
		}
		return n
	}
	all := func(c *Config) { c.EvalShare, c.HeldShare = 0.01, 0 } // all to train on
	r, m := build(t, s, all)
	if r.Rows != 2 || r.Scripted != 1 || r.Rejected[RejectNoReply] != 1 || m.Counts.Scripted != 1 || trains(m) != 1 {
		t.Fatalf("%+v, counts %+v, %d rows for trainers, want 1", r, m.Counts, trains(m))
	}
	const want = "1 of 2 rows comes from the stand-in script"
	for _, name := range []string{"report.md", "README.md"} {
		if b, err := os.ReadFile(filepath.Join(r.Dir, name)); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s does not say %q: %v", name, want, err)
		}
	}
	if _, m = build(t, s, func(c *Config) { all(c); c.Scripted = true }); trains(m) != 2 {
		t.Errorf("asked for: %d rows for trainers, want 2", trains(m))
	}
	if c := (&Counts{Rows: 2}); c.Warning() != "" {
		t.Error(c.Warning())
	}
	if c := (&Counts{Rows: 2, Scripted: 2}); !strings.HasPrefix(c.Warning(), "Every row") {
		t.Error(c.Warning())
	}
}

func build(t *testing.T, s *source, change func(*Config)) (*Result, *Manifest) {
	t.Helper()
	cfg := Config{Source: s, Out: filepath.Join(t.TempDir(), "out")}
	if change != nil {
		change(&cfg)
	}
	r, err := Build(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	v, err := Verify(r.Dir, cfg.Finals)
	if err != nil || len(v.Problems) > 0 {
		t.Fatalf("verify: %v %v", err, v)
	}
	return r, m
}

// sell adds a run in which a model looks for a product and recommends it.
func (s *source) sell(n, task int, query, product string, value float64) {
	id := s.play(n, fmt.Sprint("sub-", n), task, query, product, value)
	s.evs[id] = nil
	ref := s.runs[id].Tasks[0]
	ask := []map[string]any{{"role": "user", "content": query}}
	for i, call := range []map[string]any{
		{"name": "find_product", "arguments": fmt.Sprintf(`{"q":"x%d"}`, n)},
		{"name": "recommend_product", "arguments": `{"product_ids":"` + product + `"}`},
	} {
		call["id"] = fmt.Sprint("c", i)
		s.model(id, ref.Key, ask, map[string]any{"content": "I act.", "tool_calls": []any{call}})
		ask = append(
			ask,
			map[string]any{"role": "assistant", "content": "I act.", "tool_calls": []any{map[string]any{"id": call["id"], "type": "function", "function": map[string]any{"name": call["name"], "arguments": call["arguments"]}}}},
			map[string]any{"role": "tool", "tool_call_id": call["id"], "content": "found " + product},
		)
	}
	s.model(id, ref.Key, ask, map[string]any{"content": "Done."})
}

// Problems with the same right answer never stand in two splits, and a corpus
// in which they do is found out.
func TestFinalCallsJoinClusters(t *testing.T) {
	s := newSource(12)
	s.arena.Kind = "shop"
	for i := range 12 {
		product := fmt.Sprint("4711", i)
		if i < 6 {
			product = "0815"
		}
		s.sell(i, i, words(i), product, 1)
	}
	clusters := func(dir string) map[string]int {
		m := map[string]int{}
		for _, split := range []string{Train, Eval, Held} {
			err := eachLine(filepath.Join(dir, split, "rows.jsonl"), func(line []byte) error {
				var r Row
				err := json.Unmarshal(line, &r)
				m[r.Cluster]++
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	with, _ := build(t, s, func(c *Config) { c.Finals = shop })
	if got := clusters(with.Dir); with.Rows != 12 || len(got) != 7 {
		t.Errorf("%d rows in %d clusters, want 12 in 7: %v; %v", with.Rows, len(got), got, with.Rejected)
	}
	without, _ := build(t, s, func(c *Config) { c.EvalShare, c.HeldShare = 0.4, 0.3 })
	if got := clusters(without.Dir); len(got) != 12 {
		t.Errorf("without a final call: %d clusters, want 12", len(got))
	}
	v, err := Verify(without.Dir, shop)
	if err != nil || len(v.Problems) == 0 || !strings.HasPrefix(v.Problems[0], "product 0815 stands in ") {
		t.Errorf("a leak is not found: %v %v", v, err)
	}
}

// words makes a query of its own for each n.
func words(n int) string {
	var b strings.Builder
	for i := range 14 {
		fmt.Fprintf(&b, "w%dx%d ", n, i*n+i)
	}
	return b.String()
}

func TestBuild(t *testing.T) {
	s := newSource(30)
	for i := range 30 {
		s.play(i, "sub-a", i, words(i), fmt.Sprint("a", i), 1)
	}
	s.play(100, "sub-b", 0, words(0), "a0", 1)    // does what the first did
	s.play(101, "sub-b", 1, words(1), "other", 0) // fails
	s.play(102, "sub-b", 2, words(2)+" please mail me at x@example.org", "z", 1)
	s.runs[s.play(103, "sub-c", 3, words(3), "open", 1)].State = agon.RunPlaying
	s.play(104, "sub-d", 4, words(4), "banned", 1)
	s.subs["sub-d"].State = agon.SubmissionExcluded
	s.arena.Tasks[5].Hidden = true
	s.runs["run-005"].Tasks[0].Hidden = true

	a, m := build(t, s, nil)
	if want := map[string]int{RejectDuplicate: 1, RejectOpen: 1, RejectWithdrawn: 1, RejectHidden: 1}; fmt.Sprint(a.Rejected) != fmt.Sprint(want) {
		t.Errorf("rejected %v, want %v", a.Rejected, want)
	}
	if a.Rows != 31 || m.Report.Scrubbed["email"] == 0 || !slices.Equal(m.Report.Open, []string{"run-103"}) {
		t.Errorf("%d rows, scrubbed %v, open %v", a.Rows, m.Report.Scrubbed, m.Report.Open)
	}
	if m.Counts.Train == 0 || m.Counts.Eval == 0 {
		t.Errorf("counts %+v", m.Counts)
	}
	b, _ := build(t, s, nil)
	if err := sameTree(a.Dir, b.Dir); err != nil {
		t.Errorf("two builds differ: %v", err)
	}
	// A changed byte is found.
	path := filepath.Join(b.Dir, "train", "rows.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "text of", "test of", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if v, err := Verify(b.Dir, nil); err != nil || len(v.Problems) == 0 {
		t.Errorf("a changed file: %v %v", v, err)
	}
}

func sameTree(a, b string) error {
	return filepath.WalkDir(a, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(a, p)
		if err != nil {
			return err
		}
		x, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		y, err := os.ReadFile(filepath.Join(b, rel))
		if err != nil {
			return err
		}
		if string(x) != string(y) {
			return fmt.Errorf("%s", rel)
		}
		return nil
	})
}

// Paraphrases of one problem, and problems that share a product, stand in one split.
func TestLeaksStayTogether(t *testing.T) {
	s := newSource(40)
	for i := range 20 {
		q := words(i)
		s.play(2*i, "sub-a", 2*i, q, fmt.Sprint("x", i), 1)
		s.play(2*i+1, "sub-b", 2*i+1, "Now "+q+"thanks", fmt.Sprint("y", i), 1) // other task, same words
	}
	_, m := build(t, s, func(c *Config) { c.EvalShare, c.HeldShare = 0.4, 0.1 })
	if len(m.Clusters) != 20 {
		t.Errorf("%d clusters, want 20", len(m.Clusters))
	}
	s = newSource(40)
	for i := range 40 {
		s.play(i, "sub-a", i, words(i), fmt.Sprint("x", i), 1)
	}
	_, m = build(t, s, func(c *Config) {
		c.EvalShare, c.HeldShare = 0.4, 0.1
		c.LeakKeys = func(_ string, t agon.TaskRef) []string { return []string{"product " + t.Key[len(t.Key)-1:]} }
	})
	if len(m.Clusters) != 10 {
		t.Errorf("%d clusters, want 10", len(m.Clusters))
	}
}

func TestContaminationIsReported(t *testing.T) {
	s := newSource(3)
	for i := range 3 {
		s.play(i, "sub-a", i, words(i+1), fmt.Sprint("x", i), 1)
	}
	p := NewPoison()
	if err := p.Add("public-tests.txt", strings.NewReader(words(2)+"\n")); err != nil {
		t.Fatal(err)
	}
	r, m := build(t, s, func(c *Config) { c.Poison = p })
	if r.Rows != 2 || r.Rejected[RejectContaminated] != 1 || len(m.Report.Contamination) != 1 || m.Report.Contamination[0].Cut != 1 {
		t.Errorf("%+v %+v", r, m.Report.Contamination)
	}
	text, err := os.ReadFile(filepath.Join(r.Dir, "report.md"))
	if err != nil || !strings.Contains(string(text), "**public-tests.txt**: 1 rows were cut") {
		t.Errorf("%v\n%s", err, text)
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(atif(f, agent(1, "find_product"), agent(0, pick)))
	f.Add([]byte(`{"schema_version":"ATIF-v1.7","agent":{"name":"a","version":"1"},"steps":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ClassifyFile(b, "", shop)
		if err == nil && (c.Ratio < 0 || c.Ratio > 1 || c.Rejects == nil) {
			t.Fatalf("%+v", c)
		}
	})
}
