package tools

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
)

// defaultPrices names SeedModels in signed receipts.
const defaultPrices = "tools-1"

// ModelPrice is what a model costs in micro-dollars per 1,000,000 tokens.
// Reasoning tokens are counted twice by the seed's rule: they are part of the
// completion and have a rate of their own.
type ModelPrice struct {
	In, Out, Reasoning int64
	// MaxOutput bounds the tokens of one answer; 0 means 4096.
	MaxOutput int64
}

// SeedModels is the allow-list of the seed era with its prices.
func SeedModels() map[string]ModelPrice {
	return map[string]ModelPrice{
		"openai/gpt-oss-20b":  {In: 250_000, Out: 2_000_000, Reasoning: 2_000_000},
		"openai/gpt-oss-120b": {In: 1_250_000, Out: 10_000_000, Reasoning: 10_000_000},
	}
}

const defaultMaxOutput = 4096

func (p ModelPrice) maxOutput() int64 {
	if p.MaxOutput > 0 {
		return p.MaxOutput
	}
	return defaultMaxOutput
}

// cost is rounded up to a whole micro-dollar and capped at the largest value.
// Counts are clamped, so that no reply of a provider can overflow it.
func (p ModelPrice) cost(prompt, completion, reasoning int64) agon.Micros {
	const most = 1 << 31 // tokens of one call; prices are below 2^31 too
	clamp := func(n int64) int64 { return min(max(n, 0), most) }
	sum := 0.0
	var n int64
	for _, x := range [][2]int64{{clamp(prompt), p.In}, {clamp(completion), p.Out}, {clamp(reasoning), p.Reasoning}} {
		if sum += float64(x[0]) * float64(x[1]); sum > math.MaxInt64/2 {
			return math.MaxInt64
		}
		n += x[0] * x[1]
	}
	return agon.Micros((n + 999_999) / 1_000_000)
}

// affordable is the largest output limit up to most whose worst case fits
// into left, or -1. In the worst case every token of the answer is reasoning too.
func (p ModelPrice) affordable(left agon.Micros, prompt, most int64) int64 {
	if p.cost(prompt, 0, 0) > left {
		return -1
	}
	lo, hi := int64(0), most
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if p.cost(prompt, mid, mid) <= left {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// Prices of one call in micro-dollars.
const (
	priceWeb   agon.Micros = 2500
	priceX     agon.Micros = 3000
	priceAI    agon.Micros = 4000 // per result that has a url
	priceRepo  agon.Micros = 500
	priceItems agon.Micros = 2500
)

// toolNames lists every tool, sorted.
func toolNames() []string {
	all := []string{Test, Info, SearchWeb, SearchX, SearchAI, SearchRepo, GetRepoFile, SearchItems, LLMChat}
	slices.Sort(all)
	return all
}

// usd prints micro-dollars as the number of dollars, exactly.
func usd(m agon.Micros) json.RawMessage {
	neg := ""
	if m < 0 {
		neg, m = "-", -m
	}
	s := neg + itoa(int64(m/1_000_000))
	frac := itoa(int64(m%1_000_000) + 1_000_000)[1:]
	frac = strings.TrimRight(frac, "0")
	if frac == "" {
		frac = "0"
	}
	return json.RawMessage(s + "." + frac)
}

// infoReply is the answer of tooling_info.
func infoReply(models map[string]ModelPrice) map[string]any {
	names := make([]string, 0, len(models))
	rates := map[string]any{}
	for m, p := range models {
		names = append(names, m)
		rates[m] = map[string]any{
			"input_per_million": usd(agon.Micros(p.In)), "output_per_million": usd(agon.Micros(p.Out)), "reasoning_per_million": usd(agon.Micros(p.Reasoning)),
		}
	}
	slices.Sort(names)
	flat := func(m agon.Micros) any { return map[string]any{"kind": "flat_per_call", "usd_per_call": usd(m)} }
	free := map[string]any{"kind": "free"}
	return map[string]any{
		"tool_names":          toolNames(),
		"allowed_tool_models": map[string]any{LLMChat: names},
		"pricing": map[string]any{
			Test: free, Info: free,
			SearchWeb: flat(priceWeb), SearchX: flat(priceX), SearchItems: flat(priceItems),
			SearchRepo: flat(priceRepo), GetRepoFile: flat(priceRepo),
			SearchAI: map[string]any{"kind": "per_referenceable_result", "usd_per_referenceable_result": usd(priceAI)},
			LLMChat:  map[string]any{"kind": "per_million_tokens", "models": rates},
		},
	}
}
