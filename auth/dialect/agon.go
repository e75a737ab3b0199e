package dialect

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agon-arena/agon/auth"
)

// Agon is agon-v1, our own form: method, path, query, body, audience, time and
// a nonce are all covered. Its checks are those of auth.Verifier.
type Agon struct {
	Audience string
}

// Name implements Dialect.
func (a Agon) Name() string { return auth.SchemeAgonV1 }

// Speaks implements Dialect.
func (a Agon) Speaks(r *Request) bool { return auth.Signed(r.Header) }

type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Field  string `json:"field,omitempty"`
	Mend   string `json:"mend,omitempty"`
}

func (a Agon) refuse(status int, code, detail string, err error) *Refusal {
	return &Refusal{Status: status, Code: code, Err: err, Body: problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}}
}

// Check implements Dialect.
func (a Agon) Check(ctx context.Context, v *Verifier, r *Request, need Need) (Identity, *Refusal) {
	inner := auth.Verifier{Audience: a.Audience, Now: v.Now, Replay: v.Replay}
	hotkey, e := inner.Verify(ctx, r.Method, r.Target(), r.Header, r.Body)
	if e != nil {
		refusal := a.refuse(e.Status, e.Code, e.Message, e)
		if e.Status >= 500 {
			refusal = broken(problem{Title: http.StatusText(e.Status), Status: e.Status, Detail: "internal error", Code: "internal"}, e)
		} else {
			refusal.Body = problem{Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Message, Code: e.Code, Field: e.Field, Mend: e.Mend}
		}
		return Identity{}, refusal
	}
	member, standing, err := v.Standing(ctx, hotkey, need)
	switch {
	case standing == StandingGood:
		return Identity{Hotkey: hotkey, Dialect: a.Name(), At: agonTime(r), Bound: true, Member: member}, nil
	case errors.Is(err, ErrStale):
		return Identity{}, a.refuse(503, "metagraph_stale", "the metagraph is too old to tell who is registered", err)
	case standing == StandingUnknown:
		return Identity{}, a.refuse(500, "internal", "internal error", err)
	case standing == StandingUnregistered:
		return Identity{}, a.refuse(403, "not_registered", "hotkey is not registered", nil)
	case standing == StandingNoValidator:
		return Identity{}, a.refuse(403, "not_a_validator", "hotkey holds no validator permit, or too little stake", nil)
	case standing == StandingNotOwner:
		return Identity{}, a.refuse(403, "not_owner", "hotkey belongs to another coldkey", nil)
	default:
		return Identity{}, a.refuse(403, "banned", "hotkey is banned", nil)
	}
}

// agonTime is the time that a checked request carries.
func agonTime(r *Request) time.Time {
	text, _ := r.get(auth.HeaderTimestamp)
	ms, ok := decimal(text)
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
