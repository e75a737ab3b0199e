package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
)

// The tools that only sessions with QueryTools have.
const (
	FetchPage = "fetch_page"
	EmbedText = "embed_text"
)

// QueryTools make a session one of scripts that answer queries. Each of its calls
// may set a timeout and names a provider, which decides the price; who answers
// is the host's back end. It has search_web, fetch_page, embed_text, llm_chat,
// test_tool and tooling_info. A settled call that uses up the budget fails, and
// the session is exhausted then.
type QueryTools struct {
	// Models are those of llm_chat by provider, names in lower case; nil means QueryModels.
	Models map[string]map[string]ModelPrice
}

// Pages answers fetch_page: the text of one page. Implementations are as those of Search.
type Pages interface {
	Name() string
	Page(ctx context.Context, url string) (Page, error)
}

// Page is one page as text.
type Page struct {
	URL     string  `json:"url"`
	Content string  `json:"content"`
	Title   *string `json:"title,omitempty"`
}

// Embedder is an LLM that answers embed_text too: it sends an OpenAI embedding
// request and returns the reply's bytes.
type Embedder interface {
	Embed(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error)
}

// Providers that calls may name, by tool.
var (
	searchProviders = []string{"desearch", "parallel", "firecrawl", "exa", "tavily"}
	embedModels     = map[string]string{"chutes": "Qwen/Qwen3-Embedding-8B-TEE", "openrouter": "qwen/qwen3-embedding-8b"}
)

// Prices of query tools in micro-dollars.
const (
	priceQueryWeb   agon.Micros = 100 // per result that can be cited
	priceQueryPage  agon.Micros = 500
	priceParallel   agon.Micros = 5000 // a search of provider parallel; 10 results are in it
	priceTurbo      agon.Micros = 1000 // the same in mode turbo
	priceParallelUp agon.Micros = 1000 // a result above 10, and a page
	priceEmbedSec   agon.Micros = 500  // provider chutes, per second
	priceEmbedMill  int64       = 10_000
	parallelFree                = 10
	maxTexts                    = 128
	queryCeiling                = 270 * time.Second
	defaultInstruct             = "Given a web search query, retrieve relevant passages that answer the query"
)

var queryNames = []string{EmbedText, FetchPage, LLMChat, SearchWeb, Test, Info}

// toolNames lists the session's tools, sorted.
func (s *Session) toolNames() []string {
	if s != nil && s.cfg.Query != nil {
		return queryNames
	}
	return toolNames()
}

// planQuery reads the arguments of a call in a session with QueryTools.
func (s *Session) planQuery(inv invocation) (*plan, error) {
	a := &args{kw: inv.Kwargs}
	if len(inv.Args) > 0 && inv.Tool != Test {
		return nil, errInvalid
	}
	timeout := a.seconds("timeout")
	var p *plan
	var err error
	switch inv.Tool {
	case Test:
		if p, err = planTest(a, inv.Args); err != nil {
			return nil, err
		}
	case Info:
		if p, err = static(a.done(), queryInfo(s.cfg.Query.Models)); err != nil {
			return nil, err
		}
	case SearchWeb:
		p, err = s.planQueryWeb(a)
	case FetchPage:
		p, err = s.planPage(a)
	case EmbedText:
		p, err = s.planEmbed(a, timeout)
	case LLMChat:
		p, err = s.planQueryChat(a)
	default:
		return nil, errInvalid
	}
	if err != nil {
		return nil, err
	}
	if timeout > 0 {
		p.timeout = min(timeout, queryCeiling)
	}
	return p, nil
}

func (a *args) provider(of []string) string {
	p := a.oneOf("provider", "", of...)
	if p == "" {
		a.fail("provider", "it is missing")
	}
	return p
}

// extra reads provider_extra: its form is checked and nothing of it leaves this host.
func (a *args) extra() map[string]json.RawMessage {
	v, ok := a.raw("provider_extra")
	if !ok {
		return nil
	}
	var m map[string]json.RawMessage
	if v[0] != '{' || json.Unmarshal(v, &m) != nil {
		a.fail("provider_extra", "want an object")
	}
	return m
}

// queries reads one query or a list of them, none blank.
func (a *args) queries(name string) []string {
	if v, ok := a.raw(name); ok && v[0] == '"' {
		return []string{strings.TrimSpace(a.text(name))}
	}
	list := a.list(name)
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// seconds reads a time above 0. Absent is 0.
func (a *args) seconds(name string) time.Duration {
	v, ok := a.raw(name)
	if !ok {
		return 0
	}
	var f float64
	if (v[0] != '-' && (v[0] < '0' || v[0] > '9')) || json.Unmarshal(v, &f) != nil || f <= 0 || math.IsInf(f, 0) {
		a.fail(name, "want a number of seconds above 0")
		return 0
	}
	return time.Duration(min(f, queryCeiling.Seconds()) * float64(time.Second))
}

// Offered reports whether a tool of QueryTools has a provider, and, where a model is
// named, whether that provider has it.
func Offered(tool, provider, model string) bool {
	model = strings.TrimSpace(model)
	switch tool {
	case SearchWeb, FetchPage:
		return slices.Contains(searchProviders, provider)
	case EmbedText:
		return embedModels[provider] != "" && (model == "" || embedModels[provider] == model)
	case LLMChat:
		list, ok := QueryModels()[provider]
		_, has := list[strings.ToLower(model)]
		return ok && (model == "" || has)
	}
	return false
}

// of are the back ends for a provider.
func (s *Session) of(provider string) (LLM, Search) {
	llm, web := s.cfg.LLM, s.cfg.Search
	if s.cfg.Of != nil {
		l, w := s.cfg.Of(provider)
		if l != nil {
			llm = l
		}
		if w != nil {
			web = w
		}
	}
	return llm, web
}

func (s *Session) planQueryWeb(a *args) (*plan, error) {
	provider, terms := a.provider(searchProviders), a.queries("search_queries")
	_, b := s.of(provider)
	if b == nil {
		return nil, errNoBackend
	}
	num, extra := int(a.num("num", 0, 0, maxCount, false)), a.extra()
	if err := a.done(); err != nil {
		return nil, err
	}
	q := WebQuery{Query: strings.Join(terms, " "), Num: num}
	if provider == "firecrawl" && utf8.RuneCountInString("("+strings.Join(terms, ") OR (")+")") > 500 {
		return nil, fmt.Errorf("%w: search_queries: longer than 500 characters for this provider", errInvalid)
	}
	most := num
	if most == 0 {
		most = defaultCount
	}
	cost := func(n int) agon.Micros { return agon.Micros(n) * priceQueryWeb }
	if provider == "parallel" {
		base := priceParallel
		if string(extra["mode"]) == `"turbo"` {
			base = priceTurbo
		}
		cost = func(n int) agon.Micros { return base + agon.Micros(max(n-parallelFree, 0))*priceParallelUp }
	}
	return &plan{policy: Referenceable, backend: b.Name(), probe: b.Probe, worst: cost(most), run: func(ctx context.Context) (*reply, error) {
		hits, err := b.Web(ctx, q)
		if err != nil {
			return nil, err
		}
		hits = bound(hits, most)
		out := &reply{response: map[string]any{"data": list(hits)}}
		for _, h := range hits {
			out.cite(h.Link, h.Snippet, h.Title)
		}
		out.cost = cost(len(out.results))
		return out, nil
	}}, nil
}

func (s *Session) planPage(a *args) (*plan, error) {
	b := s.cfg.Pages
	if b == nil {
		return nil, errNoBackend
	}
	provider, url := a.provider(searchProviders), strings.TrimSpace(a.text("url"))
	a.extra()
	if err := a.done(); err != nil {
		return nil, err
	}
	price := priceQueryPage
	if provider == "parallel" {
		price = priceParallelUp
	}
	return &plan{policy: Referenceable, backend: b.Name(), worst: price, run: func(ctx context.Context) (*reply, error) {
		page, err := b.Page(ctx, url)
		if err != nil {
			return nil, err
		}
		out := &reply{response: map[string]any{"data": []Page{page}}}
		out.cite(page.URL, &page.Content, page.Title)
		out.cost = agon.Micros(len(out.results)) * price
		return out, nil
	}}, nil
}

func (s *Session) planEmbed(a *args, timeout time.Duration) (*plan, error) {
	provider := a.provider([]string{"chutes", "openrouter"})
	llm, _ := s.of(provider)
	e, ok := llm.(Embedder)
	if !ok {
		return nil, errNoBackend
	}
	model := strings.TrimSpace(a.str("model", true, 200))
	texts, kind := a.texts("texts"), a.oneOf("input_type", "", "query", "document")
	instruct, dims := a.str("instruction", false, maxQuery), a.num("dimensions", 0, 32, 4096, false)
	extra := a.extra()
	switch {
	case a.err != nil:
	case embedModels[provider] != model:
		a.fail("model", "it is not offered")
	case kind == "":
		a.fail("input_type", "it is missing")
	case kind == "document" && instruct != "":
		a.fail("instruction", "documents have none")
	case provider == "chutes" && extra != nil:
		a.fail("provider_extra", "this provider takes none")
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	input := texts
	if kind == "query" {
		if instruct == "" {
			instruct = defaultInstruct
		}
		input = make([]string, len(texts))
		for i, t := range texts {
			input[i] = "Instruct: " + instruct + "\nQuery: " + t
		}
	}
	body := map[string]json.RawMessage{}
	body["input"], _ = json.Marshal(input) // strings always encode
	if dims > 0 {
		body["dimensions"] = json.RawMessage(itoa(dims))
	}
	if timeout <= 0 {
		timeout = longTimeout
	}
	price := ModelPrice{In: priceEmbedMill}
	worst := price.cost(int64(len(body["input"])), 0, 0)
	if provider == "chutes" {
		worst = perSecond(timeout)
	}
	return &plan{policy: LogOnly, model: strings.ToLower(model), backend: llm.Name(), worst: worst, timeout: timeout, run: func(ctx context.Context) (*reply, error) {
		began := s.host.cfg.Now()
		b, err := e.Embed(ctx, strings.ToLower(model), body)
		if err != nil {
			return nil, err
		}
		out, err := readEmbedding(b, len(texts), int(dims))
		if err != nil {
			return nil, err
		}
		out.response.(map[string]any)["provider"], out.response.(map[string]any)["model"] = provider, model
		out.response.(map[string]any)["input_type"] = kind
		switch {
		case provider == "chutes":
			out.cost = perSecond(s.host.cfg.Now().Sub(began))
		case out.usage == nil:
			out.cost = worst // a provider that hides its usage is not a discount
		default:
			out.cost = price.cost(out.usage.Prompt, 0, 0)
		}
		return out, nil
	}}, nil
}

func perSecond(d time.Duration) agon.Micros {
	return agon.Micros((d.Microseconds()*int64(priceEmbedSec) + 999_999) / 1_000_000)
}

// texts reads one text or 1 to maxTexts of them, none blank.
func (a *args) texts(name string) []string {
	v, ok := a.raw(name)
	if !ok {
		a.fail(name, "it is missing")
		return nil
	}
	var out []string
	if v[0] == '"' {
		out = []string{a.str(name, true, maxText/4)}
	} else if v[0] != '[' || json.Unmarshal(v, &out) != nil || len(out) == 0 || len(out) > maxTexts {
		a.fail(name, "want 1 to %d texts", maxTexts)
		return nil
	}
	for i, s := range out {
		if out[i] = strings.TrimSpace(s); out[i] == "" {
			a.fail(name, "want texts that are not blank")
			return nil
		}
	}
	return out
}

// readEmbedding wants n vectors in order, all of one length: dims where that is above 0.
func readEmbedding(b []byte, n, dims int) (*reply, error) {
	bad := func(what string) (*reply, error) { return nil, &Failure{Class: "bad_reply", Detail: what} }
	var in struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
		Usage *struct {
			Prompt int64 `json:"prompt_tokens"`
			Total  int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if checkDepth(b) != nil || json.Unmarshal(b, &in) != nil || len(in.Data) != n {
		return bad("reply is not an embedding of each text")
	}
	vectors := make([][]float64, n)
	for i, d := range in.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= n || vectors[at] != nil || len(d.Embedding) == 0 {
			return bad("reply's vectors cannot be put in order")
		}
		vectors[at] = d.Embedding
	}
	size := len(vectors[0])
	data := make([]any, n)
	for i, v := range vectors {
		if len(v) != size || (dims > 0 && size != dims) {
			return bad("reply's vectors have another length")
		}
		data[i] = map[string]any{"index": i, "embedding": v}
	}
	out := &reply{}
	response := map[string]any{"data": data, "dimensions": size}
	if u := in.Usage; u != nil {
		response["usage"] = map[string]any{"prompt_tokens": max(u.Prompt, 0), "total_tokens": max(u.Total, u.Prompt, 0)}
		out.usage = &usage{Prompt: max(u.Prompt, 0), Total: max(u.Total, u.Prompt, 0)}
	}
	out.response = response
	return out, nil
}

// spentAll ends a session whose settled calls have used up its budget, and says so.
func (s *Session) spentAll() bool {
	if s.cfg.Query == nil || s.cfg.Budget <= 0 || s.Spent() < s.cfg.Budget {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != StatusActive {
		return false // a sibling that was under way
	}
	s.status = StatusExhausted
	return true
}

// queryInfo is the answer of tooling_info.
func queryInfo(models map[string]map[string]ModelPrice) map[string]any {
	offered, rates := map[string][]string{}, map[string]any{}
	for provider, list := range models {
		of := map[string]any{}
		for m, p := range list {
			offered[provider] = append(offered[provider], m)
			of[m] = map[string]any{
				"input_per_million": usd(agon.Micros(p.In)), "output_per_million": usd(agon.Micros(p.Out)), "reasoning_per_million": usd(agon.Micros(p.Reasoning)),
			}
		}
		slices.Sort(offered[provider])
		rates[provider] = of
	}
	embed, embedRates := map[string][]string{}, map[string]any{}
	for provider, m := range embedModels {
		embed[provider] = []string{m}
		embedRates[provider] = map[string]any{m: map[string]any{"input_per_million": usd(agon.Micros(priceEmbedMill))}}
	}
	embedRates["chutes"] = map[string]any{embedModels["chutes"]: map[string]any{"usd_per_second": usd(priceEmbedSec)}}
	free := map[string]any{"kind": "free"}
	perResult := func(m agon.Micros) any {
		return map[string]any{"kind": "per_referenceable_result", "usd_per_referenceable_result": usd(m), "settlement_order": []string{"provider_returned", "static_pricing"}}
	}
	return map[string]any{
		"tool_names": queryNames, "allowed_llm_provider_models": offered, "allowed_embedding_provider_models": embed,
		"pricing": map[string]any{
			Test: free, Info: free, SearchWeb: perResult(priceQueryWeb), FetchPage: perResult(priceQueryPage),
			LLMChat:   map[string]any{"kind": "per_million_tokens", "provider_models": rates, "settlement_order": []string{"provider_returned", "cached_provider_pricing", "static_pricing"}},
			EmbedText: map[string]any{"kind": "provider_specific_static", "provider_models": embedRates, "settlement_order": []string{"static_pricing"}},
		},
	}
}
