package gateway

import (
	"embed"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
)

//go:embed prices/2026-11.json
var priceFiles embed.FS

// What a model answers.
const (
	kindChat      = "chat"
	kindEmbedding = "embedding"
	kindAny       = "any"
)

// Price is what a model costs, in micro-dollars per 1,000,000 tokens.
type Price struct {
	In  int64 `json:"in"`
	Out int64 `json:"out"`
	// CacheRead is for tokens of a prompt that the provider says it read from its cache,
	// at most In; 0: they cost In.
	CacheRead int64 `json:"cache_read,omitempty"`
	// Kind is chat, embedding or any.
	Kind string `json:"kind"`
	// MaxOutput is the largest output limit, in tokens, that is ever asked of the model.
	MaxOutput int64 `json:"max_output,omitempty"`
	// LimitField is the field in which the model takes its output limit:
	// max_tokens (default) or max_completion_tokens.
	LimitField string `json:"limit_field,omitempty"`
	// Version says where the price comes from; receipts carry it.
	Version string `json:"-"`
}

// Prices is a table of prices by model name.
type Prices map[string]Price

const (
	// maxPrice bounds a price: a thousand dollars per token would be more.
	maxPrice = 1_000_000_000_000
	// maxUsage is the largest count of tokens that is believed of one call.
	maxUsage = 1_000_000_000_000
	// defaultMaxOutput is used where a price names no MaxOutput.
	defaultMaxOutput = 8192
)

// The price of an operator's model that neither the table nor the operator
// names: above most list prices, so that a budget is kept rather than guessed.
const (
	assumedIn  = 5_000_000
	assumedOut = 20_000_000
)

// LoadPrices returns the table that is built in. Its version is the file's name.
func LoadPrices() (Prices, error) {
	b, err := priceFiles.ReadFile("prices/2026-11.json")
	if err != nil {
		return nil, fmt.Errorf("read prices: %w", err)
	}
	var f struct {
		Version string           `json:"version"`
		Unit    string           `json:"unit"`
		Note    string           `json:"note"`
		Models  map[string]Price `json:"models"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("parse prices: %w", err)
	}
	t := Prices{}
	for name, p := range f.Models {
		p.Version = f.Version
		if err := t.Set(name, p); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Set adds or replaces a price.
func (t Prices) Set(model string, p Price) error {
	if p.Kind == "" {
		p.Kind = kindAny
	}
	if p.MaxOutput == 0 {
		p.MaxOutput = defaultMaxOutput
	}
	if p.LimitField == "" {
		p.LimitField = "max_tokens"
	}
	if p.In < 0 || p.Out < 0 || p.In > maxPrice || p.Out > maxPrice || p.CacheRead < 0 || p.CacheRead > p.In || p.MaxOutput < 0 || p.MaxOutput > maxUsage ||
		(p.Kind != kindChat && p.Kind != kindEmbedding && p.Kind != kindAny) ||
		(p.LimitField != "max_tokens" && p.LimitField != "max_completion_tokens") || p.Version == "" {
		return fmt.Errorf("set price of %s: %+v is not a price", model, p)
	}
	t[model] = p
	return nil
}

// Operator gives an operator's own model a price: by AGON_LLM_PRICE_IN and
// AGON_LLM_PRICE_OUT (micro-dollars per 1,000,000 tokens, both or none, beside them
// AGON_LLM_PRICE_CACHED; version "operator"), else that of the table, else a high one named "assumed". It
// returns a line that tells the operator of a price that is not the table's.
func (t Prices) Operator(model string, getenv func(string) string) (string, error) {
	in, out := getenv("AGON_LLM_PRICE_IN"), getenv("AGON_LLM_PRICE_OUT")
	p, known := t[model]
	switch {
	case in == "" && out == "" && known:
		return "", nil
	case in == "" && out == "":
		p = Price{In: assumedIn, Out: assumedOut, LimitField: limitField(model), Version: "assumed"}
	default:
		var err error
		if p.In, err = strconv.ParseInt(in, 10, 64); err != nil {
			return "", fmt.Errorf("read AGON_LLM_PRICE_IN: %q is not a whole number of micro-dollars per 1,000,000 tokens", in)
		}
		if p.Out, err = strconv.ParseInt(out, 10, 64); err != nil {
			return "", fmt.Errorf("read AGON_LLM_PRICE_OUT: %q is not a whole number of micro-dollars per 1,000,000 tokens", out)
		}
		p.CacheRead = 0
		if cached := getenv("AGON_LLM_PRICE_CACHED"); cached != "" {
			if p.CacheRead, err = strconv.ParseInt(cached, 10, 64); err != nil || p.CacheRead < 0 || p.CacheRead > p.In {
				return "", fmt.Errorf("read AGON_LLM_PRICE_CACHED: %q is not a whole number of micro-dollars per 1,000,000 tokens, at most AGON_LLM_PRICE_IN", cached)
			}
		}
		p.Version = "operator"
		if !known {
			p.LimitField = limitField(model)
		}
	}
	note := fmt.Sprintf("model %s is priced at %s a million tokens in and %s out (%s)", model, usd(agon.Micros(p.In)), usd(agon.Micros(p.Out)), p.Version)
	if p.Version == "assumed" {
		note += "; set AGON_LLM_PRICE_IN and AGON_LLM_PRICE_OUT, in micro-dollars per million tokens, to its own price"
	}
	return note, t.Set(model, p)
}

// limitField guesses the field of the output limit: OpenAI's newer models
// refuse max_tokens, most other servers know nothing else.
func limitField(model string) string {
	for _, prefix := range []string{"gpt-5", "o1", "o3", "o4"} {
		if strings.HasPrefix(model, prefix) {
			return "max_completion_tokens"
		}
	}
	return "max_tokens"
}

// cost is the most that a call costs, without a cache.
func (p Price) cost(prompt, completion int64) agon.Micros { return p.billed(prompt, 0, completion) }

// billed is the price of a call, cached of whose prompt were read from a provider's cache,
// rounded up to a whole micro-dollar and capped at the largest value. It is never above cost.
func (p Price) billed(prompt, cached, completion int64) agon.Micros {
	prompt = max(prompt, 0)
	if cached = min(max(cached, 0), prompt); p.CacheRead == 0 {
		cached = 0
	}
	h1, l1 := bits.Mul64(uint64(prompt-cached), uint64(p.In))
	h3, l3 := bits.Mul64(uint64(cached), uint64(p.CacheRead))
	l1, c3 := bits.Add64(l1, l3, 0)
	h1 += h3 + c3 // far below the largest: both counts and prices are bounded
	h2, l2 := bits.Mul64(uint64(max(completion, 0)), uint64(p.Out))
	lo, carry := bits.Add64(l1, l2, 0)
	lo, up := bits.Add64(lo, 999_999, 0)
	hi, over := bits.Add64(h1, h2, carry)
	hi, over2 := bits.Add64(hi, 0, up)
	if over+over2 > 0 || hi >= 1_000_000 {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, 1_000_000)
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return agon.Micros(q)
}

// affordable is the largest completion ≤ most whose call costs at most money, or -1 if none does.
func (p Price) affordable(money agon.Micros, prompt, most int64) int64 {
	if p.cost(prompt, 0) > money {
		return -1
	}
	lo, hi := int64(0), most
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if p.cost(prompt, mid) <= money {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}
