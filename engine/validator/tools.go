package validator

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
)

// ToolHost is a tool host that listens on this machine.
type ToolHost struct {
	Host *tools.Host
	URL  string
	// Alias maps the models of llm_chat to the gateway's names; "*" maps all others.
	Alias map[string]string
}

// Tools implements kind.Env. Its receipts become events, what the host saw of
// its back ends becomes evidence.
func (e *env) Tools(ctx context.Context, taskKey string, c tools.SessionConfig) (kind.ToolSession, error) {
	if err := errors.Join(ctx.Err(), e.ended()); err != nil {
		return kind.ToolSession{}, err
	}
	th := e.p.Tools
	if th == nil {
		e.note(agon.FaultValidator, "this validator has no tool host")
		return kind.ToolSession{}, errors.New("open tool session: this validator has no tool host")
	}
	if c.LLM == nil {
		c.LLM = &lazyLLM{e: e, task: taskKey, alias: th.Alias}
	}
	c.Run, c.Attempt, c.Task = e.job.Run.Run, e.job.Attempt, taskKey
	next := c.Record
	c.Record = func(r tools.Receipt) {
		e.rec.Record(agon.EventTool, taskKey, map[string]any{"tool": r})
		if next != nil {
			next(r)
		}
	}
	s, err := th.Host.Open(c)
	if err != nil {
		e.note(agon.FaultValidator, "opening a tool session: "+err.Error())
		return kind.ToolSession{}, err
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.tools = append(e.tools, s)
	}
	e.mu.Unlock()
	if closed {
		s.Close(tools.StatusError)
		return kind.ToolSession{}, errEnded
	}
	return kind.ToolSession{Session: s, URL: th.URL}, nil
}

// closeTools ends every tool session and sums up what the host saw. Model
// calls are counted by the gateway, through which they went.
func (e *env) closeTools() (cost agon.Micros, ev gateway.Evidence) {
	e.mu.Lock()
	list := e.tools
	e.mu.Unlock()
	for _, s := range list {
		s.Close(tools.StatusError)
		for _, r := range s.Receipts() {
			if r.Tool != tools.LLMChat {
				cost += r.Cost
			}
		}
		g := s.Evidence()
		ev.Calls += g.Calls
		ev.ProviderErrors += g.ProviderErrors
		ev.AgentErrors += g.AgentErrors
		ev.CanaryFailed = ev.CanaryFailed || g.CanaryFailed
		if g.LastError != "" {
			ev.LastError = g.LastError
		}
	}
	return cost, ev
}

// lazyLLM opens the gateway's session with the first model call: most scripts
// of a fast arena make none, and a session costs a durable write.
type lazyLLM struct {
	e     *env
	task  string
	alias map[string]string

	once sync.Once
	llm  tools.GatewayLLM
	err  error
}

// Name implements tools.LLM.
func (l *lazyLLM) Name() string { return "gateway" }

// Chat implements tools.LLM.
func (l *lazyLLM) Chat(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	return l.llm.Chat(ctx, model, body)
}

// Embed implements tools.Embedder.
func (l *lazyLLM) Embed(ctx context.Context, model string, body map[string]json.RawMessage) ([]byte, error) {
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	return l.llm.Embed(ctx, model, body)
}

func (l *lazyLLM) open(ctx context.Context) error {
	l.once.Do(func() {
		// The call that comes first must not decide for how long the session lives.
		s, err := l.e.session(context.WithoutCancel(ctx), l.e.agentPolicy(l.task, []string{gateway.DialectOpenAI}), l.e.rec)
		if errors.Is(err, errEnded) {
			err = &tools.Failure{Class: "refused", Own: true, Detail: err.Error()} // no provider failed
		}
		if err != nil {
			l.err = err
			return
		}
		l.llm = tools.GatewayLLM{Session: s, Alias: l.alias}
	})
	return l.err
}
