package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

// 64 callers spend one budget over HTTP against a provider that bills what it likes.
func Test64CallersNeverOverspend(t *testing.T) {
	var billed, n atomic.Int64
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		rnd := rand.New(rand.NewPCG(uint64(n.Add(1)), 9))
		in, out := rnd.Int64N(200), rnd.Int64N(600)
		billed.Add(in + 2*out)
		if strings.Contains(string(b), `"stream":true`) {
			streams(false, chunk("x"), finishChunk, fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", in, out), doneChunk)(w, r)
			return
		}
		says(fmt.Sprintf(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, in, out))(w, r)
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}})
	p := policy("m")
	p.Budget = agon.Budget{Micros: 60_013, Calls: 10_000}
	var l log
	s := open(t, g, p, &l)
	var refused, served atomic.Int64
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := range 8 {
				body := hello
				switch (w + i) % 4 {
				case 1:
					body = helloStream
				case 2:
					body = strings.Replace(hello, `{`, `{"max_tokens":300,`, 1)
				}
				r := post(t, s, chatPath, body)
				switch r.status {
				case 200:
					served.Add(1)
				case 429:
					refused.Add(1)
					var e struct {
						Error struct {
							Type, Code string
							Remaining  *int64 `json:"remaining_micros"`
						}
					}
					if json.Unmarshal([]byte(r.body), &e) != nil || e.Error.Code != "budget_exceeded" || e.Error.Type != "budget_exceeded" || e.Error.Remaining == nil || *e.Error.Remaining < 0 {
						t.Errorf("refusal %s", r.body)
					}
				default:
					t.Errorf("reply %d %s", r.status, r.body)
				}
				if s.Spent() > p.Budget.Micros {
					t.Errorf("spent %d of %d", s.Spent(), p.Budget.Micros)
				}
			}
		})
	}
	wg.Wait()
	var sum, over agon.Micros
	for _, x := range s.Receipts() {
		if x.Cost < 0 || x.Cost > x.Reserved {
			t.Errorf("receipt %+v", x)
		}
		sum += x.Cost
	}
	for _, e := range l.of(agon.EventModel) {
		over += e.(ModelCall).Over
	}
	if sum != s.Spent() || sum > p.Budget.Micros || served.Load() == 0 || refused.Load() == 0 || int64(len(s.Receipts())) != served.Load() {
		t.Errorf("receipts sum to %d, spent %d, served %d, refused %d", sum, s.Spent(), served.Load(), refused.Load())
	}
	if int64(sum+over) != billed.Load() {
		t.Errorf("run %d and platform %d, but the provider billed %d", sum, over, billed.Load())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(l.of(agon.EventRefused)); n > maxRefusals {
		t.Errorf("%d refusals recorded", n)
	}
	t.Logf("served %d, refused %d, spent %d, over %d", served.Load(), refused.Load(), sum, over)
}

func TestOutputLimitFitsBudget(t *testing.T) {
	var got atomic.Value
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got.Store(string(b))
		says(answerJSON)(w, r)
	})
	for _, c := range []struct {
		name   string
		micros agon.Micros
		calls  int64
		tokens int64
		body   string
		want   string // limit that the upstream sees; empty: refused
	}{
		{"model's maximum", 1_000_000, 9, 0, hello, `"max_tokens":1000`},
		{"client's", 1_000_000, 9, 0, strings.Replace(hello, "{", `{"max_completion_tokens":77,`, 1), `"max_tokens":77`},
		{"client's above the maximum", 1_000_000, 9, 0, strings.Replace(hello, "{", `{"max_tokens":70000,`, 1), `"max_tokens":1000`},
		{"client's beyond the budget", 500, 9, 0, strings.Replace(hello, "{", `{"max_tokens":900,`, 1), ""},
		{"lowered to the money", 500, 9, 0, hello, `"max_tokens":2`},
		{"lowered to the tokens", 1_000_000, 9, 200, hello, `"max_tokens":1`},
		{"too little money", 40, 9, 0, hello, ""},
		{"no money", 0, 9, 0, hello, ""},
		{"no calls", 1_000_000, 0, 0, hello, ""},
		{"too few tokens", 1_000_000, 9, 20, hello, ""},
	} {
		g := start(t, Config{Upstreams: []provider.Upstream{u}})
		p := policy("m")
		p.Budget = agon.Budget{Micros: c.micros, Calls: c.calls, Tokens: c.tokens}
		s := open(t, g, p, nil)
		got.Store("")
		r := post(t, s, chatPath, c.body)
		sent := got.Load().(string)
		if c.want == "" {
			if r.status != 429 || sent != "" || !strings.Contains(r.body, fmt.Sprintf(`"remaining_micros":%d`, c.micros)) {
				t.Errorf("%s: %d %s, upstream got %s", c.name, r.status, r.body, sent)
			}
			told := post(t, s, "/words/chat", `{"say":"`+strings.Repeat("some words ", 30)+`"}`)
			if told.status != 200 || !strings.HasPrefix(told.body, `"sorry: budget_exceeded for want of `) {
				t.Errorf("%s: in words: %d %s", c.name, told.status, told.body)
			}
			continue
		}
		if r.status != 200 || !strings.Contains(sent, c.want) {
			t.Errorf("%s: %d %s, upstream got %s", c.name, r.status, r.body, sent)
		}
		if x := s.Receipts()[0]; x.Reserved > c.micros {
			t.Errorf("%s: receipt %+v", c.name, x)
		}
	}
}

// A free model is limited by calls alone.
func TestCallBudget(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{scripted.New(nil)}})
	p := policy("scripted")
	p.Budget = agon.Budget{Calls: 2}
	s := open(t, g, p, nil)
	body := `{"messages":[{"role":"user","content":"x"}]}`
	for i, want := range []int{200, 200, 429} {
		if r := post(t, s, chatPath, body); r.status != want {
			t.Errorf("call %d: %d %s", i, r.status, r.body)
		}
	}
}

func TestEmbeddings(t *testing.T) {
	g := start(t, Config{Upstreams: []provider.Upstream{scripted.New(nil)}})
	s := open(t, g, policy("*"), nil)
	r1 := post(t, s, "/v1/embeddings", `{"model":"scripted","input":"a"}`)
	r2 := post(t, s, "/v1/embeddings", `{"model":"scripted","input":["a","b"]}`)
	var a, b struct {
		Data []struct{ Embedding []float64 }
	}
	if json.Unmarshal([]byte(r1.body), &a) != nil || json.Unmarshal([]byte(r2.body), &b) != nil || len(b.Data) != 2 ||
		fmt.Sprint(a.Data[0]) != fmt.Sprint(b.Data[0]) || fmt.Sprint(b.Data[0]) == fmt.Sprint(b.Data[1]) {
		t.Errorf("%s\n%s", r1.body, r2.body)
	}
	priced := start(t, Config{Upstreams: []provider.Upstream{upstream(t, says(`{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}`))}})
	s = open(t, priced, policy("m"), nil)
	post(t, s, "/v1/embeddings", `{"model":"m","input":"a"}`)
	if x := s.Receipts()[0]; x.Cost != 4 || x.Prompt != 4 || x.Estimated {
		t.Errorf("receipt %+v", x)
	}
}

// A model is offered only with a price, an upstream and the policy's leave.
func TestModels(t *testing.T) {
	u := upstream(t, says(answerJSON), func(c *openaiConfig) { c.Models = []string{"m", "priceless", "gpt-4o"} })
	g := start(t, Config{Upstreams: []provider.Upstream{u, scripted.New(nil)}})
	for _, c := range []struct {
		allow []string
		want  string
	}{
		{[]string{"*"}, `m gpt-4o scripted`},
		{[]string{"gpt-4o", "gpt-4.1", "priceless"}, `gpt-4o`},
		{nil, ``},
	} {
		s := open(t, g, policy(c.allow...), nil)
		r := send(t, s, "GET", "/v1/models", "", "")
		var l struct {
			Data []struct{ ID string }
		}
		if err := json.Unmarshal([]byte(r.body), &l); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, d := range l.Data {
			ids = append(ids, d.ID)
		}
		if strings.Join(ids, " ") != c.want {
			t.Errorf("%v: %v", c.allow, ids)
		}
		if r := post(t, s, chatPath, strings.Replace(hello, `"m"`, `"priceless"`, 1)); r.status != 404 {
			t.Errorf("priceless: %d", r.status)
		}
	}
	if fmt.Sprint(g.Models()) != "[m gpt-4o scripted]" {
		t.Errorf("models %v", g.Models())
	}
}

func TestLargeBodies(t *testing.T) {
	big := strings.Repeat("word ", 60_000)
	u := upstream(t, says(strings.Replace(answerJSON, "hi", big, 1)))
	g := start(t, Config{Upstreams: []provider.Upstream{u}, KeepBytes: 500_000})
	var l log
	p := policy("m")
	p.Budget = agon.Budget{Micros: 1_000_000_000, Calls: 100}
	s := open(t, g, p, &l)
	for range 2 {
		if r := post(t, s, chatPath, strings.Replace(hello, "hello", big, 1)); r.status != 200 {
			t.Fatalf("%d %.200s", r.status, r.body)
		}
	}
	evs := l.of(agon.EventModel)
	one, two := evs[0].(ModelCall), evs[1].(ModelCall)
	if one.Request.Cut || one.Response.Cut || !two.Request.Cut || !two.Response.Cut || len(two.Response.Text) > keepSmall || two.Response.Bytes != one.Response.Bytes ||
		one.Receipt.ResponseHash != two.Receipt.ResponseHash {
		t.Errorf("kept %d %d, then %d %d", len(one.Request.Text), len(one.Response.Text), len(two.Request.Text), len(two.Response.Text))
	}
	for _, c := range []struct {
		body string
		want int
	}{
		{strings.Replace(hello, "hello", strings.Repeat("x", maxBody), 1), 413},
		{strings.Repeat("[", maxBody), 400},
	} {
		if r := post(t, s, chatPath, c.body); r.status != c.want {
			t.Errorf("%d %.200s, want %d", r.status, r.body, c.want)
		}
	}
	if r := post(t, s, "/words/chat", strings.Repeat(" ", maxBody+1)); r.status != 413 || r.body != `"sorry: too_large"` {
		t.Errorf("in words: %d %s", r.status, r.body)
	}
}

// Whatever the bodies hold, the event fits into what a platform stores of one.
func TestEventsFit(t *testing.T) {
	for _, unit := range []string{"x", "<\x00", "\u2028", "\xff", "é<\"\\\U0001f600"} {
		for _, n := range []struct{ message, request, response int }{
			{0, 0, 0}, {100, 100, 100}, {1 << 20, 0, 0}, {100 << 10, 1 << 20, 1 << 20}, {1, 1 << 20, 100}, {1, 100, 1 << 20}, {60 << 10, 300 << 10, 100 << 10},
		} {
			of := func(n int) string { return strings.Repeat(unit, n/len(unit)) }
			m := ModelCall{Message: &Message{Content: strings.ReplaceAll(of(n.message), "\xff", "\ufffd")}}
			rq, rs := []byte(of(n.request)), []byte(of(n.response))
			size := m.keep(rq, rs, int64(len(rs)), false)
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > maxEvent || int64(len(b)) > size+headEvent {
				t.Errorf("%q %v: event of %d bytes, counted %d", unit, n, len(b), size)
			}
			if !m.Request.Cut && m.Request.Text+string(m.Request.Base64) != string(rq) || m.Request.Bytes != int64(len(rq)) ||
				!strings.HasPrefix(string(rs), m.Response.Text+string(m.Response.Base64)) {
				t.Errorf("%q %v: request %d of %d, response %d", unit, n, len(m.Request.Text), len(rq), len(m.Response.Text))
			}
			if n.request+n.response < 1000 && (m.Request.Cut || m.Response.Cut) {
				t.Errorf("%q %v: cut", unit, n)
			}
		}
	}
}
