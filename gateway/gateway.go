// Package gateway is the only door out of a box: models and tools, allow-listed,
// metered and recorded. All evidence and all money pass here.
package gateway

import (
	"github.com/agon-arena/agon"
)

// Policy is what one session may do.
type Policy struct {
	Run     string
	Attempt int
	Task    string
	// Payer is who is billed: "run" for agents, "platform" for judges.
	Payer  string
	Models []string // allow-list; "*" admits any model with a price
	Budget agon.Budget
	// Dialects switches route sets on: "openai" (/v1/chat/completions, /v1/embeddings), "ridges-a0" (/agents/*).
	Dialects []string
}

// Session is an open account at the gateway.
type Session interface {
	ID() string
	// BaseURL is where the session's routes are reached on this host, and
	// Header what identifies it there. Neither is ever shown to an agent.
	BaseURL() string
	Header() map[string]string
	// Spent returns what was settled so far, and the receipts in order.
	Spent() agon.Micros
	Receipts() []agon.Receipt
	// ProviderFailed tells what the gateway itself saw: the last upstream
	// failures of this session and whether its own canary failed too.
	Evidence() Evidence
	// Close ends the session: later calls are refused, open ones are settled.
	Close() error
}

// Evidence is what the gateway saw of its upstreams during a session. It is
// made outside the box and is the only thing that may move blame to a provider.
type Evidence struct {
	Calls          int    `json:"calls"`
	ProviderErrors int    `json:"provider_errors"`         // upstream 401, 402, 403, 429, 5xx, timeout, cut stream
	LastError      string `json:"last_error,omitempty"`    // class: auth, payment, rate_limit, server, timeout, truncated, bad_reply
	CanaryFailed   bool   `json:"canary_failed,omitempty"` // the gateway's own probe of the same upstream failed as well
	// AgentErrors counts 400, 404, 413, 422: the agent's own bad requests.
	AgentErrors int `json:"agent_errors,omitempty"`
}

// Recorder takes the events of a session in order. Implementations stamp Seq and At.
type Recorder interface {
	Record(typ, task string, data any)
}
