package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
)

// TestBadInput sends everything bad, from the client's side and from the
// provider's, through one session with durable books: one clear error each, and
// after each the books hold nothing, sum up and agree with the journal, and a
// good call still works.
func TestBadInput(t *testing.T) {
	journal := openStore(t, filepath.Join(t.TempDir(), "b.db"))
	var answer http.HandlerFunc
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) { answer(w, r) }, func(c *openai.Config) {
		c.MaxReply = 1 << 20
	})
	g := start(t, Config{Upstreams: []provider.Upstream{u}, Books: durable(t, journal), RetryFor: -1})
	p := policy("m")
	p.Budget = agon.Budget{Micros: 1 << 40, Calls: 10_000}
	s := open(t, g, p, nil)

	good := says(answerJSON)
	sse := func(parts ...string) http.HandlerFunc { return streams(false, parts...) }
	usage := func(u string) http.HandlerFunc {
		return says(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":` + u + `}`)
	}
	streamed := strings.Replace(hello, "{", `{"stream":true,`, 1)
	// The account's opening is committed with the first reservation at the latest.
	answer = good
	if r := post(t, s, chatPath, hello); r.status != http.StatusOK {
		t.Fatalf("a good call before all: %d %.200s", r.status, r.body)
	}
	for _, c := range []struct {
		name, ctype, body string
		answer            http.HandlerFunc
		status            int
		code              string // of the error; empty: an answer
		calls             int    // that reach the provider
	}{
		{"over the limit", "", `{"messages":[{"role":"user","content":"` + strings.Repeat("x", maxBody) + `"}]}`, good, 413, "too_large", 0},
		{"deep", "", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), good, 400, "invalid_request", 0},
		{"duplicate key", "", `{"model":"m","model":"m","messages":[]}`, good, 400, "invalid_request", 0},
		{"content type", "text/plain", hello, good, 415, "unsupported_media_type", 0},
		{"charset", "application/json; charset=latin1", hello, good, 415, "unsupported_media_type", 0},
		{"invalid utf-8", "", "{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", good, 400, "invalid_request", 0},
		{"half json", "", hello[:30], good, 400, "invalid_request", 0},
		{"unpriced model", "", strings.Replace(hello, `"m"`, `"q"`, 1), good, 404, "model_not_found", 0},
		{"10 GB", "", hello, endless, 502, "upstream_failed", 1},
		{"10 GB of a stream's line", "", streamed, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			endless(sseWriter{w}, r)
		}, 200, "cut", 1},
		{"redirect", "", hello, status(302, "Location", "http://127.0.0.1:1/"), 502, "upstream_failed", 1},
		{"negative usage", "", hello, usage(`{"prompt_tokens":-5,"completion_tokens":-5}`), 200, "", 1},
		{"absurd usage", "", hello, usage(`{"prompt_tokens":9007199254740993000,"completion_tokens":1e40}`), 200, "", 1},
		{"usage beyond the reservation", "", hello, usage(`{"prompt_tokens":1000000000,"completion_tokens":1000000000}`), 200, "", 1},
		{"usage of another type", "", hello, usage(`"all"`), 200, "", 1},
		{"invalid utf-8 in a reply", "", hello, says("{\"choices\":[{\"message\":{\"content\":\"\xff\xfe\"}}]}"), 200, "", 1},
		{"reply is not a json", "", hello, says("<html>"), 502, "upstream_failed", 1},
		{"half stream", "", streamed, streams(true, chunk("a"), `data: {"choi`), 200, "cut", 1},
		{"sse without newline", "", streamed, sse(strings.Repeat("data: x", 1000)), 200, "cut", 1},
		{"empty stream", "", streamed, sse(), 502, "upstream_failed", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, spent := len(s.Receipts()), s.Spent()
			answer = c.answer
			ctype := c.ctype
			if ctype == "" {
				ctype = "application/json"
			}
			r := send(t, s, http.MethodPost, chatPath, ctype, c.body)
			var e struct {
				Error struct{ Code, Message string }
			}
			switch {
			case r.status != c.status:
				t.Errorf("status %d, want %d: %.300s", r.status, c.status, r.body)
			case c.code == "cut" && r.err == nil:
				t.Error("a broken stream looks finished")
			case c.code != "" && c.code != "cut":
				if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error.Code != c.code || e.Error.Message == "" || strings.Contains(e.Error.Message, "\n") {
					t.Errorf("error %.300q, want code %s", r.body, c.code)
				}
			}
			booksRight(t, s, journal)
			if got := len(s.Receipts()) - before; got != c.calls {
				t.Errorf("%d receipts, want %d", got, c.calls)
			}
			if c.calls == 0 && s.Spent() != spent {
				t.Errorf("a refused call cost %d", s.Spent()-spent)
			}
			answer = good
			if r := post(t, s, chatPath, hello); r.status != http.StatusOK || r.body != answerJSON {
				t.Errorf("a good call after it: %d %.200s", r.status, r.body)
			}
			booksRight(t, s, journal)
		})
	}

	t.Run("client sends half its body", func(t *testing.T) {
		before := len(s.Receipts())
		at, err := url.Parse(s.BaseURL())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", at.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", chatPath, TokenHeader, s.token, len(hello), hello[:20])
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(b), "body broke off") {
			t.Errorf("%d %s", resp.StatusCode, b)
		}
		booksRight(t, s, journal)
		if len(s.Receipts()) != before {
			t.Error("half a request was called")
		}
	})

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c := VerifyChain(s.Receipts(), []string{g.Signer()}); len(c.Problems) > 0 {
		t.Errorf("the chain: %+v", c.Problems)
	}
}

// booksRight checks what must hold of an account whenever no call is under way.
func booksRight(t *testing.T, s *session, journal Journal) {
	t.Helper()
	s.acct.b.mu.Lock()
	held, open, spent := s.acct.acct.held, s.acct.acct.Open(), s.acct.acct.Spent()
	s.acct.b.mu.Unlock()
	if held != (Amount{}) || open != 0 {
		t.Errorf("%d calls hold %+v", open, held)
	}
	var sum agon.Micros
	for _, r := range s.Receipts() {
		if r.Cost < 0 || r.Cost > r.Reserved {
			t.Errorf("receipt %s costs %d of %d reserved", r.ID, r.Cost, r.Reserved)
		}
		sum += r.Cost
	}
	if sum != spent.Micros || sum != s.Spent() {
		t.Errorf("receipts sum to %d, the account says %d, the session %d", sum, spent.Micros, s.Spent())
	}
	kept, err := journal.RunBooks(t.Context(), s.policy.Run, s.policy.Attempt)
	if err != nil || len(kept.Accounts) != 1 {
		t.Fatalf("journal: %+v, %v", kept, err)
	}
	if a := kept.Accounts[0]; len(a.Holds) != 0 || a.Spent.Micros != spent.Micros || a.Spent.Calls != spent.Calls {
		t.Errorf("the journal holds %v and has spent %+v, memory %+v", a.Holds, a.Spent, spent)
	}
}

// sseWriter keeps the content type that it was given.
type sseWriter struct{ http.ResponseWriter }

func (w sseWriter) Header() http.Header { return http.Header{} }
