package roles

import (
	"context"
	"net/http"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

// signatures is the verifier in the API's words: one for what changes something,
// one for reads. A request is signed by agon-v1, or by btauth/1 for the operator's
// hotkey as its receiver; one that carries marks of both is the first's.
type signatures struct {
	writes, reads *auth.Verifier
	operator      string // SS58
}

// bittensor tells whether h is to be read as btauth/1.
func (s signatures) bittensor(h http.Header) bool {
	return !auth.Signed(h) && dialect.BTAuth{}.Speaks(&dialect.Request{Header: h})
}

// VerifyRequest implements api.Verifier.
func (s signatures) VerifyRequest(ctx context.Context, method, target string, h http.Header, body []byte) (string, error) {
	v := s.writes
	if method == http.MethodGet || method == http.MethodHead {
		v = s.reads
	}
	if !s.bittensor(h) {
		hotkey, err := v.Verify(ctx, method, target, h, body)
		if err != nil {
			return "", err
		}
		return hotkey, nil
	}
	path, query, _ := strings.Cut(target, "?")
	bt := dialect.BTAuth{Self: s.operator}
	who, refused := bt.Check(ctx, &dialect.Verifier{Now: v.Now, Replay: v.Replay}, &dialect.Request{Method: method, Path: path, Query: query, Header: h, Body: body}, dialect.Need{})
	if refused != nil {
		return "", s.problem(refused)
	}
	return who.Hotkey, nil
}

// CheckHeaders implements api.Verifier.
func (s signatures) CheckHeaders(_ string, h http.Header) (string, error) {
	if s.bittensor(h) {
		hotkey, refused := dialect.BTAuth{Self: s.operator}.CheckHeaders(h, s.writes.Now())
		if refused != nil {
			return "", s.problem(refused)
		}
		return hotkey, nil
	}
	hotkey, err := s.writes.CheckHeaders(h)
	if err != nil {
		return "", err
	}
	return hotkey, nil
}

// problem is a refusal of btauth/1 as the API's: its detail is what the SDK reads.
func (s signatures) problem(r *dialect.Refusal) error {
	e := &agon.Error{Code: "bad_signature", Status: r.Status, Message: r.Code, Mend: "sign anew, for the receiver " + s.operator, Err: r.Err}
	if r.Status >= 500 {
		e.Code, e.Message, e.Mend, e.Fault = "internal", "internal error", "", agon.FaultPlatform
	}
	return e
}
