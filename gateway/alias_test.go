package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
)

// A call by another name reaches the model that the name stands for, and costs what
// the name costs.
func TestAliases(t *testing.T) {
	asked := make(chan string, 10)
	g := gatewaytest.Start(t, gateway.Config{}, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked <- string(b)
		gatewaytest.Says(gatewaytest.Answer)(w, r)
	})
	three, seven := int64(3_000_000), int64(7_000_000)
	p := gatewaytest.Policy(gateway.DialectOpenAI)
	p.Models = []string{gatewaytest.Model}
	p.Aliases = []agon.Alias{
		{Name: "deepseek-ai/DeepSeek-V3", In: &three, Out: &seven},
		{Name: "free", Model: gatewaytest.Model, In: new(int64), Out: new(int64)},
		{Name: "same", Model: gatewaytest.Model},
		{Name: "gone", Model: "no such model"},
	}
	s := gatewaytest.Open(t, g, p, nil)
	for _, c := range []struct {
		model string
		cost  agon.Micros // of 10 tokens in and 5 out
	}{{gatewaytest.Model, 20}, {"deepseek-ai/DeepSeek-V3", 65}, {"free", 0}, {"same", 20}} {
		got := gatewaytest.Post(t, s, "/v1/chat/completions", `{"model":"`+c.model+`","messages":[{"role":"user","content":"x"}],"max_tokens":10}`)
		if got.Status != 200 || got.Body != gatewaytest.Answer {
			t.Fatalf("%s: %+v", c.model, got)
		}
		if b := <-asked; !strings.Contains(b, `"model":"`+gatewaytest.Model+`"`) {
			t.Errorf("%s: the provider was asked %s", c.model, b)
		}
		list := s.Receipts()
		if got := list[len(list)-1]; got.Cost != c.cost || got.Model != c.model {
			t.Errorf("%s: receipt of %s over %d, want %d", c.model, got.Model, got.Cost, c.cost)
		}
	}
	p.Aliases = []agon.Alias{{Name: gatewaytest.Model, Model: gatewaytest.Model, In: &three, Out: &seven}}
	own := gatewaytest.Open(t, g, p, nil)
	if got := gatewaytest.Post(t, own, "/v1/chat/completions", `{"model":"`+gatewaytest.Model+`","messages":[{"role":"user","content":"x"}],"max_tokens":10}`); got.Status != 200 || own.Receipts()[0].Cost != 65 {
		t.Errorf("a price of the arena's own: %+v, %+v", got, own.Receipts())
	}
	if got := gatewaytest.Post(t, s, "/v1/chat/completions", `{"model":"gone","messages":[{"role":"user","content":"x"}]}`); got.Status != http.StatusNotFound {
		t.Errorf("an alias of nothing: %+v", got)
	}
	minus := int64(-1)
	for _, bad := range []agon.Alias{{Name: ""}, {Name: "x", In: &minus}, {Name: strings.Repeat("x", 1000)}} {
		p.Aliases = []agon.Alias{bad}
		if _, err := g.Open(t.Context(), p, nil); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
