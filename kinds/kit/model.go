package kit

import (
	"context"
	"errors"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// NoModel refuses what needs a real model where none is configured.
func NoModel(o Options, what string) error {
	if o.Getenv("AGON_LLM_BASE_URL") != "" {
		return nil
	}
	return &agon.Error{
		Code: "no_model", Status: 422, Message: what + " needs a model, and none is configured",
		Mend: "set AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL",
	}
}

// JudgeSession opens a gateway session that the operator pays, and a judge on it.
func JudgeSession(ctx context.Context, gw *gateway.Gateway, run, task, model string, budget agon.Micros) (*judge.Judge, gateway.Session, error) {
	p := gateway.Policy{
		Run: run, Attempt: 1, Task: task, Payer: "platform", Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI},
		Budget: agon.Budget{Micros: budget, Calls: 1 << 20},
	}
	if model != "" {
		p.Models = []string{model}
	}
	s, err := gw.Open(ctx, p, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := judge.New(judge.Config{Session: s, Model: model, Timeout: 5 * time.Minute})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return j, s, nil
}
