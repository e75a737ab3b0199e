// Package tool is what the gateway knows about metered tools. Implementations
// live below it.
package tool

import (
	"context"
	"encoding/json"

	"github.com/agon-arena/agon"
)

// Tool is one metered tool. Safe for concurrent use.
type Tool interface {
	// Name is how agents call it: [a-z0-9_], at most 64 bytes.
	Name() string
	// Source is what receipts say of where it answers. No secret, no address.
	Source() string
	Price() Price
	// Check reads arguments, one JSON object without duplicate keys. An error
	// names the field and is the agent's; it returns what Do takes.
	Check(args []byte) (any, error)
	// Do answers. Its error is a *provider.Failure: never the agent's. Body is
	// JSON; Results is what Price.PerResult counts. It bounds what it reads.
	Do(ctx context.Context, checked any) (Reply, error)
}

// Reply is what a tool answered.
type Reply struct {
	Body    json.RawMessage
	Results int64
	// Status is set, from 400 to 499, where the tool refuses the arguments: the
	// agent's own error, told in Body. It costs a call and no money.
	Status int
}

// Price is what a call costs, in micro-dollars: reserved for MaxResults,
// settled for the results that came.
type Price struct {
	PerCall    agon.Micros
	PerResult  agon.Micros
	MaxResults int64
	Version    string
}
