package wire

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/engine/tools"
)

// The tool proxy: a script's calls come from its box by way of the validator, whose
// grant for the attempt names the task whose money it is. What they cost is measured
// here, not told by anybody.

// TokenHeader names a grant.
const TokenHeader = "X-Platform-Tool-Proxy-Token"

// grantFor is how long a grant and its session live.
const grantFor = 15 * time.Minute

type attemptOf struct {
	batch   string
	cell    cellKey
	attempt int
}

// grant lets a validator's tool host make calls for one attempt.
type grant struct {
	of      attemptOf
	cell    *cell
	board   *board
	uid     int
	session *tools.Session
	hash    [32]byte // of its token

	mu   sync.Mutex
	seen map[string]bool // receipt ids; guarded by mu
}

// Errors of the proxy by their codes.
const (
	proxyDenied      = "platform_tool_proxy_denied"
	proxyTimeout     = "tool_timeout"
	proxyProvider    = "provider_failed"
	proxyBudget      = "budget_exhausted"
	proxyInterrupted = "platform_interrupted"
	proxyNoKey       = "miner_credential_missing"
	proxyDuplicate   = "duplicate_call"
	proxyBusy        = "concurrency_exhausted"
	proxyNoProvider  = "unsupported_provider"
	proxyNoModel     = "unsupported_model"
	proxyInvalid     = "invalid_request"
	proxyPlatform    = "platform_error"
)

var proxyStatus = map[string]int{
	proxyDenied: http.StatusForbidden, proxyTimeout: http.StatusRequestTimeout, proxyProvider: http.StatusBadGateway, proxyBudget: http.StatusPaymentRequired,
	proxyInterrupted: http.StatusServiceUnavailable, proxyNoKey: http.StatusFailedDependency, proxyDuplicate: http.StatusConflict, proxyBusy: http.StatusTooManyRequests,
	proxyNoProvider: http.StatusUnprocessableEntity, proxyNoModel: http.StatusUnprocessableEntity, proxyInvalid: http.StatusUnprocessableEntity,
	proxyPlatform: http.StatusInternalServerError,
}

func proxyError(w http.ResponseWriter, code, message string) {
	refuse(w, proxyStatus[code], code, "%s", message)
}

// createGrant is POST /v1/platform-tool-proxy/grants.
func (p *Platform) createGrant(w http.ResponseWriter, r *http.Request) {
	var in struct {
		identity
		Token string `json:"assignment_token"`
	}
	hotkey, ok := p.worker(w, r, 64<<10, &in)
	if !ok {
		return
	}
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	b, c, no := p.find(hotkey, in.identity)
	switch {
	case no != nil:
		proxyError(w, proxyDenied, *no.Reason)
		return
	case in.identity.Session == nil || uuid.Validate(*in.identity.Session) != nil:
		proxyError(w, proxyDenied, "validator_session_id: want a uuid")
		return
	case in.Attempt != c.Attempt || c.State != cellOpen && c.State != cellAssigned || in.Token != p.assignment(in.BatchID, c):
		proxyError(w, proxyDenied, "that attempt is not under way")
		return
	case c.Session != "" && c.Session != *in.identity.Session:
		proxyError(w, proxyDenied, "another session has this attempt")
		return
	}
	at := attemptOf{in.BatchID, c.key(), in.Attempt}
	token := p.seal("grant", in.BatchID, c.Validator, c.Artifact, c.Task, *in.identity.Session)
	if p.work.of[at] == nil {
		s, err := p.openSession(b, c, *in.identity.Session)
		if err != nil {
			p.broken(w, "open tool session", err)
			return
		}
		g := &grant{of: at, cell: c, board: b, uid: b.of[c.Artifact].UID, session: s, hash: sha256.Sum256([]byte(token)), seen: map[string]bool{}}
		p.work.of[at], p.work.grants[g.hash] = g, g
	}
	c.State, c.Session, c.at = cellAssigned, *in.identity.Session, p.cfg.Now()
	reply(w, http.StatusOK, map[string]any{"token": token, "expires_at": p.work.of[at].session.ExpiresAt().Format(time.RFC3339Nano)})
}

func (p *Platform) openSession(b *board, c *cell, id string) (*tools.Session, error) {
	hotkey := b.of[c.Artifact].Hotkey
	return p.cfg.Work.Tools.Open(tools.SessionConfig{
		ID: uuid.MustParse(id).String(), Run: "batch-" + b.batch.BatchID, Attempt: c.Attempt, Task: c.Task, UID: b.of[c.Artifact].UID,
		Budget: b.tasks[c.Task].budget(), TTL: grantFor, Parallel: 20, Queue: true, Query: &tools.QueryTools{}, Of: p.backends(hotkey),
	})
}

// close ends the grant of a cell's attempt; the caller holds the lock.
func (p *Platform) close(batch string, c *cell) {
	at := attemptOf{batch, c.key(), c.Attempt}
	g := p.work.of[at]
	if g == nil {
		return
	}
	delete(p.work.of, at)
	delete(p.work.grants, g.hash)
	c.Spent = g.session.Spent()
	go g.session.Close(tools.StatusCompleted) // it waits for calls under way, which nobody else should
}

// proxied are the tools that come by way of the proxy; the others need nobody.
var proxied = []string{tools.SearchWeb, tools.FetchPage, tools.EmbedText, tools.LLMChat}

// executeTool is POST /v1/platform-tool-proxy/tools/execute. It has no signature: the
// grant's token says whose call it is.
func (p *Platform) executeTool(w http.ResponseWriter, r *http.Request) {
	sum := sha256.Sum256([]byte(r.Header.Get(TokenHeader)))
	p.work.mu.Lock()
	g := p.work.grants[sum]
	p.work.mu.Unlock()
	if g == nil || !p.cfg.Now().Before(g.session.ExpiresAt()) {
		proxyError(w, proxyDenied, "the grant is unknown or over") // before the body is read
		return
	}
	body, ok := readBody(w, r, 4<<20)
	if !ok {
		return
	}
	var in struct {
		UID     *int                       `json:"uid"`
		Receipt string                     `json:"receipt_id"`
		Tool    string                     `json:"tool"`
		Args    []json.RawMessage          `json:"args"`
		Kwargs  map[string]json.RawMessage `json:"kwargs"`
		identity
	}
	if !decode(w, body, false, &in) {
		return
	}
	switch {
	case in.UID == nil || *in.UID != g.uid, in.ArtifactID != g.of.cell.artifact, in.TaskID != g.of.cell.task, in.Attempt != g.of.attempt,
		in.identity.Session == nil || *in.identity.Session != g.session.ID():
		proxyError(w, proxyDenied, "the grant is for another attempt")
		return
	case in.Receipt == "" || len(in.Receipt) > 200, !slices.Contains(proxied, in.Tool), len(in.Args) > 0:
		proxyError(w, proxyInvalid, "want a receipt_id, a tool of providers and its arguments by name")
		return
	}
	g.mu.Lock()
	twice, many := g.seen[in.Receipt], len(g.seen) >= p.cfg.Work.Calls
	if !many {
		g.seen[in.Receipt] = true
	}
	g.mu.Unlock()
	switch {
	case twice:
		proxyError(w, proxyDuplicate, "a call with this receipt_id was made")
		return
	case many:
		proxyError(w, proxyBudget, "an attempt has at most "+strconv.Itoa(p.cfg.Work.Calls)+" calls")
		return
	}
	provider, code, message := p.providerOf(g, in.Tool, in.Kwargs)
	if code != "" {
		proxyError(w, code, message)
		return
	}
	began := p.cfg.Now()
	a := g.session.Call(r.Context(), in.Tool, in.Kwargs)
	p.meter(g)
	if a.Class != "" {
		code, message := proxyClass(a.Class)
		proxyError(w, code, message)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"response": a.Response, "execution": map[string]any{"elapsed_ms": float64(p.cfg.Now().Sub(began).Microseconds()) / 1e3, "ttft_ms": nil},
		"actual_cost_usd": float64(a.Cost) / 1e6, "actual_cost_provider": provider, "actual_cost_evidence": map[string]any{"settlement_source": "static_pricing"},
	})
}

// meter keeps what an attempt has spent.
func (p *Platform) meter(g *grant) {
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	if p.work.of[g.of] == g {
		g.cell.Spent = g.session.Spent()
	}
}

// proxyClass is the code of a failed call, and words for the script's author.
func proxyClass(class string) (code, message string) {
	switch class {
	case tools.ClassInvalid:
		return proxyInvalid, "the tool's arguments are not what it takes"
	case tools.ClassNoBackend:
		return proxyNoProvider, "this platform does not serve the tool"
	case tools.ClassBudget:
		return proxyBudget, "the task's budget is used up"
	case tools.ClassConcurrency:
		return proxyBusy, "too many calls at once"
	case tools.ClassEnded:
		return proxyBudget, "the session is over"
	case tools.ClassBooks:
		return proxyPlatform, "the call could not be booked"
	case "timeout":
		return proxyTimeout, "the tool timed out"
	}
	return proxyProvider, "the provider failed: " + class
}

// providerOf checks the provider and the model that a call names, and that the miner has
// left a key where one is needed. code is "" if all is there.
func (p *Platform) providerOf(g *grant, tool string, kw map[string]json.RawMessage) (provider, code, message string) {
	var model string
	_ = json.Unmarshal(kw["provider"], &provider) // anything else than a text is unknown
	_ = json.Unmarshal(kw["model"], &model)
	if !tools.Offered(tool, provider, "") {
		return "", proxyNoProvider, "the tool has no such provider"
	}
	if tool == tools.SearchWeb || tool == tools.FetchPage {
		return provider, "", ""
	}
	if !tools.Offered(tool, provider, model) {
		return "", proxyNoModel, "the provider has no such model"
	}
	hotkey := g.board.of[g.of.cell.artifact].Hotkey
	if key, err := p.credential(hotkey, provider); err != nil || key == "" {
		return "", proxyNoKey, "the miner has left no key of " + provider + " (PUT /v1/miner-config)"
	}
	return provider, "", ""
}

// backends are those of a provider with the key that a miner has left.
func (p *Platform) backends(hotkey string) func(provider string) (tools.LLM, tools.Search) {
	return func(provider string) (tools.LLM, tools.Search) {
		key, err := p.credential(hotkey, provider)
		if err != nil || key == "" {
			return nil, nil
		}
		if base := p.cfg.Work.Providers[provider]; base != "" {
			return tools.KeyedLLM{Provider: provider, BaseURL: base, Key: key}, nil
		}
		if f := p.cfg.Work.Search; f != nil {
			return nil, f(provider, key)
		}
		return nil, nil
	}
}
