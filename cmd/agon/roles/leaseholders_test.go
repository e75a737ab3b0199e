package roles

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds"
)

// A lease holder gets the sessions of its own attempt, in the dialects of the
// arena's kind, with the arena's money, whatever else it asks for.
func TestLeaseHoldersAsk(t *testing.T) {
	const mine, other = "5Mine", "5Other"
	budget := agon.Budget{Micros: 1000, Calls: 3}
	run := client.Run{List: []agon.Attempt{
		{N: 1, Validator: mine, State: string(agon.RunFailed)},
		{N: 2, Validator: mine, State: string(agon.RunPlaying)},
	}}
	run.Arena, run.Tasks = "code", []agon.TaskRef{{Key: "set/a"}}
	run.Policy = agon.Policy{Models: []string{"m"}, Budget: budget, Tools: []string{"find"}}
	mux := http.NewServeMux()
	reply := func(at string, v any) {
		mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(v); err != nil {
				t.Error(err)
			}
		})
	}
	reply("/v1/runs/r", run)
	reply("/v1/arenas/code", client.Arena{Arena: agon.Arena{ID: "code", Kind: "coding"}})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c, err := client.New(srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := leaseholders{platform: c, kits: kinds.All()}

	ask := func(change func(*gateway.Policy)) gateway.Policy {
		p := gateway.Policy{
			Run: "r", Attempt: 2, Task: "set/a", Payer: gateway.PayerRun, Dialects: []string{gateway.DialectOpenAI},
			Models: []string{"*"}, Tools: []string{"*"}, Budget: agon.Budget{Micros: 1 << 50, Calls: 1 << 50},
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	for name, x := range map[string]struct {
		hotkey string
		change func(*gateway.Policy)
		status int // 0: a session
	}{
		"its own":                  {mine, nil, 0},
		"payer of nobody":          {mine, func(p *gateway.Policy) { p.Payer = "x" }, 422},
		"another's attempt":        {other, nil, 403},
		"an attempt that ended":    {mine, func(p *gateway.Policy) { p.Attempt = 1 }, 403},
		"no such attempt":          {mine, func(p *gateway.Policy) { p.Attempt = 9 }, 403},
		"another run":              {mine, func(p *gateway.Policy) { p.Run = "q" }, 403},
		"another task":             {mine, func(p *gateway.Policy) { p.Task = "set/b" }, 403},
		"its kind's dialect":       {mine, func(p *gateway.Policy) { p.Dialects = []string{"ridges-a0"} }, 0},
		"another kind's dialect":   {mine, func(p *gateway.Policy) { p.Dialects = []string{"openai", "oro"} }, 403},
		"a dialect of no kind":     {mine, func(p *gateway.Policy) { p.Dialects = []string{"soap"} }, 403},
		"a judge of its own money": {mine, func(p *gateway.Policy) { p.Payer = gateway.PayerJudge }, 403},
	} {
		got, err := l.authorize(t.Context(), x.hotkey, ask(x.change))
		var e *agon.Error
		if x.status != 0 {
			if !errors.As(err, &e) || e.Status != x.status {
				t.Errorf("%s: %v, want status %d", name, err, x.status)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Budget != budget || !slices.Equal(got.Models, []string{"m"}) || !slices.Equal(got.Tools, []string{"find"}) {
			t.Errorf("%s: the holder's word counts: %+v", name, got)
		}
	}
}
