package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agon-arena/agon"
)

// LogProof shows that a fact stands in the transparency log: with the log's
// public key it needs nothing else.
type LogProof struct {
	Index      int64           `json:"index" doc:"the leaf's place in the log, from 0"`
	Entry      json.RawMessage `json:"entry" doc:"what the log says: {type, id, arena, at, body, commitment}"`
	Salt       string          `json:"salt,omitempty" doc:"opens the commitment, for those who may read the fact"`
	Hashes     []string        `json:"hashes" doc:"inclusion proof (RFC 6962), base64"`
	Checkpoint string          `json:"checkpoint" doc:"signed head of the log, a C2SP checkpoint"`
	Key        string          `json:"key" doc:"public key of the log, as it says itself"`
}

// LogConsistency shows that a log of Size leaves begins the log of Checkpoint.
type LogConsistency struct {
	Size       int64    `json:"size"`
	Hashes     []string `json:"hashes" doc:"consistency proof (RFC 6962), base64"`
	Checkpoint string   `json:"checkpoint"`
	Key        string   `json:"key"`
}

// LogProof proves that a fact is in the log. typ is submission, result
// (RUN/ATTEMPT), decision or operator.
func (c *Client) LogProof(ctx context.Context, typ, id string) (*LogProof, error) {
	var out LogProof
	_, err := c.json(ctx, get(path("log", "proof"), url.Values{"type": {typ}, "id": {id}}), nil, &out)
	return ptr(&out, err)
}

// LogConsistency proves that the log of a size begins the newest one.
func (c *Client) LogConsistency(ctx context.Context, size int64) (*LogConsistency, error) {
	var out LogConsistency
	_, err := c.json(ctx, get(path("log", "consistency"), url.Values{"size": {strconv.FormatInt(size, 10)}}), nil, &out)
	return ptr(&out, err)
}

// Receipts returns what is stored of the calls of an attempt.
func (c *Client) Receipts(ctx context.Context, run string, attempt int) ([]agon.Receipt, error) {
	var out Page[agon.Receipt]
	_, err := c.json(ctx, get(path("runs", run, "receipts"), url.Values{"attempt": {strconv.Itoa(attempt)}}), nil, &out)
	return out.Items, err
}

// LogKeys returns which keys of the log have followed which, as its file has it;
// nil where the key was never changed.
func (c *Client) LogKeys(ctx context.Context) ([]byte, error) {
	ca := get("/log/keys", nil)
	ca.unsigned, ca.limit = true, 1<<20
	r, err := c.send(ctx, ca)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.body, nil
}

// LogCheckpoint returns the newest signed head of the log, as its file has it.
func (c *Client) LogCheckpoint(ctx context.Context) (string, error) {
	ca := get("/log/checkpoint", nil)
	ca.unsigned, ca.limit = true, 64<<10
	r, err := c.send(ctx, ca)
	if err != nil {
		return "", err
	}
	return string(r.body), nil
}
