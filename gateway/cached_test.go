package gateway

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
)

// Tokens that a provider read from its cache cost their own price, where a model has one;
// what a provider says that cannot be gives no discount.
func TestCachedTokens(t *testing.T) {
	for _, c := range []struct {
		price  int64
		cached string
		want   int64 // tokens that are billed as cached
	}{
		{100_000, `{"cached_tokens":30}`, 30},
		{0, `{"cached_tokens":30}`, 0},
		{100_000, `{"cached_tokens":0}`, 0},
		{100_000, `{"cached_tokens":41}`, 0}, // more than the prompt
		{100_000, `{"cached_tokens":-5}`, 0},
		{100_000, `{"cached_tokens":1e300}`, 0},
		{100_000, `{"cached_tokens":"many"}`, 0},
		{100_000, `{"cached_tokens":{}}`, 0},
		{100_000, `[30]`, 0},
		{100_000, `null`, 0},
	} {
		body := `{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":5,"prompt_tokens_details":` + c.cached + `}}`
		prices := Prices{}
		if err := prices.Set("m", Price{In: 1_000_000, Out: 2_000_000, CacheRead: c.price, MaxOutput: 1000, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		g := start(t, Config{Prices: prices, Upstreams: []provider.Upstream{upstream(t, says(body))}})
		s := open(t, g, policy("m"), nil)
		if r := post(t, s, chatPath, hello); r.status != 200 {
			t.Fatalf("%s: reply %d %s", c.cached, r.status, r.body)
		}
		x := s.Receipts()[0]
		if want := agon.Micros(40 - c.want + c.want/10 + 10); x.Cached != c.want || x.Cost != want || x.Prompt != 40 || x.Cost > x.Reserved {
			t.Errorf("%s at %d: %d cached tokens, %d micro-dollars, want %d and %d", c.cached, c.price, x.Cached, x.Cost, c.want, want)
		}
	}
	for _, p := range []Price{{In: 10, CacheRead: 11, Version: "x"}, {In: 10, CacheRead: -1, Version: "x"}} {
		if err := (Prices{}).Set("m", p); err == nil {
			t.Errorf("%+v is taken for a price", p)
		}
	}
	p := Price{In: maxPrice, Out: maxPrice, CacheRead: maxPrice - 1}
	for _, n := range []int64{0, 1, 999, maxUsage} {
		for _, k := range []int64{-1, 0, n / 3, n, n + 1} {
			if got := p.billed(n, k, 7); got > p.cost(n, 7) || got < 0 {
				t.Errorf("%d of %d cached: %d, above %d", k, n, got, p.cost(n, 7))
			}
		}
	}
}

// Each form says it in its own words.
func TestCachedTokensOfEachForm(t *testing.T) {
	for name, u := range map[string]*wireUsage{
		"anthropic": messagesUsage(nil, []byte(`{"input_tokens":10,"cache_read_input_tokens":30,"cache_creation_input_tokens":0,"output_tokens":5}`)),
		"google":    googleUsage([]byte(`{"promptTokenCount":40,"cachedContentTokenCount":30,"candidatesTokenCount":5}`)),
		"responses": responsesUsage([]byte(`{"input_tokens":40,"input_tokens_details":{"cached_tokens":30},"output_tokens":5}`)),
	} {
		w := wireReply{Usage: u}
		if got := w.used(false); got != (usage{prompt: 40, completion: 5, cached: 30, ok: true}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The operator names the price beside the others, never above that of input.
func TestPriceOfCachedTokens(t *testing.T) {
	of := func(in, cached string) (Price, error) {
		p := Prices{}
		_, err := p.Operator("m", func(k string) string {
			return map[string]string{"AGON_LLM_PRICE_IN": in, "AGON_LLM_PRICE_OUT": "9", "AGON_LLM_PRICE_CACHED": cached}[k]
		})
		return p["m"], err
	}
	if p, err := of("100", "10"); err != nil || p.CacheRead != 10 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"101", "-1", "1.5", "x"} {
		if p, err := of("100", bad); err == nil {
			t.Errorf("%s is taken: %+v", bad, p)
		}
	}
	r := agon.Receipt{ID: "r", Cached: 3}
	var whole map[string]any
	if err := json.Unmarshal(canonicalReceipt(nil, &r), &whole); err != nil || fmt.Sprint(whole["cached_tokens"]) != "3" {
		t.Errorf("a receipt's hash does not cover what was cached: %v, %v", whole, err)
	}
}
