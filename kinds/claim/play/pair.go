package play

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/plain"
)

// PairsFile is the record's file that holds the pairs, one JSON object a line
// in the order of the run's tasks.
const PairsFile = "pairs.jsonl"

// ErrorCode is the only code of a failed pair on the seed's wire.
const ErrorCode = "sandbox_invocation_failed"

// PairError is why a pair failed, as its sandbox said. Foreign text, cut.
type PairError struct {
	Status    int    `json:"status"` // HTTP status of the sandbox, 0 without one
	Code      string `json:"code,omitempty"`
	Exception string `json:"exception,omitempty"`
	Message   string `json:"message,omitempty"`
}

// PairSession tells of the tool session of a pair.
type PairSession struct {
	ID        string      `json:"session_id"`
	Status    string      `json:"status"`
	IssuedAt  time.Time   `json:"issued_at"`
	ExpiresAt time.Time   `json:"expires_at"`
	Budget    agon.Micros `json:"budget_micros"`
	Spent     agon.Micros `json:"spent_micros"` // at the arena's prices
	Calls     int         `json:"calls"`
}

// Pair is what one script made of one claim.
type Pair struct {
	Task      string       `json:"task"`
	ClaimID   string       `json:"claim_id"`
	Outcome   string       `json:"outcome"`
	Error     *PairError   `json:"error,omitempty"`
	Response  *PairReply   `json:"response,omitempty"` // of agon.OutcomeOK
	Answer    *QueryAnswer `json:"answer,omitempty"`   // of agon.OutcomeOK in an arena of queries
	Session   PairSession  `json:"session"`
	ElapsedMS int64        `json:"elapsed_ms"`
	Tools     []ToolDigest `json:"tools,omitempty"`
}

// PairReply is a script's checked answer with hydrated citations.
type PairReply struct {
	Verdict       int        `json:"verdict"`
	Justification string     `json:"justification"`
	Citations     []Hydrated `json:"citations"`
	// Dropped counts the citations that no receipt of the session bears out.
	Dropped int `json:"dropped,omitempty"`
}

// ToolDigest is a receipt without its payloads, which the event log holds.
type ToolDigest struct {
	ReceiptID    string      `json:"receipt_id"`
	Tool         string      `json:"tool"`
	Outcome      string      `json:"outcome"`
	RequestHash  string      `json:"request_hash"`
	ResponseHash string      `json:"response_hash,omitempty"`
	Cost         agon.Micros `json:"cost_micros"`
	Model        string      `json:"model,omitempty"`
	Prompt       int64       `json:"prompt_tokens,omitempty"`
	Completion   int64       `json:"completion_tokens,omitempty"`
}

func digests(list []tools.Receipt) (out []ToolDigest, spent agon.Micros) {
	for _, r := range list {
		spent += r.Cost
		out = append(out, ToolDigest{
			ReceiptID: r.ReceiptID, Tool: r.Tool, Outcome: r.Outcome, RequestHash: r.RequestHash, ResponseHash: r.ResponseHash,
			Cost: r.Cost, Model: r.Model, Prompt: r.Prompt, Completion: r.Completion,
		})
	}
	return out, spent
}

// fail sets the outcome of a pair that is worth nothing.
func (p *Pair) fail(outcome string, e PairError) {
	e.Code, e.Exception, e.Message = plain.Short(e.Code, 60), plain.Short(e.Exception, 100), plain.Short(e.Message, 500)
	p.Outcome, p.Error, p.Response, p.Answer = outcome, &e, nil, nil
}

// detail is one line for the miner.
func (p *Pair) detail() string {
	if p.Error == nil {
		return ""
	}
	if p.Outcome == agon.OutcomeNoEntry {
		return "the script registers no entry point " + p.Error.Message
	}
	parts := []string{p.Outcome}
	for _, s := range []string{p.Error.Exception, p.Error.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// EncodePairs renders pairs.jsonl.
func EncodePairs(pairs []Pair) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, p := range pairs {
		if err := e.Encode(p); err != nil {
			return nil, fmt.Errorf("encode pairs: %w", err)
		}
	}
	return b.Bytes(), nil
}

// DecodePairs reads pairs.jsonl.
func DecodePairs(b []byte) ([]Pair, error) {
	var out []Pair
	d := json.NewDecoder(bytes.NewReader(b))
	for d.More() {
		var p Pair
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("decode pairs: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}
