package trainer

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
)

// seen keeps what the trainer's server would get.
type seen struct{ req provider.Request }

func (s *seen) Name() string     { return "server" }
func (s *seen) Models() []string { return []string{"policy-7"} }
func (s *seen) Do(_ context.Context, r provider.Request) (*provider.Reply, error) {
	s.req = r
	return &provider.Reply{Status: 200}, nil
}

func TestCallsAskForTokens(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		sampling         map[string]float64
		want             string
	}{
		{"plain", provider.PathChat, `{"model":"trainer","messages":[],"max_tokens":9}`, nil, `{"logprobs":true,"max_tokens":9,"messages":[],"model":"policy-7","return_token_ids":true}`},
		{"the agent's wishes give way", provider.PathChat, `{"model":"x","logprobs":false,"temperature":0,"max_completion_tokens":9}`, map[string]float64{"temperature": 1, "max_tokens": 5}, `{"logprobs":true,"max_completion_tokens":5,"model":"policy-7","return_token_ids":true,"temperature":1}`},
		{"no more than was reserved", provider.PathChat, `{"max_tokens":9}`, map[string]float64{"max_tokens": 50}, `{"logprobs":true,"max_tokens":9,"model":"policy-7","return_token_ids":true}`},
		{"vectors have no tokens", provider.PathEmbeddings, `{"input":"a"}`, map[string]float64{"temperature": 1}, `{"input":"a","model":"policy-7"}`},
	} {
		s := &seen{}
		u, err := New(s, "policy-7", c.sampling)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Do(t.Context(), provider.Request{Path: c.path, Model: Name, Body: []byte(c.body)}); err != nil {
			t.Fatal(c.name, err)
		}
		var got map[string]any // sorted by name
		if err := json.Unmarshal(s.req.Body, &got); err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(got)
		if string(b) != c.want || s.req.Model != "policy-7" {
			t.Errorf("%s: %s, want %s", c.name, b, c.want)
		}
	}
	if _, err := New(&seen{}, "m", map[string]float64{"n": 2}); err == nil || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("a field that is not of sampling: %v", err)
	}
	u, _ := New(&seen{}, "m", nil)
	if _, err := u.Do(t.Context(), provider.Request{Path: provider.PathChat, Body: []byte("[]")}); err == nil {
		t.Error("a body that is not an object")
	}
}
