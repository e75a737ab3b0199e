package kit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// NoModel refuses what needs a real model where none is configured.
func NoModel(o Options, what string) error {
	if o.Getenv("AGON_LLM_BASE_URL") != "" || o.Getenv("AGON_JUDGE_BASE_URL") != "" {
		return nil
	}
	return &agon.Error{
		Code: "no_model", Status: 422, Message: what + " needs a model, and none is configured",
		Mend: "set AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL",
	}
}

// Roles of models beside the agents'. Each may have its own: AGON_JUDGE_MODEL,
// AGON_PROPOSER_MODEL, AGON_REFERENCE_MODEL, AGON_AUDITOR_MODEL.
const (
	RoleJudge     = "JUDGE"
	RoleProposer  = "PROPOSER"
	RoleReference = "REFERENCE"
	RoleAuditor   = "AUDITOR"
)

// Models are the models of a role, the first before those that stand in for it:
// AGON_<role>_MODEL, or else AGON_LLM_MODEL. Both are one name, or several
// between commas.
func (o Options) Models(role string) []string {
	if o.Getenv == nil {
		return nil
	}
	if list := ModelNames(o.Getenv("AGON_" + role + "_MODEL")); len(list) > 0 {
		return list
	}
	return ModelNames(o.Getenv("AGON_LLM_MODEL"))
}

// ModelNames splits a list of models between commas.
func ModelNames(s string) (out []string) {
	for m := range strings.SplitSeq(s, ",") {
		if m = strings.TrimSpace(m); m != "" && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// JudgeSession opens a gateway session that the operator pays, and a judge on it.
// models are asked in turn; without one it is the gateway's first.
func JudgeSession(ctx context.Context, gw *gateway.Gateway, run, task string, models []string, panel int, budget agon.Micros) (*judge.Judge, gateway.Session, error) {
	p := gateway.Policy{
		Run: run, Attempt: 1, Task: task, Payer: "platform", Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI},
		Budget: agon.Budget{Micros: budget, Calls: 1 << 20},
	}
	c := judge.Config{Timeout: 5 * time.Minute, Panel: panel}
	if len(models) > 0 {
		p.Models, c.Model, c.Others = models, models[0], models[1:]
	}
	s, err := gw.Open(ctx, p, nil)
	if err != nil {
		return nil, nil, err
	}
	c.Session = s
	j, err := judge.New(c)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return j, s, nil
}

// Providers are the addresses, without /v1, of the providers of models that miners leave
// keys of: those of the providers, or AGON_CHUTES_URL, AGON_OPENROUTER_URL, AGON_AI_GATEWAY_URL.
func Providers(getenv func(string) string) map[string]string {
	out := map[string]string{"chutes": "https://llm.chutes.ai", "openrouter": "https://openrouter.ai/api", "ai_gateway": "https://ai-gateway.vercel.sh"}
	for name, key := range map[string]string{"chutes": "AGON_CHUTES_URL", "openrouter": "AGON_OPENROUTER_URL", "ai_gateway": "AGON_AI_GATEWAY_URL"} {
		if at := getenv(key); at != "" {
			out[name] = at
		}
	}
	return out
}
