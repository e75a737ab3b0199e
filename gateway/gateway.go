// Package gateway is the only door out of a box: models and tools, allow-listed,
// metered and recorded. All evidence and all money pass here.
package gateway

import (
	"fmt"

	"github.com/agon-arena/agon"
)

// TokenHeader carries the session's token, 64 hex digits. The door of a box
// sets it on the host's side; an agent never sees it.
const TokenHeader = "Agon-Session"

// The payers. A judge's calls are the platform's money: that is its name in receipts.
const (
	PayerRun   = "run"
	PayerJudge = "platform"
)

// Policy is what one session may do. Nothing is implied: a session without
// dialects is refused by Open, one without calls or without money for a
// model that costs some has every call refused.
type Policy struct {
	Run     string
	Attempt int
	Task    string
	// Payer is who is billed: PayerRun (default) for agents, PayerJudge for judges.
	Payer  string
	Models []string // allow-list; "*" admits any model with a price
	// Aliases are other names of models that the gateway offers. A call by one costs
	// what it says, whichever model of the list it stands for.
	Aliases []agon.Alias `json:",omitempty"`
	// Budget is that of the account, not of the session: every session of one
	// run, attempt and payer (for a platform also task) draws on the same one
	// and must name the same budget.
	Budget agon.Budget
	// Whole makes a judge's account that of the attempt instead of one task: its
	// budget is then for all tasks together.
	Whole bool `json:"-"`
	// Dialects switches route sets on, by name: DialectOpenAI, DialectTools and
	// those of Config.Dialects. A request goes to the first that knows its route.
	Dialects []string
	// At is the URL of the gateway that is to open the session, and Key the
	// address of the key that it must have; empty: this process's own. A
	// Gateway itself does not look at them.
	At  string `json:"-"`
	Key string `json:"-"`
	// Fields says what becomes of groups of a request's fields (FieldGroups):
	// "refuse" or "strip", for "sampling" also "allow". Groups that are not
	// named keep the default: sampling is allowed, everything else refused.
	Fields map[string]string
	// Usage says what becomes of a count of tokens that the text contradicts:
	// agon.UsageReport (default) or agon.UsageRefuse.
	Usage string
	// Tools lists the metered tools that the session may call; "*" admits all
	// that the gateway has. They need DialectTools.
	Tools []string
	// NonceField, if set, is the member under which the gateway adds its marks
	// of the tool calls that a model asked for to a JSON reply, or to one more
	// event of a stream, as {"tool_nonces": {call id: token}}. It is the one thing
	// that is ever added to a provider's bytes.
	NonceField string
}

// Signs reports whether the gateway's key is key, or follows it by signed
// successions. An empty key admits any.
func (i Info) Signs(key string) bool {
	return key == "" || Follows(key, i.Signer, i.Successions)
}

// account names the account that a session draws on.
func (p Policy) account() string {
	name := fmt.Sprintf("%s/%d/%s", p.Run, p.Attempt, p.Payer)
	if p.Payer != payerRun && !p.Whole {
		name += "/" + p.Task
	}
	return name
}

// Session is an open door to an account.
type Session interface {
	ID() string
	// BaseURL is where the session's routes are reached on this host, and
	// Header what identifies it there. Neither is ever shown to an agent.
	BaseURL() string
	Header() map[string]string
	// Spent returns what was settled so far, and the receipts in order.
	Spent() agon.Micros
	Receipts() []agon.Receipt
	// Evidence tells what the gateway itself saw: the last upstream
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
	// Recovered says that a call succeeded after the last provider error: the session went on.
	Recovered bool `json:"recovered,omitempty"`
	// AgentErrors counts 400, 404, 413, 422: the agent's own bad requests.
	AgentErrors int `json:"agent_errors,omitempty"`
}

// Recorder takes the events of a session in order. Implementations stamp Seq
// and At. The gateway calls Record one at a time per session, never after the
// session's Close has returned, and never changes data afterwards. The types
// of data are ModelCall, Refused and Note (docs/events.md).
type Recorder interface {
	Record(typ, task string, data any)
}
