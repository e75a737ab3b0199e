//go:build interop

package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/gatewaytest"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/internal/interoptest"
)

// sdkKey is the provider's real key: no client, log or event may show it.
const sdkKey = "sk-canary-0123456789abcdefghijklmnopqrstuv"

// sdkScript answers the two turns of sdk.py: first a call of a tool, then words.
const sdkScript = `
version = 1
[[rule]]
turn = 0
task = "weather"
content = "Let me look at the sky over the town before I say anything about it."
[[rule.tool_calls]]
name = "weather"
arguments = { town = "Bern" }
[[rule]]
last = "snow"
content = "It snows in Bern, more than it did yesterday, and it will go on."
`

// relay does what a door in a box does: it adds the session's header and streams.
func relay(t *testing.T, s gateway.Session) string {
	t.Helper()
	to, err := url.Parse(s.BaseURL())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		for k, v := range s.Header() {
			r.Out.Header.Set(k, v)
		}
	}})
	t.Cleanup(srv.Close)
	return srv.URL
}

// sdkOut is what sdk.py says of one client's two turns.
type sdkOut struct {
	Text, Tool string
	Args       map[string]any
	Final      string
	Streamed   int // events of text
	In, Out    int64
	Refused    string // the class of the SDK's error when the budget is gone
}

// TestSDKs lets the providers' own Python SDKs, unmodified, speak to the gateway
// through a door: two turns with a tool, streamed and whole, then a call that no
// budget carries. The upstream is the script in OpenAI's form: everything is translated.
func TestSDKs(t *testing.T) {
	script, err := scripted.Parse([]byte(sdkScript), "toml")
	if err != nil {
		t.Fatal(err)
	}
	h := scripted.Handler(script)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+sdkKey {
			t.Errorf("the upstream got the key %q", r.Header.Get("Authorization"))
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	for _, name := range gateway.ModelDialects {
		t.Run(name, func(t *testing.T) {
			u, err := openai.New(openai.Config{BaseURL: up.URL + "/v1", Key: sdkKey, Models: []string{agon.Script}})
			if err != nil {
				t.Fatal(err)
			}
			playSDK(t, name, u, "")
		})
	}
}

// playSDK lets one SDK play against an upstream.
func playSDK(t *testing.T, name string, u provider.Upstream, form string) {
	prices, err := gateway.LoadPrices()
	if err != nil {
		t.Fatal(err)
	}
	if err := prices.Set(agon.Script, gateway.Price{In: 1_000_000, Out: 1_000_000, MaxOutput: 400, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Upstreams: []provider.Upstream{u}, Prices: prices})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Stop() })
	p := gatewaytest.Policy(name)
	p.Budget = agon.Budget{Micros: 1_000_000, Calls: 4}
	var l gatewaytest.Log
	s := gatewaytest.Open(t, g, p, &l)
	cmd := exec.Command(interoptest.Python(t, "sdks"), "sdk.py", name, relay(t, s), agon.Script)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "OPENAI_API_KEY=none", "ANTHROPIC_API_KEY=none", "GEMINI_API_KEY=none", "NO_PROXY=*")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var got sdkOut
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in, made := int64(0), int64(0)
	for _, r := range s.Receipts() {
		if r.Outcome != "ok" || r.Estimated || r.Cost != agon.Micros(r.Prompt+r.Completion) {
			t.Errorf("receipt %+v", r)
		}
		in, made = in+r.Prompt, made+r.Completion
	}
	if len(s.Receipts()) != 4 || got.In != in || got.Out != made || s.Spent() != agon.Micros(in+made) {
		t.Errorf("%d receipts, %d and %d tokens; the SDK counted %d and %d; %d spent", len(s.Receipts()), in, made, got.In, got.Out, s.Spent())
	}
	if got.Tool != "weather" || fmt.Sprint(got.Args) != "map[town:Bern]" || !strings.HasPrefix(got.Text, "Let me look") || !strings.HasPrefix(got.Final, "It snows in Bern") || got.Streamed < 2 {
		t.Errorf("the SDK got %+v", got)
	}
	if got.Refused == "" {
		t.Error("a fifth call was not refused")
	}
	for _, e := range l.Of(agon.EventModel) {
		if m := e.(gateway.ModelCall); m.Form != form {
			t.Errorf("the upstream was asked in the form %q", m.Form)
		}
	}
	events, err := json.Marshal([]any{l.Of(agon.EventModel), l.Of(agon.EventRefused), l.Of(agon.EventNote)})
	if err != nil {
		t.Fatal(err)
	}
	if all := string(events) + string(out) + errs.String(); strings.Contains(all, sdkKey) || strings.Contains(all, sdkKey[:len(sdkKey)/2]) {
		t.Error("the provider's key shows")
	}
}

// TestSDKsNative is the same at upstreams that take the SDK's own form: here
// another gateway, that of somebody else, which asks for the key.
func TestSDKsNative(t *testing.T) {
	script, err := scripted.Parse([]byte(sdkScript), "toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range gateway.ModelDialects[1:] {
		t.Run(name, func(t *testing.T) {
			far, err := gateway.New(gateway.Config{Upstreams: []provider.Upstream{scripted.New(script)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := far.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = far.Stop() })
			theirs := gatewaytest.Open(t, far, gatewaytest.Policy(name), nil)
			door, err := url.Parse(relay(t, theirs))
			if err != nil {
				t.Fatal(err)
			}
			proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(door) }}
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key")
				if strings.TrimPrefix(key, "Bearer ") != sdkKey {
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = io.WriteString(w, "the key is not "+sdkKey)
					return
				}
				proxy.ServeHTTP(w, r)
			}))
			t.Cleanup(up.Close)
			base := up.URL + "/v1"
			if name == provider.FormGoogle {
				base = up.URL + "/v1beta"
			}
			u, err := openai.New(openai.Config{BaseURL: base, Key: sdkKey, Models: []string{agon.Script}, Speaks: []string{name}})
			if err != nil {
				t.Fatal(err)
			}
			playSDK(t, name, u, name)
		})
	}
}
