package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus/corpustest"
)

// A log that ends at any byte gives a row of what is whole, or a reason; never
// a row of half an event, and never a panic.
func TestLogCutAtAnyByte(t *testing.T) {
	s := corpustest.Source{Problems: 1, Agents: 1, Steps: 3, Words: 4, Wild: true}
	events, err := s.Events(t.Context(), corpustest.ID(0), 1, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	var log []byte
	whole := map[int]int{} // bytes of the log -> events in them
	for i, e := range events {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		log = append(append(log, b...), '\n')
		whole[len(log)-1] = i + 1
	}
	reasons := map[string]int{}
	n := 0
	for at := range len(log) + 1 {
		if w, ok := whole[at]; ok {
			n = w
		}
		var got []agon.Event
		for l := range bytes.Lines(log[:at]) {
			var e agon.Event
			if json.Unmarshal(l, &e) == nil {
				got = append(got, e)
			}
		}
		if len(got) != n {
			t.Fatalf("cut at %d: %d events, want %d", at, len(got), n)
		}
		out := NewFilter().Run("golf", got)
		if (out.Reason == RejectCut) != (n == 0) {
			t.Fatalf("cut at %d: %+v of %d events", at, out, n)
		}
		// The data of the last event cut, as a store that lost its end would give it.
		if k := at - (len(log) - len(events[len(events)-1].Data)); k > 0 && k < len(events[len(events)-1].Data) {
			last := events[len(events)-1]
			last.Data = last.Data[:k]
			out = NewFilter().Run("golf", append(append([]agon.Event{}, events[:2]...), last))
		}
		reasons[out.Reason]++
	}
	if reasons[RejectCut] == 0 || reasons[""] == 0 || len(reasons) > 3 {
		t.Errorf("%v", reasons)
	}
}

// planted is a secret that no file of a corpus may hold.
const planted = "sk-plantedPLANTEDplanted"

// secrets hands out runs in whose every field that a contestant writes a secret stands.
type secrets struct{ corpustest.Source }

func (s secrets) Submission(ctx context.Context, id string) (*client.Submission, error) {
	x, err := s.Source.Submission(ctx, id)
	x.Licence = "MIT " + planted + "L"
	return x, err
}

func (s secrets) Run(ctx context.Context, id string) (*client.Run, error) {
	r, err := s.Source.Run(ctx, id)
	r.Scores[0].Metrics = map[string]float64{planted + "K": 1}
	r.Scores[0].Scorer += " " + planted + "S"
	r.List[0].Validator += " " + planted + "V"
	return r, err
}

func (s secrets) Events(ctx context.Context, run string, at int, seq int64, limit int) ([]agon.Event, error) {
	list, err := s.Source.Events(ctx, run, at, seq, limit)
	for i, e := range list {
		d := string(e.Data)
		for n, old := range []string{
			`Problem `, `You mend programs.`, `Step `, `I think of `, `call_0`, `call_1`, `call_2`, `read_file`, `"model":"synth"`, `\"model\":\"synth\"`, `.py`, `Reads a file.`, `naïve`, `\"path\"`,
		} {
			plant := planted + string(rune('a'+n))
			with := old + " " + plant + " "
			switch old {
			case `call_0`, `call_1`, `call_2`, `read_file`:
				with = plant + old
			case `"model":"synth"`:
				with = `"model":"` + plant + `"`
			case `\"model\":\"synth\"`:
				with = `\"model\":\"` + plant + `\"`
			case `.py`:
				with = "/" + plant + old
			case `\"path\"`:
				with = `\"` + plant + `\"`
			}
			d = strings.ReplaceAll(d, old, with)
		}
		if !json.Valid([]byte(d)) {
			return nil, fmt.Errorf("the plant broke event %d", i)
		}
		list[i].Data = json.RawMessage(d)
	}
	return list, err
}

func TestSecretsInEveryField(t *testing.T) {
	s := secrets{corpustest.Source{Problems: 8, Agents: 4, Steps: 4, Words: 6, Wild: true}}
	r, err := Build(t.Context(), Config{Source: s, Out: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 32 || m.Report.Scrubbed["api_key"] < 10*r.Rows {
		t.Errorf("%d rows, rejected %v, scrubbed %v", r.Rows, r.Rejected, m.Report.Scrubbed)
	}
	err = filepath.WalkDir(r.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if i := bytes.Index(b, []byte(planted)); i >= 0 { // Parquet is compressed; its rows are those of trl_sft
			t.Errorf("%s: …%s…", d.Name(), b[max(0, i-60):min(len(b), i+40)])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if v, err := Verify(r.Dir, nil); err != nil || len(v.Problems) > 0 {
		t.Errorf("%v %v", v, err)
	}
}

// A list of many megabytes is read in bounded memory.
func TestPoisonListIsBounded(t *testing.T) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var list bytes.Buffer
	lines := 0
	for list.Len() < 8<<20 {
		list.WriteString("question " + strconv.Itoa(lines) + " asks for a thing of the kind " + strconv.Itoa(lines*7) + " in the colour number " + strconv.Itoa(lines*13) + " under a price that is fair\n")
		lines++
	}
	size := list.Len()
	began := time.Now()
	p := NewPoison()
	if err := p.Add("big", &list); err != nil {
		t.Fatal(err)
	}
	list = bytes.Buffer{}
	h, ok := p.Find([]string{"I ask: question 77 asks for a thing of the kind 539 in the colour number 1001 under a price that is fair, please"}, nil)
	if !ok || h.How != "ngram" {
		t.Errorf("%+v %v", h, ok)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MB in %s, %d MB kept", size>>20, time.Since(began).Round(time.Millisecond), grown>>20)
	if grown > 5*int64(size) {
		t.Errorf("a list of %d bytes takes %d", size, grown)
	}
	runtime.KeepAlive(p)
}

// The tokenizer's time must not grow with the square of a run without a break.
func TestTokensOfUnbrokenText(t *testing.T) {
	for _, s := range []string{"a", "=", " ", "漢", "é"} {
		long := strings.Repeat(s, 60_000/len(s))
		began := time.Now()
		n := Tokens(long)
		took := time.Since(began)
		t.Logf("%q: %d tokens in %s", s, n, took)
		if took > 30*time.Second {
			t.Errorf("%q: %s", s, took)
		}
		if n == 0 || n > len(long) {
			t.Errorf("%q: %d tokens of %d bytes", s, n, len(long))
		}
	}
	text := strings.Repeat("A plain sentence, 12345 times; naïve 日本語 {\"a\": [1, 2]}\n\n", 40)
	enc, err := encoding()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := enc.Count(text); err != nil || Tokens(text) != want {
		t.Errorf("%d tokens, want %d (%v)", Tokens(text), want, err)
	}
}

func TestGroupsAndSteps(t *testing.T) {
	r, err := Build(t.Context(), Config{Source: corpustest.Source{Problems: 6, Agents: 4, Steps: 4, Words: 6}, Out: filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Sample(r.Dir, 1000)
	if err != nil || len(rows) == 0 {
		t.Fatal(len(rows), err)
	}
	for _, x := range rows {
		if x.Group == nil || x.Group.Size != 4 || x.Group.Mean != 0.5 || x.Group.Std != 0.5 {
			t.Errorf("%s: group %+v", x.ID, x.Group)
		}
		if x.Reward.Judge != nil {
			t.Errorf("%s: a judge that never spoke has said %v", x.ID, *x.Reward.Judge)
		}
		for i, s := range x.Steps {
			call := len(x.Messages[s.Step].ToolCalls) > 0
			if s.Cost == nil || *s.Cost != 10 || s.Receipt == "" || (s.Reward != nil) != call {
				t.Errorf("%s, step %d: %+v", x.ID, i, s)
			}
			if call && (*s.Reward < -3 || *s.Reward > 3) {
				t.Errorf("%s, step %d: reward %v", x.ID, i, *s.Reward)
			}
		}
	}
	call := func(name, args string) []parsedCall {
		return parseCalls([]ToolCall{{Function: Function{name, args}}})
	}
	for _, c := range []struct {
		got, want string
		v         float64
	}{
		{`{"a":1,"b":"x"}`, `{"b":"x", "a":1}`, 3}, {`{"c":2}`, `{"a":1}`, -3 + 6./3}, {`{"a":2}`, `{"a":1}`, -3 + 6*2./3}, {`no JSON`, `{}`, 3},
	} {
		if v := toolMatch(call("f", c.got), call("f", c.want)); v < c.v-1e-9 || v > c.v+1e-9 {
			t.Errorf("%s for %s: %v, want %v", c.got, c.want, v, c.v)
		}
	}
	if v := toolMatch(call("g", `{"a":1}`), call("f", `{"a":1}`)); v != -3 {
		t.Errorf("another tool: %v", v)
	}
}
