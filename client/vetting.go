package client

import (
	"context"
	"net/url"
	"time"
)

// Vetting is a question to somebody outside: may a submission be played (entry), may
// it sit (seat). A worker holds it for a time.
type Vetting struct {
	ID         string     `json:"id"`
	Arena      string     `json:"arena"`
	Submission string     `json:"submission"`
	What       string     `json:"what" doc:"entry: before it is played; seat: before it sits"`
	State      string     `json:"state" doc:"open, held, sent (a worker was unsure: the operator settles it), done"`
	Tries      int        `json:"tries" doc:"how often it was taken"`
	Worker     string     `json:"worker,omitempty" doc:"who has it, or had it last"`
	LeaseUntil *time.Time `json:"lease_until,omitempty" doc:"until when the worker has it"`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"not before"`
	Verdict    string     `json:"verdict,omitempty" doc:"passed, refused or unsure"`
	Score      float64    `json:"score,omitempty"`
	Confidence float64    `json:"confidence,omitempty"`
	Summary    string     `json:"summary,omitempty"`
	Error      string     `json:"error,omitempty" doc:"why the last try came to nothing"`
	Actor      string     `json:"actor,omitempty" doc:"of the operator, who settled it"`
	CreatedAt  time.Time  `json:"created_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Token      string     `json:"token,omitempty" doc:"of who has just taken it"`
}

// VettingClaim is POST /v1/arenas/{arena}/vettings/take (operator).
type VettingClaim struct {
	What    string `json:"what" enum:"entry,seat" doc:"which of the two questions"`
	Worker  string `json:"worker" maxLength:"200" doc:"a name for the lists"`
	Seconds int    `json:"seconds" minimum:"10" maximum:"7200" doc:"for how long"`
}

// VettingHold is POST /v1/vettings/{id}/extend (operator): the worker goes on.
type VettingHold struct {
	Token   string `json:"token" maxLength:"64"`
	Seconds int    `json:"seconds" minimum:"10" maximum:"7200" doc:"from now; never less than it has"`
}

// VettingAnswer is POST /v1/vettings/{id}/verdict (operator): what the worker found, or
// why it could not.
type VettingAnswer struct {
	Token      string  `json:"token" maxLength:"64"`
	Verdict    string  `json:"verdict,omitempty" doc:"passed, refused or unsure"`
	Score      float64 `json:"score,omitempty" doc:"0 to 1"`
	Confidence float64 `json:"confidence,omitempty" doc:"0 to 1"`
	Summary    string  `json:"summary,omitempty" maxLength:"4096"`
	Error      string  `json:"error,omitempty" maxLength:"4096" doc:"another try is made later"`
}

// VettingReview is POST /v1/vettings/{id}/review (operator): what a worker was unsure of.
type VettingReview struct {
	Pass   bool   `json:"pass"`
	Reason string `json:"reason" maxLength:"2000"`
}

// Vettings lists the newest of an arena, of a question and in a state ("" is any); for operators.
func (c *Client) Vettings(ctx context.Context, arena, what, state string) ([]Vetting, error) {
	var out Page[Vetting]
	q := url.Values{"what": {what}}
	if state != "" {
		q.Set("state", state)
	}
	_, err := c.json(ctx, get(path("arenas", arena, "vettings"), q), nil, &out)
	return out.Items, err
}

// ClaimVetting takes the one that has waited longest; an answer without an id says that none waits.
func (c *Client) ClaimVetting(ctx context.Context, arena string, r VettingClaim) (*Vetting, error) {
	return c.vetting(ctx, path("arenas", arena, "vettings", "take"), r)
}

// ExtendVetting keeps one that is held.
func (c *Client) ExtendVetting(ctx context.Context, id string, r VettingHold) (*Vetting, error) {
	return c.vetting(ctx, path("vettings", id, "extend"), r)
}

// AnswerVetting says what came of one that is held.
func (c *Client) AnswerVetting(ctx context.Context, id string, r VettingAnswer) (*Vetting, error) {
	return c.vetting(ctx, path("vettings", id, "verdict"), r)
}

// ReviewVetting settles one that a worker was unsure of.
func (c *Client) ReviewVetting(ctx context.Context, id string, r VettingReview) (*Vetting, error) {
	return c.vetting(ctx, path("vettings", id, "review"), r)
}

func (c *Client) vetting(ctx context.Context, at string, r any) (*Vetting, error) {
	var out Vetting
	_, err := c.json(ctx, post(at, false), r, &out)
	return &out, err
}
