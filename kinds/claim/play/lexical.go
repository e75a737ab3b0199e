package play

import (
	"context"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// LexicalJudge compares words where there is no model to ask (judge.Lexically);
// demos and tests use it.
type LexicalJudge struct{}

// Version implements SupportJudge.
func (LexicalJudge) Version() string { return judge.LexicalSupport }

// Policy implements SupportJudge: no session is ever opened.
func (LexicalJudge) Policy() gateway.Policy { return gateway.Policy{} }

// Support implements SupportJudge.
func (LexicalJudge) Support(_ context.Context, _ func() (gateway.Session, error), in SupportInput) (SupportVerdict, error) {
	v := judge.Lexically(in.supportCase())
	return SupportVerdict{OK: v.SupportOK, Rationale: v.Rationale}, nil
}
