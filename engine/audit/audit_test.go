package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/gateway"
)

// leaves is a log's source.
type leaves []translog.Leaf

func (l *leaves) Leaves(_ context.Context, from int64, limit int, _ func(int64) string) ([]translog.Leaf, error) {
	return (*l)[min(from, int64(len(*l))):min(from+int64(limit), int64(len(*l)))], nil
}

func (l *leaves) LeafCount(context.Context) (int64, error) { return int64(len(*l)), nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var printed = agon.Sum([]byte("printed"))

// sample is a bundle of one submission with one run of three calls, signed by a
// real gateway's books and a real log.
func sample(t testing.TB) (b *Bundle, o Options) {
	t.Helper()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "g.db"))
	must(t, err)
	t.Cleanup(func() { st.Close() })
	books, err := gateway.NewBooks(t.Context(), gateway.BooksConfig{Journal: st})
	must(t, err)
	key, err := translog.LoadKey(filepath.Join(dir, "log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
	must(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	run, sub := uuid.NewString(), uuid.NewString()
	task := agon.TaskRef{Key: "small/one", Digest: agon.Sum([]byte("task"))}
	purse, err := books.Purse(t.Context(), run, 1, "agent", agon.Budget{Micros: 1000, Calls: 10})
	must(t, err)
	b = &Bundle{Format: Format, Server: client.Server{Name: "agon", Log: key.Public()}, Proofs: map[string]*client.LogProof{}, Blobs: map[agon.Digest][]byte{}}
	x := Run{Attempt: 1}
	for i, stream := range []bool{false, true, false} {
		req, resp := []byte(`{"messages":[{"role":"user","content":"hello `+strconv.Itoa(i)+`"}]}`), []byte(`{"choices":[{"message":{"content":"said <b> `+strconv.Itoa(i)+`","tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`)
		if stream {
			resp = []byte("data: {\"choices\":[{\"delta\":{\"content\":\"in \"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"parts\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		}
		id := "call-" + strconv.Itoa(i)
		r := &agon.Receipt{
			ID: id, Session: "s", Run: run, Attempt: 1, Task: task.Key, Route: "/v1/chat/completions", Model: "m", Provider: "p",
			RequestHash: agon.Sum(req), ResponseHash: agon.Sum(resp), Prompt: 5, Completion: 7, PriceVersion: "1", Reserved: 20, Status: 200, Outcome: "ok", Start: at, End: at.Add(time.Second), Payer: "run",
		}
		must(t, purse.Reserve(id, gateway.Amount{Micros: 20, Calls: 1}))
		_, err := purse.Settle(t.Context(), id, gateway.Amount{Micros: agon.Micros(10 + i), Calls: 1}, r)
		must(t, err)
		m, ok := gateway.MessageOf(resp, stream, "")
		if !ok {
			t.Fatal("no message")
		}
		data, err := json.Marshal(gateway.ModelCall{
			Receipt: *r, Request: gateway.Body{Text: string(req), Bytes: int64(len(req))}, Response: gateway.Body{Text: string(resp), Bytes: int64(len(resp))},
			Message: &m, Stream: stream, Doubt: "",
		})
		must(t, err)
		x.Events = append(x.Events, agon.Event{Run: run, Attempt: 1, Task: task.Key, Seq: int64(i) + 1, At: at, Type: agon.EventModel, Data: data})
		x.Receipts = append(x.Receipts, *r)
	}
	x.Events = append(x.Events, agon.Event{Run: run, Attempt: 1, Task: task.Key, Seq: 4, At: at, Type: agon.EventPhase, Data: json.RawMessage(`{"phase":"judging","outcome":"ok"}`)})
	must(t, purse.Close(t.Context()))
	seal, err := books.Seal(t.Context(), run, 1)
	must(t, err)
	tree := blob.Manifest{Files: []blob.Entry{{Path: "patch.diff", Mode: "file", Size: 4, Digest: agon.Sum([]byte("diff"))}, {Path: "stdout.txt", Mode: "file", Size: 7, Digest: printed}}}
	raw, err := json.Marshal(tree)
	must(t, err)
	b.Blobs[agon.Sum(raw)], b.Blobs[agon.Sum([]byte("diff"))] = raw, []byte("diff")
	b.Blobs[printed] = []byte("printed")
	score := agon.Score{Run: run, Task: task.Key, Value: 0.75, Metrics: map[string]float64{"passed": 3}, Scorer: "s-1", Detail: "three of four"}
	period := client.SeedPeriod{Arena: "demo", Opens: at, Closes: at.Add(time.Hour), Secret: strings.Repeat("5e", 32)}
	period.Commitment, err = seeds.Commitment(period.Secret)
	must(t, err)
	revealed := at.Add(time.Hour)
	period.RevealedAt = &revealed
	b.Seeds = &period
	beacon := agon.Beacon{Rule: agon.BeaconNone}
	seed, err := seeds.Of(period.Secret, seeds.Source{Arena: "demo", Submission: sub, Task: task.Key})
	must(t, err)
	policy := agon.Policy{Models: []string{"m"}, GatewayKey: books.Signer(), Budget: agon.Budget{Micros: 1000, Calls: 10}}
	x.Run = client.Run{
		Run: agon.Run{
			RunSpec:    agon.RunSpec{Run: run, Arena: "demo", Tasks: []agon.TaskRef{task}, Seed: seed, Policy: policy},
			Submission: sub, State: agon.RunScored, Scores: []agon.Score{score}, CreatedAt: at, EndedAt: at.Add(time.Minute), Attempts: 1,
		},
		List: []agon.Attempt{{
			Run: run, N: 1, Validator: "5Val", State: "done", Driver: agon.Driver{Name: "runc", Version: "1", Limits: []string{"memory"}}, CostMicros: 33, Evidence: agon.Sum(raw),
			Counted: true, LeasedAt: at, LeaseUntil: at.Add(time.Hour), EndedAt: at.Add(time.Minute), BoxMS: 12, Statement: seal, Reason: "why",
		}},
	}
	value, one := 0.75, 1
	b.Arena = client.Arena{Arena: agon.Arena{ID: "demo", Kind: "golf", Netuid: 1, Policy: policy}}
	b.Submission = client.Submission{
		Submission: agon.Submission{ID: sub, Arena: "demo", Miner: "5Miner", Coldkey: "5Cold", Netuid: 1, Name: "fixer", Digest: agon.Sum([]byte("code")), Licence: "MIT", State: agon.SubmissionScored, Seq: 1, CreatedAt: at, Beacon: &beacon},
		Score:      &value, Solved: &one, Total: &one,
		Decision: &agon.Decision{Arena: "demo", Challenger: sub, Score: 0.75, Outcome: agon.TookSeat, Rule: "winner_takes_all", Numbers: map[string]float64{"share": 1}, At: at, Sentence: "made when it is read"},
	}
	b.Runs = []Run{x}

	src := &leaves{}
	l, err := translog.Open(t.Context(), translog.Config{Storage: translog.Dir(filepath.Join(dir, "log")), Source: src, Key: key})
	must(t, err)
	pol, err := json.Marshal(policy)
	must(t, err)
	var head agon.Digest
	for _, e := range x.Events {
		head = translog.HeadOf(head, e)
	}
	res, err := translog.ResultOf(x.Run.RunSpec, agon.Sum(pol), sub, x.Run.List[0], x.Run.Scores, 4, head, x.Receipts)
	must(t, err)
	d := *b.Submission.Decision
	d.Sentence = ""
	for i, f := range []struct {
		typ, id      string
		open, secret any
	}{{translog.TypeSeeds, "demo/0", client.SeedPeriod{Arena: "demo", Opens: at, Closes: at.Add(time.Hour), Commitment: period.Commitment}, nil}, {translog.TypeReveal, "demo/0/secret", period, nil}, {translog.TypeSubmission, sub, nil, translog.SubmissionOf(b.Submission.Submission)}, {translog.TypeResult, run + "/1", nil, res}, {translog.TypeDecision, sub, d, nil}} {
		leaf, err := translog.NewLeaf(translog.Leaf{Index: int64(i), Type: f.typ, ID: f.id, Salt: l.Salt(int64(i))}, "demo", at, f.open, f.secret)
		must(t, err)
		*src = append(*src, leaf)
	}
	c, err := l.Publish(t.Context())
	must(t, err)
	for _, f := range *src {
		p, err := l.Inclusion(f.Index, c)
		must(t, err)
		salt := f.Salt
		if f.Type != translog.TypeSubmission && f.Type != translog.TypeResult {
			salt = ""
		}
		b.Proofs[f.Type+"/"+f.ID] = &client.LogProof{Index: f.Index, Entry: f.Entry, Salt: salt, Hashes: translog.HashTexts(p), Checkpoint: c.Text, Key: key.Public()}
	}
	o = Options{LogKey: key.Public(), Rejudge: func(_ context.Context, _ *Bundle, _ *Run, files map[string][]byte, outcome string) ([]agon.Score, error) {
		if string(files["patch.diff"]) != "diff" || outcome != "ok" {
			return nil, fmt.Errorf("files %q, outcome %q", files, outcome)
		}
		return []agon.Score{score}, nil
	}}
	return b, o
}

func reread(t testing.TB, raw []byte) (*Bundle, error) {
	t.Helper()
	return Read(bytes.NewReader(raw))
}

// A sound bundle is sound after it went over a file.
func TestSound(t *testing.T) {
	b, o := sample(t)
	raw, err := json.Marshal(b)
	must(t, err)
	b, err = reread(t, raw)
	must(t, err)
	r := Check(t.Context(), b, o)
	if !r.OK || len(r.Unchecked) > 0 || len(r.Wrong) > 0 || !r.Trusted() || len(r.Checked) < 10 {
		t.Errorf("%+v", r.Checks)
	}
	o.LogKey, o.Rejudge, o.Why = "", nil, "no boxes here"
	if r = Check(t.Context(), b, o); !r.OK || len(r.Unchecked) != 2 || r.Trusted() {
		t.Errorf("without keys: %+v", r.Unchecked)
	}
}

// free are the fields of a bundle that bind nothing, each with its reason.
var free = map[string]string{
	"server.*": "who said it is known by keys", "submission.findings.*": "remarks, not facts",
	"submission.seq": "order of admission is the order of the log", "submission.scripted": "what receipts say, which are bound",
	"submission.cost_micros": "the sum of what is bound", "submission.qualified": "computed", "submission.excluded_reason": "computed",
	"submission.decision.sentence": "made when it is read", "submission.created": "not a fact",
	"arena.*": "of today: what a run was played by stands in its policy", "runs.*.run.deadline": "of the queue",
	"runs.*.run.attempts": "counted by the reader", "runs.*.run.created_at": "of the queue", "runs.*.run.ended_at": "of the queue", "runs.*.run.reason": "that of the attempt is bound",
	"runs.*.run.list.*.counted": "others may judge again", "runs.*.run.list.*.lease_until": "of the lease",
	"seeds.revealed_at": "when it was shown is of the server", "seeds.unverifiable": "follows from the time", "submission.beacon.hash": "none here",
	"proofs.*.key": "the server's word", "format": "refused when it is read",
}

func isFree(path string) bool {
	if strings.HasPrefix(path, "arena.id") || path == "arena.policy.gateway_key" {
		return false
	}
	for p := range free {
		if p == path || strings.HasSuffix(p, ".*") && strings.HasPrefix(path, strings.TrimSuffix(p, "*")) && !strings.Contains(strings.TrimSuffix(p, ".*"), "*") {
			return true
		}
	}
	return false
}

// Whatever is changed in a bundle is named: each scalar of its JSON, one at a
// time. What may change freely is listed with its reason.
func TestEveryField(t *testing.T) {
	b, o := sample(t)
	raw, err := json.Marshal(b)
	must(t, err)
	var root any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	must(t, d.Decode(&root))
	n, refused := 0, 0
	var walk func(path string, v any, set func(any))
	walk = func(path string, v any, set func(any)) {
		switch x := v.(type) {
		case map[string]any:
			for _, k := range sortedKeys(x) {
				name := k
				switch {
				case path == "proofs" || path == "blobs":
					name = "*"
				}
				walk(strings.TrimPrefix(path+"."+name, "."), x[k], func(y any) { x[k] = y })
			}
			return
		case []any:
			for i := range x {
				walk(path+".*", x[i], func(y any) { x[i] = y })
			}
			return
		}
		if isFree(path) {
			return
		}
		for _, y := range changed(v) {
			set(y)
			out, err := json.Marshal(root)
			must(t, err)
			set(v)
			n++
			c, err := reread(t, out)
			if err != nil {
				refused++
				continue
			}
			if r := Check(t.Context(), c, o); r.OK && len(r.Unchecked) == 0 {
				t.Errorf("%s: %.80v in place of %.80v is not noticed", path, y, v)
			}
		}
	}
	walk("", root, nil)
	if n < 150 {
		t.Errorf("only %d alterations", n)
	}
	t.Logf("%d alterations, %d refused when they are read", n, refused)
}

func sortedKeys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func changed(v any) []any {
	switch x := v.(type) {
	case string:
		if x == "" {
			return []any{"x"}
		}
		at := len(x) - 1
		if _, err := time.Parse(time.RFC3339Nano, x); err == nil {
			at = 3 // another year
		}
		last := byte('0')
		if x[at] == '0' {
			last = '1'
		}
		return []any{x[:at] + string(last) + x[at+1:]}
	case json.Number:
		return []any{numberAfter(x)}
	case bool:
		return []any{!x}
	}
	return nil
}

// numberAfter is a number that is not x.
func numberAfter(x json.Number) json.Number {
	if x == "0" {
		return "1"
	}
	return x + "1"
}

// What is dropped, added, doubled or taken from another run is named.
// Of a run whose server has removed what boxes printed, the score is judged again. Where it
// does not say so, or where what is judged is missing, the score stays open or is wrong.
func TestGoneOutput(t *testing.T) {
	score := func(change func(b *Bundle)) (string, bool) {
		b, o := sample(t)
		change(b)
		r := Check(t.Context(), b, o)
		i := slices.IndexFunc(r.Checks, func(c Line) bool { return c.Name == "score" })
		return r.Checks[i].Status, r.OK
	}
	gone := func(b *Bundle) { b.Runs[0].Run.Gone = []string{agon.GoneOutput} }
	for name, c := range map[string]struct {
		change func(b *Bundle)
		want   string
	}{
		"gone":          {func(b *Bundle) { gone(b); delete(b.Blobs, printed) }, "ok"},
		"gone and here": {gone, "ok"},
		"missing":       {func(b *Bundle) { delete(b.Blobs, printed) }, "warn"},
		"forged":        {func(b *Bundle) { gone(b); b.Blobs[printed] = []byte("another") }, "warn"},
		"the patch too": {func(b *Bundle) { gone(b); delete(b.Blobs, agon.Sum([]byte("diff"))) }, "warn"},
	} {
		if got, ok := score(c.change); got != c.want || !ok {
			t.Errorf("%s: the score is %s (%v), want %s", name, got, ok, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *Bundle)
		wrong  string
	}{
		"the last call dropped, cost lowered": {func(b *Bundle) {
			r := &b.Runs[0]
			r.Events = append(r.Events[:2:2], r.Events[3])
			r.Receipts = r.Receipts[:2]
			r.Run.List[0].CostMicros -= 12
		}, "statement"},
		"all calls dropped": {func(b *Bundle) {
			r := &b.Runs[0]
			r.Events, r.Receipts, r.Run.List[0].CostMicros = r.Events[3:], nil, 0
		}, "statement"},
		"the statement dropped with them": {func(b *Bundle) {
			r := &b.Runs[0]
			r.Events, r.Receipts, r.Run.List[0].CostMicros, r.Run.List[0].Statement = r.Events[3:], nil, 0, nil
		}, "result"},
		"a call doubled":         {func(b *Bundle) { b.Runs[0].Events = append(b.Runs[0].Events, b.Runs[0].Events[0]) }, "bodies"},
		"calls in another order": {func(b *Bundle) { e := b.Runs[0].Events; e[0], e[1] = e[1], e[0] }, "bodies"},
		"a call became a note":   {func(b *Bundle) { b.Runs[0].Events[1].Type = agon.EventNote }, "result"},
		"a score added":          {func(b *Bundle) { b.Runs[0].Run.Scores = append(b.Runs[0].Run.Scores, b.Runs[0].Run.Scores[0]) }, "result"},
		"the message is another": {edit(func(m *gateway.ModelCall) { m.Message.Content = "FORGED" }), "bodies"},
		"a tool call added": {edit(func(m *gateway.ModelCall) {
			m.Message.ToolCalls = append(m.Message.ToolCalls, gateway.ToolCall{ID: "x"})
		}), "bodies"},
		"a doubt added":            {edit(func(m *gateway.ModelCall) { m.Doubt = "forged" }), "result"},
		"money over added":         {edit(func(m *gateway.ModelCall) { m.Over = 7 }), "bodies"},
		"cut and replaced":         {edit(func(m *gateway.ModelCall) { m.Request = gateway.Body{Text: "FORGED", Bytes: 999, Cut: true} }), "result"},
		"the chain of another run": {func(b *Bundle) { foreign(b) }, "statement"},
		"another gateway":          {func(b *Bundle) { b.Runs[0].Run.Policy.GatewayKey, b.Arena.Policy.GatewayKey = "5Other", "5Other" }, "statement"},
		"the decision turned":      {func(b *Bundle) { b.Submission.Decision.Outcome = agon.KeptSeat }, "decision"},
		"a proof taken away":       {func(b *Bundle) { delete(b.Proofs, "result/"+b.Runs[0].Run.RunSpec.Run+"/1") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b, o := sample(t)
			c.change(b)
			r := Check(t.Context(), b, o)
			if c.wrong == "" {
				if !r.OK || len(r.Unchecked) == 0 {
					t.Errorf("%+v", r.Checks)
				}
				return
			}
			if r.OK || !slices.ContainsFunc(r.Wrong, func(w Wrong) bool { return w.What == c.wrong }) {
				t.Errorf("wrong %+v, want %s", r.Wrong, c.wrong)
			}
		})
	}
}

// edit changes the first call.
func edit(f func(m *gateway.ModelCall)) func(b *Bundle) {
	return func(b *Bundle) {
		var m gateway.ModelCall
		e := &b.Runs[0].Events[0]
		if err := json.Unmarshal(e.Data, &m); err != nil {
			panic(err)
		}
		f(&m)
		raw, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		e.Data = raw
	}
}

// foreign gives the run the receipts of another.
func foreign(b *Bundle) {
	for i := range b.Runs[0].Events[:3] {
		var m gateway.ModelCall
		e := &b.Runs[0].Events[i]
		if err := json.Unmarshal(e.Data, &m); err != nil {
			panic(err)
		}
		m.Receipt.Run = uuid.NewString()
		e.Data, _ = json.Marshal(m)
	}
}

// The statement of a decision names the submission's bytes, the evidence and
// the proof; an undecided submission has none.
func TestStatement(t *testing.T) {
	b, _ := sample(t)
	s, err := b.Statement()
	must(t, err)
	p := s.Predicate
	if s.Type != StatementType || s.Subject[0].Digest["sha256"] != b.Submission.Digest.Hex() || !p.Passed || p.Value != 0.75 || p.SampleSize != 1 ||
		len(p.Evidence) != 1 || p.Evidence[0].Tree != b.Runs[0].Run.List[0].Evidence || p.Proof == nil {
		t.Errorf("%+v", s)
	}
	b.Submission.Decision = nil
	if _, err := b.Statement(); err == nil {
		t.Error("an undecided submission has a statement")
	}
}

func FuzzRead(f *testing.F) {
	b, o := sample(f)
	raw, err := json.Marshal(b)
	must(f, err)
	f.Add(raw)
	f.Add([]byte(`{"format":"agon-bundle-1","runs":[{"run":{"list":[{}]}}],"proofs":{"a":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if b, err := Read(bytes.NewReader(raw)); err == nil {
			o.Rejudge = nil
			Check(t.Context(), b, o)
		}
	})
}

// BenchmarkCheck checks a run of 200 calls.
func BenchmarkCheck(b *testing.B) {
	x, o := sample(b)
	o.Rejudge = nil
	r := &x.Runs[0]
	for i := range 197 {
		e := r.Events[0]
		e.Seq = int64(10 + i)
		r.Events = append(r.Events, e)
	}
	for b.Loop() {
		Check(b.Context(), x, o)
	}
}

// The evidence of a decision by pairs is computed again from the pairs: a number
// that they do not give, and a half that was changed, are named.
func TestPairedEvidence(t *testing.T) {
	rule := incentive.Paired()
	numbers := map[string]float64{incentive.NumValidators: 1, incentive.NumAgree: 1, incentive.NumAlpha: 0.05, incentive.NumArenaAlpha: 0.05, incentive.NumEntries: 1, incentive.NumMaxPairs: 40}
	b := &Bundle{Format: Format, Arena: client.Arena{Arena: agon.Arena{ID: "demo", Incentive: incentive.PairedRule, IncentiveNumbers: numbers}}}
	b.Submission = client.Submission{Submission: agon.Submission{ID: "challenger", Arena: "demo"}}
	stream := incentive.Stream{Validator: "5Val"}
	half := func(round, i int, side, of, against string, value float64) client.Run {
		id := fmt.Sprint(side, round, i)
		return client.Run{
			Run: agon.Run{
				RunSpec:    agon.RunSpec{Run: id, Replica: i, Rival: &agon.Rival{Submission: against, Round: round, Side: side}},
				Submission: of, State: agon.RunScored, Scores: []agon.Score{{Run: id, Task: "t", Value: value}},
			},
			List: []agon.Attempt{{Run: id, N: 1, Validator: "5Val", Counted: true}},
		}
	}
	for round := 1; round <= 3; round++ {
		stream.Rounds = append(stream.Rounds, nil)
		for i := range 8 {
			held := float64(i % 8 / 7) // the incumbent solves one of eight
			b.Runs = append(b.Runs, Run{Run: half(round, i, agon.SideChallenger, "challenger", "champion", 1), Attempt: 1})
			b.Rivals = append(b.Rivals, half(round, i, agon.SideIncumbent, "champion", "challenger", held))
			stream.Rounds[round-1] = append(stream.Rounds[round-1], incentive.Pair{Challenger: 1, Incumbent: held})
		}
	}
	v := rule.Pairing.Decide(incentive.Contested{Numbers: rule.Of(numbers), Attempt: 2, Solved: 1, Streams: []incentive.Stream{stream}})
	if v.Outcome != incentive.OutcomeSeated {
		t.Fatalf("the pairs do not seat: %+v", v)
	}
	b.Submission.Decision = &agon.Decision{Arena: "demo", Challenger: "challenger", Incumbent: "champion", Outcome: agon.TookSeat, Rule: incentive.PairedRule, Numbers: v.Numbers}
	says := func() string {
		k := &checker{b: b}
		k.paired(b.Submission.Decision)
		switch {
		case len(k.Wrong) > 0:
			return "wrong " + k.Wrong[0].What
		case slices.Contains(k.Checked, "evidence"):
			return "checked"
		}
		return fmt.Sprint(k.Unchecked)
	}
	if got := says(); got != "checked" {
		t.Fatalf("sound pairs: %s", got)
	}
	for name := range v.Numbers {
		if slices.Contains([]string{"cost_usd", "max_usd", "outcome", "attempt"}, name) {
			continue
		}
		old := v.Numbers[name]
		v.Numbers[name] = old + 0.25
		if got := says(); got != "wrong evidence" {
			t.Errorf("%s changed: %s", name, got)
		}
		v.Numbers[name] = old
	}
	b.Rivals[3].Scores[0].Value = 0.5
	if got := says(); got != "wrong evidence" {
		t.Errorf("a half changed: %s", got)
	}
	b.Rivals[3].Scores[0].Value = 0
	b.Rivals = b.Rivals[:4]
	if got := says(); got != "wrong evidence" {
		t.Errorf("halves left out: %s", got)
	}
	b.Rivals = nil
	if got := says(); strings.HasPrefix(got, "wrong") || got == "checked" {
		t.Errorf("no halves of the incumbent: %s", got)
	}
}
