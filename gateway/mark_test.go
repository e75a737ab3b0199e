package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
)

// TestStreamMarks: marks stand in one event more, before [DONE], however the
// provider cuts its stream; everything else is the provider's, byte for byte.
func TestStreamMarks(t *testing.T) {
	const args = `{"query":"aare"}`
	const call = `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"search_web","arguments":"{\"query\":\"aare\"}"}}]}}]}` + "\n\n"
	const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	for _, c := range []struct {
		name, sent string
		marked     bool
	}{
		{"ordinary", call + finish + usageChunk + doneChunk, true},
		{"no newline behind", call + finish + "data: [DONE]", true},
		{"carriage returns", strings.ReplaceAll(call+finish+doneChunk, "\n", "\r\n"), true},
		{"never done", call + finish, true},
		{"never done, no newline", strings.TrimRight(call+finish, "\n"), true},
		{"no call", chunk("[DONE] data: [DONE]") + finishChunk + doneChunk, false},
	} {
		for cut := range len(c.sent) {
			if early := len(c.sent) - 20; cut < early && cut%37 != 0 {
				continue // all cuts near the end, some before
			}
			u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, p := range []string{c.sent[:cut], c.sent[cut:]} {
					_, _ = io.WriteString(w, p) // the gateway may have left
					w.(http.Flusher).Flush()
				}
			})
			p := policy("m")
			p.NonceField = "golf_metadata"
			s := open(t, start(t, Config{Upstreams: []provider.Upstream{u}}), p, nil)
			got := post(t, s, chatPath, strings.Replace(hello, "{", `{"stream":true,`, 1)).body
			i := strings.Index(got, `data: {"object":"chat.completion.chunk","id":"","created":0,"model":"m","choices":[],"golf_metadata":`)
			if !c.marked {
				if i >= 0 || got != c.sent {
					t.Errorf("%s, cut at %d: %q", c.name, cut, got)
				}
				continue
			}
			if i < 0 {
				t.Errorf("%s, cut at %d: no marks in %q", c.name, cut, got)
				continue
			}
			line, rest, _ := strings.Cut(got[i:], "\n\n")
			if before := strings.TrimSuffix(got[:i], "\n\n"); before+rest != c.sent && got[:i]+rest != c.sent {
				t.Errorf("%s, cut at %d: the provider's bytes were changed: %q", c.name, cut, got)
			}
			if rest != "" && !strings.HasPrefix(rest, "data: [DONE]") {
				t.Errorf("%s, cut at %d: %q follows the marks", c.name, cut, rest)
			}
			var m struct {
				Meta struct {
					Nonces map[string]string `json:"tool_nonces"`
				} `json:"golf_metadata"`
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &m); err != nil {
				t.Fatal(err)
			}
			if st, receipt := s.nonces.check(p.Run, "search_web", "c1", m.Meta.Nonces["c1"], []byte(args)); st != nonceValid || receipt == "" {
				t.Errorf("%s, cut at %d: the mark is %s", c.name, cut, st)
			}
		}
	}
}

// A stream that breaks off brings all that came, no mark, and no end.
func TestStreamMarksBrokenOff(t *testing.T) {
	sent := chunk("a") + `data: {"choices":[{"ind`
	u := upstream(t, streams(true, sent))
	p := policy("m")
	p.NonceField = "golf_metadata"
	s := open(t, start(t, Config{Upstreams: []provider.Upstream{u}}), p, nil)
	if got := post(t, s, chatPath, strings.Replace(hello, "{", `{"stream":true,`, 1)); strings.Contains(got.body, "golf_metadata") || !strings.HasPrefix(got.body, chunk("a")) {
		t.Errorf("%q", got.body)
	}
}
