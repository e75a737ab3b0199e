package client

import (
	"context"
	"time"

	"github.com/agon-arena/agon"
)

// Case is one that counts against a validator.
type Case struct {
	Run   string    `json:"run"`
	Arena string    `json:"arena"`
	Role  string    `json:"role" doc:"player: its result was wrong; judge: its judging was; canary: it missed a play of known outcome"`
	At    time.Time `json:"at"`
	URL   string    `json:"url" doc:"what each said"`
	// Known and Observed are of a canary: the score, or the gain of a duel.
	Known    *float64 `json:"known,omitempty"`
	Observed *float64 `json:"observed,omitempty"`
}

// CanaryRequest is POST /v1/runs/{id}/canary.
type CanaryRequest struct {
	Rival      string   `json:"rival,omitempty" doc:"submission to play against on the same tasks and seed: a duel of known gain"`
	Known      *float64 `json:"known,omitempty" doc:"the score, or the gain of a duel; absent: as counted"`
	Tolerance  *float64 `json:"tolerance,omitempty" doc:"within which a validator's word is right; absent: 0.05, of a stage at most half a task"`
	Validators int      `json:"validators" doc:"how many play it, each once"`
	Reason     string   `json:"reason" maxLength:"2000"`
}

// MakeCanary has a run of known outcome played by validators whose word is measured so; for operators.
func (c *Client) MakeCanary(ctx context.Context, run string, r CanaryRequest) (*agon.Canary, error) {
	var out agon.Canary
	_, err := c.json(ctx, post(path("runs", run, "canary"), false), r, &out)
	return &out, err
}

// Canaries lists the canaries of an arena, with what validators made of them; for operators.
func (c *Client) Canaries(ctx context.Context, arena string) ([]agon.Canary, error) {
	var out struct {
		Items []agon.Canary `json:"items"`
	}
	_, err := c.json(ctx, get(path("arenas", arena, "canaries"), nil), nil, &out)
	return out.Items, err
}
