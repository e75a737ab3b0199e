package validator

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// sessions is a Gateway that counts what is open.
type sessions struct {
	open func()             // called before each session is made; nil: nothing
	ev   []gateway.Evidence // of the sessions, in order

	mu     sync.Mutex
	opened int // guarded by mu
	closed int // guarded by mu
}

func (g *sessions) Open(context.Context, gateway.Policy, gateway.Recorder) (gateway.Session, error) {
	if g.open != nil {
		g.open()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &countedSession{g: g}
	if g.opened < len(g.ev) {
		s.ev = g.ev[g.opened]
	}
	g.opened++
	return s, nil
}

func (g *sessions) counts() (opened, closed int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.closed
}

type countedSession struct {
	g    *sessions
	ev   gateway.Evidence
	once sync.Once
}

func (s *countedSession) ID() string                 { return "s" }
func (s *countedSession) BaseURL() string            { return "http://127.0.0.1:1" }
func (s *countedSession) Header() map[string]string  { return nil }
func (s *countedSession) Spent() agon.Micros         { return 0 }
func (s *countedSession) Receipts() []agon.Receipt   { return nil }
func (s *countedSession) Evidence() gateway.Evidence { return s.ev }
func (s *countedSession) Close() error {
	s.once.Do(func() {
		s.g.mu.Lock()
		s.g.closed++
		s.g.mu.Unlock()
	})
	return nil
}

const toolSession = "0b51b3a2-9b1e-4f0e-8a7c-2f6f6f1f7a11"

// asks is every service of an attempt that can leave something open.
var asks = map[string]func(context.Context, *env) error{
	"box": func(ctx context.Context, e *env) error {
		_, err := e.Box(ctx, sandbox.Spec{Name: "late"})
		return err
	},
	"door": func(ctx context.Context, e *env) error {
		_, err := e.Door(ctx, "set/a", "127.0.0.1:8000")
		return err
	},
	"model": func(ctx context.Context, e *env) error {
		_, err := e.Model(ctx, gateway.Policy{})
		return err
	},
	"watch": func(ctx context.Context, e *env) error {
		_, err := e.Watch(ctx, "set/a", kind.Dialect{Names: []string{gateway.DialectOpenAI}})
		return err
	},
	"tools": func(ctx context.Context, e *env) error {
		_, err := e.Tools(ctx, "set/a", tools.SessionConfig{ID: toolSession})
		return err
	},
	"model call of a tool": func(ctx context.Context, e *env) error {
		_, err := (&lazyLLM{e: e, task: "set/a"}).Chat(ctx, "m", map[string]json.RawMessage{})
		if f := (*tools.Failure)(nil); errors.As(err, &f) && f.Own {
			return errEnded // reported to the script, and no fault of a provider
		}
		return err
	},
}

// newEnv is the environment of an attempt over fakes; during is called in the
// middle of whatever is opened.
func newEnv(t *testing.T, during func()) (*env, *fake.Driver, *sessions, *tools.Host) {
	t.Helper()
	d := fake.New(fake.Config{Start: func(context.Context, *fake.Box) error { during(); return nil }})
	g := &sessions{open: during}
	h := tools.New(tools.Config{Now: func() time.Time { during(); return time.Now() }})
	p := &Player{Driver: d, Gateway: g, Now: time.Now, Tools: &ToolHost{Host: h, URL: "http://127.0.0.1:1"}}
	return &env{p: p, job: Job{Run: agon.RunSpec{Run: "r"}, Attempt: 1}, rec: &recorder{run: "r", attempt: 1, now: time.Now}, phase: PhasePlay}, d, g, h
}

// What a kind asks for after its attempt has ended is refused, and leaves
// neither a trace in the attempt nor anything open.
func TestEndedAttemptOpensNothing(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			e, d, g, _ := newEnv(t, func() {})
			e.close()
			if err := ask(t.Context(), e); !errors.Is(err, errEnded) {
				t.Errorf("got %v", err)
			}
			if n := len(d.Boxes()); n != 0 {
				t.Errorf("%d boxes were started", n)
			}
			if n, _ := g.counts(); n != 0 {
				t.Errorf("%d sessions were opened", n)
			}
			if len(e.obs.Notes) != 0 {
				t.Errorf("noted %v", e.obs.Notes)
			}
		})
	}
}

// An attempt may end while something is being opened for it: that is closed at
// once, for nobody else will.
func TestAttemptEndsWhileOpening(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			var e *env
			var once sync.Once
			during := func() { // on the way, another goroutine ends the attempt
				once.Do(func() {
					done := make(chan struct{})
					go func() { defer close(done); e.close() }()
					<-done
				})
			}
			e, d, g, h := newEnv(t, func() { during() })
			if err := ask(t.Context(), e); !errors.Is(err, errEnded) {
				t.Errorf("got %v", err)
			}
			if n := d.Open(); n != 0 {
				t.Errorf("%d boxes are left open", n)
			}
			if opened, closed := g.counts(); opened != closed {
				t.Errorf("%d of %d sessions are left open", opened-closed, opened)
			}
			if _, err := h.Open(tools.SessionConfig{ID: toolSession}); err != nil { // the host has one of a name
				t.Errorf("the tool session is left open: %v", err)
			}
			if len(e.obs.Notes) != 0 {
				t.Errorf("noted %v", e.obs.Notes)
			}
		})
	}
}
