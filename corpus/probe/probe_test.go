package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
)

// memory is a door that is scripted: it knows some texts by heart and finds all others
// equally likely, with noise that depends on the text alone.
type memory struct {
	known  []string
	silent bool // it tells no log-probabilities
	chat   bool // it has /chat/completions only
	babble string
	asked  atomic.Int64
}

func (m *memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.asked.Add(1)
	var q struct {
		Prompt   string
		Messages []struct{ Content string }
		Echo     bool
		N        int
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/chat/completions") != m.chat {
		http.NotFound(w, r)
		return
	}
	if m.chat {
		_, q.Prompt, _ = strings.Cut(q.Messages[0].Content, "\n\n")
	}
	if q.Echo && m.silent {
		http.Error(w, `{"error":"echo is not supported"}`, http.StatusBadRequest)
		return
	}
	var choices []any
	if q.Echo {
		words := strings.SplitAfter(q.Prompt, " ")
		var each []any
		var offsets []int
		at := 0
		for i, x := range words {
			h := uint64(14695981039346656037)
			for _, c := range x {
				h = (h ^ uint64(c)) * 1099511628211
			}
			p := -3 - float64(h%1000)/1000
			for _, k := range m.known {
				if strings.Contains(k, strings.TrimSpace(x)) && len(x) > 6 {
					p = -.2
				}
			}
			if offsets = append(offsets, at); i == 0 {
				each = append(each, nil)
			} else {
				each = append(each, p)
			}
			at += len([]rune(x))
		}
		choices = append(choices, map[string]any{"text": q.Prompt + "!", "logprobs": map[string]any{"token_logprobs": append(each, -9.0), "text_offset": append(offsets, at)}})
	} else {
		text := " " + m.babble
		for _, k := range m.known {
			if i := strings.Index(k, strings.TrimSpace(q.Prompt)); i >= 0 && strings.TrimSpace(q.Prompt) != "" {
				text = k[i+len(strings.TrimSpace(q.Prompt)):]
			}
		}
		for range max(1, q.N) {
			if m.chat {
				choices = append(choices, map[string]any{"message": map[string]any{"role": "assistant", "content": text}})
			} else {
				choices = append(choices, map[string]any{"text": text})
			}
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": choices})
}

func door(t *testing.T, h http.Handler) *Door {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	d, err := NewDoor(s.URL+"/v1/", "m")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tasks are texts of words that nothing else has.
func tasks(side string, n int) (out []Text) {
	r := rand.New(rand.NewPCG(uint64(len(side)), 7))
	for i := range n {
		var words []string
		for range 20 {
			words = append(words, fmt.Sprintf("%x", r.Uint64()))
		}
		out = append(out, Text{Task: fmt.Sprintf("%s/%d", side, i), Text: strings.Join(words, " ")})
	}
	return out
}

func texts(list []Text) (out []string) {
	for _, t := range list {
		out = append(out, t.Text)
	}
	return out
}

const mark = "0b1d3f55-aaaa-4bbb-8ccc-123456789abc"

func TestAudit(t *testing.T) {
	held, public := tasks("held", 20), tasks("public", 20)
	marked := append([]Text(nil), held...)
	for i := range 8 {
		marked[i].Canaries = canariesIn(fmt.Sprintf("data of task %d, canary GUID %s%d", i, mark[:len(mark)-1], i))
	}
	for _, c := range []struct {
		name   string
		door   *memory
		cfg    Config
		method string
		caught bool
	}{
		{"knows nothing", &memory{}, Config{Held: held, Public: public}, "logprobs", false},
		{"knows the public ones", &memory{known: texts(public)}, Config{Held: held, Public: public}, "logprobs", false},
		{"knows the held ones", &memory{known: texts(held)}, Config{Held: held, Public: public}, "logprobs", true},
		{"knows them and tells no log-probabilities", &memory{known: texts(held), silent: true}, Config{Held: held, Public: public}, "samples", true},
		{"knows them and talks in messages only", &memory{known: texts(held), chat: true}, Config{Held: held, Public: public}, "samples", true},
		{"knows nothing and tells nothing", &memory{silent: true}, Config{Held: held, Public: public}, "samples", false},
		{"says a canary unasked", &memory{babble: "as in " + strings.ToUpper(mark)}, Config{Held: held, Public: public, Canaries: []string{mark}}, "logprobs", true},
		{"knows both, and its canaries", &memory{known: append(append(texts(public), texts(held)...), canaryTexts(marked)...)}, Config{Held: marked, Public: public}, "logprobs", true},
		{"knows no canary", &memory{}, Config{Held: marked, Public: public}, "logprobs", false},
		{"too few to test", &memory{known: texts(held)}, Config{Held: held[:4], Public: public}, "logprobs", false},
	} {
		c.cfg.Door, c.cfg.Samples = door(t, c.door), 2
		r, err := Audit(t.Context(), c.cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if r.Caught != c.caught || r.Method != c.method || (r.P == nil) != (len(c.cfg.Held) < least) || len(r.Why) == 0 && (r.Caught || r.Canaries == 0) {
			t.Errorf("%s: %+v", c.name, r)
		}
		if c.name == "knows both, and its canaries" && (len(r.Found) != 8 || r.Ranked != 8 || r.RankP == nil || *r.RankP > .001) {
			t.Errorf("%s: %+v", c.name, r)
		}
		if c.name == "knows no canary" && (r.RankP == nil || *r.RankP < .001 || len(r.Found) > 0) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

func canaryTexts(list []Text) (out []string) {
	for _, x := range list {
		for _, c := range x.Canaries {
			out = append(out, c.Before+c.Mark)
		}
	}
	return out
}

// A reference that finds the held texts as easy as the model does clears it: they are easy.
func TestReference(t *testing.T) {
	held, public := tasks("held", 20), tasks("public", 20)
	easy := &memory{known: texts(held)}
	r, err := Audit(t.Context(), Config{Door: door(t, easy), Reference: door(t, easy), Held: held, Public: public, Samples: 1, Canaries: []string{mark}})
	if err != nil || r.Method != "logprobs" || *r.P < .1 || r.MeanHeld != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// Held tasks are sent to this machine only, and a door that lies or floods is refused.
func TestDoors(t *testing.T) {
	for _, at := range []string{"http://192.0.2.7:80/v1", "http://models.example/v1", "https://10.0.0.1/v1"} {
		var e *agon.Error
		if _, err := NewDoor(at, "m"); !errors.As(err, &e) || e.Code != "not_local" {
			t.Errorf("%s: %v", at, err)
		}
	}
	held := tasks("held", 9)
	for name, h := range map[string]http.Handler{
		"redirects": http.RedirectHandler("http://192.0.2.7/v1/completions", http.StatusTemporaryRedirect),
		"floods": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			b := []byte(strings.Repeat("x", 1<<20))
			for range 17 {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}),
		"no JSON": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }),
		"a log-probability above 0": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"choices":[{"text":"a","logprobs":{"token_logprobs":[null,1.5],"text_offset":[0,2]}}]}`)
		}),
		"nothing": http.NotFoundHandler(),
	} {
		var e *agon.Error
		if _, err := Audit(t.Context(), Config{Door: door(t, h), Held: held, Public: tasks("public", 9), Samples: 1}); !errors.As(err, &e) || e.Code != "bad_model" {
			t.Errorf("%s: %v", name, err)
		}
	}
	var e *agon.Error
	if _, err := Audit(t.Context(), Config{Door: door(t, &memory{}), Held: held, Public: held}); !errors.As(err, &e) || e.Field != "public" {
		t.Errorf("the same tasks on both sides: %v", err)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/one/instruction.md": "Mend the bug in the parser of dates today.", "a/one/tests/t.py": "# canary GUID " + mark + "\n", "a/two/instruction.md": "Short.",
		"rows.jsonl": `{"task":"x","prompt":"one two"}` + "\n\n" + `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}` + "\n",
		"bad.jsonl":  "{",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(filepath.Join(dir, "a"))
	if err != nil || len(got) != 2 || got[0].Task != "one" || len(got[0].Canaries) != 1 || got[0].Canaries[0] != (Canary{mark, "# canary GUID "}) {
		t.Errorf("%+v %v", got, err)
	}
	got, err = Read(filepath.Join(dir, "rows.jsonl"))
	if err != nil || len(got) != 2 || got[0].Task != "x" || got[0].Text != "one two" || got[1].Text != "u" || got[1].Task != "line 3" {
		t.Errorf("%+v %v", got, err)
	}
	for _, p := range []string{"bad.jsonl", "none"} {
		var e *agon.Error
		if _, err := Read(filepath.Join(dir, p)); !errors.As(err, &e) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// The tests of an audit are level: of models that know nothing, few are caught.
func TestLevel(t *testing.T) {
	r := &run{rng: rand.New(rand.NewPCG(1, 2))}
	if p := chi2(2*math.Log(100)*3, 3); math.Abs(p-.0001125) > 2e-5 { // three p-values of 0.01 each
		t.Errorf("Fisher's sum: %v", p)
	}
	low := 0
	for range 40 {
		var a, b []float64
		for range 10 {
			a, b = append(a, r.rng.NormFloat64()), append(b, r.rng.NormFloat64())
		}
		if p := r.permuted(a, b); p < .05 {
			low++
		}
	}
	if low > 8 {
		t.Errorf("%d of 40 below 0.05 by chance", low)
	}
	if p := r.permuted([]float64{1, 1, 1}, []float64{1, 1, 1}); p != 1 {
		t.Errorf("no difference: %v", p)
	}
}
