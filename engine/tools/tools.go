// Package tools is the metered tool host of the claim arena: POST
// /v1/tools/execute with the tools, prices, result policies, receipts and fixed
// error texts that its scripts know. They reach it through a door of their box;
// models through the gateway, search through a Search, repositories through a
// box of their own.
//
// Everything that arrives is hostile: bodies are bounded before they are read,
// arguments are read by name and type, and nothing but a fixed sentence goes
// back when a call fails.
package tools

import (
	"encoding/json"
	"time"

	"github.com/agon-arena/agon"
)

// The tools of the seed era.
const (
	Test        = "test_tool"
	Info        = "tooling_info"
	SearchWeb   = "search_web"
	SearchX     = "search_x"
	SearchAI    = "search_ai"
	SearchRepo  = "search_repo"
	GetRepoFile = "get_repo_file"
	SearchItems = "search_items"
	LLMChat     = "llm_chat"
)

// The sentences that a failed call is answered with, status 400. They are
// compared literally by clients and by the failure policy of validators.
const (
	TextToken       = "session token rejected"
	TextSession     = "session not found"
	TextConcurrency = "tool concurrency limit reached"
	TextInvalid     = "tool response validation failed"
	TextFailed      = "tool execution failed"
)

// Policies of results.
const (
	Referenceable = "referenceable" // results may be cited
	LogOnly       = "log_only"
)

// Outcomes of a receipt.
const (
	OutcomeOK       = "ok"
	OutcomeProvider = "provider_error"
	OutcomeBudget   = "budget_exceeded"
	OutcomeTimeout  = "timeout"
)

// Result is one entry of a call's results.
type Result struct {
	Index    int             `json:"index"`
	ResultID string          `json:"result_id"` // uuid4 hex, new for every call
	URL      *string         `json:"url,omitempty"`
	Note     *string         `json:"note,omitempty"`
	Title    *string         `json:"title,omitempty"`
	Raw      json.RawMessage `json:"raw,omitempty"` // of log_only results
}

// Receipt is what the host wrote of one call. Receipts of calls that failed
// are kept as evidence; only those with outcome ok can be cited.
type Receipt struct {
	ReceiptID string    `json:"receipt_id"`
	SessionID string    `json:"session_id"`
	UID       int       `json:"uid"`
	Tool      string    `json:"tool"`
	IssuedAt  time.Time `json:"issued_at"`
	ElapsedMS int64     `json:"elapsed_ms"`
	Outcome   string    `json:"outcome"`
	// RequestHash and ResponseHash are SHA-256 in hex over canonical JSON as
	// Python's json.dumps(sort_keys=True, separators=(",",":")) writes it; the
	// request is {"args","kwargs"}. ResponseHash is empty without a response.
	RequestHash  string          `json:"request_hash"`
	ResponseHash string          `json:"response_hash,omitempty"`
	Request      json.RawMessage `json:"request"`
	Response     json.RawMessage `json:"response,omitempty"`
	Policy       string          `json:"result_policy"`
	Results      []Result        `json:"results,omitempty"`
	Cost         agon.Micros     `json:"cost_micros"`
	Reserved     agon.Micros     `json:"reserved_micros"`
	Model        string          `json:"model,omitempty"` // of llm_chat
	Prompt       int64           `json:"prompt_tokens,omitempty"`
	Completion   int64           `json:"completion_tokens,omitempty"`
	// Backend names what answered: a search index, a provider; never a key or an address.
	Backend string `json:"backend,omitempty"`
	// Signed is the call in the books: chained for each session, signed by the
	// host's key, durable before the answer where the books are. Calls that
	// reserved nothing have none.
	Signed *agon.Receipt `json:"signed,omitempty"`
	// Error is the class of what failed. It is for evidence, no script sees it.
	Error string `json:"error,omitempty"`
}

// SearchTool reports whether the tool is one of the search tools, as usage tables count them.
func SearchTool(name string) bool {
	switch name {
	case SearchWeb, SearchX, SearchAI, SearchRepo, GetRepoFile, SearchItems, FetchPage:
		return true
	}
	return false
}
