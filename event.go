package agon

import (
	"encoding/json"
	"time"
)

// Event is one line of a run's trajectory. The ordered events of an attempt
// are the evidence a corpus is built from; docs/events.md describes each Type
// and its Data. Events are written by the engine and the gateway, never by an agent.
type Event struct {
	Run     string          `json:"run"`
	Attempt int             `json:"attempt"`
	Task    string          `json:"task,omitempty"` // TaskRef.Key
	Seq     int64           `json:"seq"`            // from 1, without gaps within an attempt
	At      time.Time       `json:"at"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Event types.
const (
	EventPhase   = "phase"        // {"phase": "...", "detail": "..."}: leased, playing, judging, scored, failed
	EventBox     = "box"          // {"role","action":"start|end","driver","exit":{…},"ms"}
	EventModel   = "model_call"   // gateway.ModelCall: {"receipt", "request", "response", "message", …}
	EventTool    = "tool_call"    // gateway.ToolCallEvent: the same for metered tools
	EventRefused = "refused_call" // {"route","status","code","message"}
	EventOutput  = "output"       // {"stream":"stdout|stderr","text","truncated"}: agent text, hostile
	EventScore   = "score"        // Score
	EventNote    = "note"         // {"text"}: engine's remarks (retries, canary results)
)

// Receipt is the gateway's record of one call. Nothing in it comes from the agent's word.
type Receipt struct {
	ID           string    `json:"id"`
	Session      string    `json:"session"`
	Run          string    `json:"run"`
	Attempt      int       `json:"attempt"`
	Task         string    `json:"task,omitempty"`
	Route        string    `json:"route"` // for example "/v1/chat/completions"
	Model        string    `json:"model"`
	Provider     string    `json:"provider"` // name of the upstream; "scripted" is a script, no model
	RequestHash  Digest    `json:"request_hash"`
	ResponseHash Digest    `json:"response_hash"`
	Prompt       int64     `json:"prompt_tokens"`
	Completion   int64     `json:"completion_tokens"`
	Cached       int64     `json:"cached_tokens,omitempty"` // of the prompt, billed at the price of a cache
	Estimated    bool      `json:"estimated,omitempty"`     // usage was missing and was estimated
	PriceVersion string    `json:"price_version"`
	Reserved     Micros    `json:"reserved_micros"`
	Cost         Micros    `json:"cost_micros"` // settled: 0 ≤ cost ≤ reserved
	Status       int       `json:"status"`      // what the client got
	Outcome      string    `json:"outcome"`     // ok, refused, provider_error, client_gone, truncated
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`

	// Payer is who was billed: "run" or "platform".
	Payer string `json:"payer,omitempty"`
	// Emitted names the model call whose reply asked for this tool call, by
	// receipt id: the gateway's own mark in that reply came back with it. Empty
	// on model calls, and on tool calls that the agent's code made of its own.
	Emitted string `json:"emitted,omitempty"`
	// N is the place in the chain of the attempt, from 1 without gaps; Prev is
	// the hash of the receipt before it (gateway.ReceiptHash), empty at N = 1.
	N    int64  `json:"n,omitempty"`
	Prev Digest `json:"prev,omitempty"`
	// Signer is the gateway's key (ed25519, SS58) and Sig its signature, hex,
	// over the hash. A signature covers the whole chain up to its receipt; of
	// receipts that were committed together only the last carries one.
	Signer string `json:"signer,omitempty"`
	Sig    string `json:"sig,omitempty"`
}

// Script is the provider whose replies come from a file (docs/scripted.md).
const Script = "scripted"

// Scripted reports whether a script answered the agent in a model's place.
// Calls of judges say nothing of the agent, and failed calls gave it nothing.
func (r Receipt) Scripted() bool {
	return r.Provider == Script && r.Payer != "platform" && r.Outcome == "ok"
}

// Modelled reports whether a model answered the agent: a call of a tool has no tokens.
func (r Receipt) Modelled() bool {
	return r.Provider != Script && r.Payer != "platform" && r.Outcome == "ok" && r.Prompt+r.Completion > 0
}

// Statement is what a gateway signs when an attempt has ended: how many calls
// it answered, where their chain ends and what they cost, also for none. An
// attempt has one, and no call follows it: receipts that are left out show.
type Statement struct {
	Run     string `json:"run"`
	Attempt int    `json:"attempt"`
	Calls   int64  `json:"calls"`
	Head    Digest `json:"head,omitempty"` // hash of the last receipt; empty without calls
	Cost    Micros `json:"cost_micros"`    // of all payers
	Signer  string `json:"signer"`         // the gateway's key, SS58
	Sig     string `json:"sig"`            // ed25519, hex
}
