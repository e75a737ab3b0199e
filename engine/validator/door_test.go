package validator

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// caller is a kind whose agent, played on this host, sends one request through
// each of its doors.
type caller struct {
	kind.Kind
	watch *kind.Dialect // doors under watch; nil: plain ones
	path  string
	got   []int // statuses
}

func (c *caller) Play(ctx context.Context, env kind.Env, _ agon.Submission, r agon.RunSpec) (agon.Record, error) {
	var doors []sandbox.Door
	var err error
	if c.watch == nil {
		doors, err = env.Door(ctx, r.Tasks[0].Key, "127.0.0.1:8000")
	} else {
		var w kind.Watched
		w, err = env.(kind.Watcher).Watch(ctx, r.Tasks[0].Key, *c.watch, "127.0.0.1:8000")
		doors = w.Doors
	}
	if err != nil {
		return agon.Record{}, err
	}
	for _, d := range doors {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Target+c.path, strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			return agon.Record{}, err
		}
		req.Header.Set("Content-Type", "application/json")
		for k, v := range d.Header {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return agon.Record{}, err
		}
		_ = resp.Body.Close()
		c.got = append(c.got, resp.StatusCode)
	}
	return agon.Record{Outcome: "timeout"}, nil
}

// speaker is a caller whose kind chooses its dialects.
type speaker struct {
	*caller
	names []string
}

func (s speaker) Dialects() []string { return s.names }

// Doors speak what the kind says, and nothing else that the gateway serves.
func TestDoorsSpeakTheKindsDialects(t *testing.T) {
	g := gatewaytest.Start(t, gateway.Config{Dialects: []gateway.Dialect{{
		Name: "foreign", Routes: map[string]gateway.Route{"POST /foreign": {Path: "/foreign", Parse: gateway.ParseChat}},
	}}}, gatewaytest.Says(gatewaytest.Answer))
	const chat, tool = "/v1/chat/completions", "/v1/tools/x"
	for name, c := range map[string]struct {
		names []string // nil: the kind is not a Speaker
		watch *kind.Dialect
		path  string
		want  int
	}{
		"openai by default":    {nil, nil, chat, 200},
		"tools by default":     {nil, nil, tool, 404}, // the route is open, the tool is not there
		"foreign by default":   {nil, nil, "/foreign", 403},
		"foreign, chosen":      {[]string{"foreign"}, nil, "/foreign", 200},
		"openai, not chosen":   {[]string{"foreign"}, nil, chat, 403},
		"watched, default":     {nil, &kind.Dialect{}, chat, 200},
		"watched, foreign":     {nil, &kind.Dialect{}, "/foreign", 403},
		"watched, kind's":      {[]string{"foreign"}, &kind.Dialect{}, "/foreign", 200},
		"watched, named":       {nil, &kind.Dialect{Names: []string{"foreign"}}, "/foreign", 200},
		"watched, not named":   {nil, &kind.Dialect{Names: []string{"foreign"}}, chat, 403},
		"watched, names first": {[]string{"foreign"}, &kind.Dialect{Names: []string{gateway.DialectOpenAI}}, "/foreign", 403},
	} {
		k := &caller{watch: c.watch, path: c.path}
		kinds := map[string]kind.Kind{"k": k}
		if c.names != nil {
			kinds["k"] = speaker{k, c.names}
		}
		p := &Player{Driver: fake.New(fake.Config{}), Gateway: g, Kinds: kinds, Now: time.Now}
		a := p.Play(t.Context(), Job{Attempt: 1, Arena: agon.Arena{Kind: "k"}, Run: agon.RunSpec{
			Run: "run-" + strings.ReplaceAll(name, " ", "-"), Tasks: []agon.TaskRef{{Key: "set/a"}},
			Policy: agon.Policy{Models: []string{"*"}, Budget: agon.Budget{Micros: 1_000_000, Calls: 10}},
		}})
		if len(k.got) != 1 || k.got[0] != c.want {
			t.Errorf("%s: statuses %v, want %d (%s: %s)", name, k.got, c.want, a.Fault, a.Reason)
		}
	}
}
