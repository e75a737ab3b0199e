package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
)

// newKey makes the signer of a test.
func newKey(t *testing.T) auth.Signer {
	t.Helper()
	k, err := auth.KeyFromURI("//Alice")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// newServer serves h with GET /v1/server answered.
func newServer(t *testing.T, key auth.Signer, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/server" {
			if auth.Signed(r.Header) {
				t.Error("GET /v1/server was signed")
			}
			json.NewEncoder(w).Encode(Server{Name: "test", Audience: "aud"})
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	c.Backoff = time.Millisecond
	return c
}

func TestNewRefusesWhatIsNoServer(t *testing.T) {
	for _, u := range []string{"", "127.0.0.1:8900", "ftp://x", "http://", "http://u:p@h/", "http://h/?q=1", "http://h/#f", "http://h\x00/", "://"} {
		if _, err := New(u, nil); err == nil {
			t.Errorf("New(%q): no error", u)
		} else if strings.Contains(err.Error(), "u:p@") {
			t.Errorf("New(%q): the error shows the password: %v", u, err)
		}
	}
	c, err := New("http://h:1/base/", nil)
	if err != nil || c.URL() != "http://h:1/base" {
		t.Errorf("New: %v, %v", c.URL(), err)
	}
}

// TestRoutes pins method, path and query of every route, and that what
// changes something is signed over the very bytes sent.
func TestRoutes(t *testing.T) {
	d := agon.Sum([]byte("x"))
	tests := []struct {
		want  string
		reply string
		call  func(ctx context.Context, c *Client) error
	}{
		{"GET /v1/overview", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Overview(ctx); return err }},
		{"GET /v1/arenas", `{"items":[]}`, func(ctx context.Context, c *Client) error { _, err := c.Arenas(ctx); return err }},
		{"GET /v1/arenas/a%2Fb", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Arena(ctx, "a/b"); return err }},
		{"GET /v1/arenas/a/board", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Board(ctx, "a"); return err }},
		{"GET /v1/arenas/a/weights", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Target(ctx, "a"); return err }},
		{`POST /v1/arenas/a/state {"state":"paused","reason":"r"}`, ``, func(ctx context.Context, c *Client) error {
			return c.SetArenaState(ctx, "a", agon.ArenaPaused, "r")
		}},
		{
			`POST /v1/arenas/a/submissions {"name":"n","licence":"MIT","files":[{"path":"agent.py","content":"eA=="}]}`, `{"id":"s1"}`,
			func(ctx context.Context, c *Client) error {
				s, err := c.Submit(ctx, "a", SubmitRequest{Name: "n", Licence: "MIT", Files: []File{{"agent.py", []byte("x")}}})
				if err == nil && s.ID != "s1" {
					return fmt.Errorf("id %q", s.ID)
				}
				return err
			},
		},
		{
			"GET /v1/submissions?arena=a&cursor=c&limit=5&miner=m", `{"items":[{"id":"s1"}],"next":"n"}`,
			func(ctx context.Context, c *Client) error {
				p, err := c.Submissions(ctx, "a", "m", ListOptions{Cursor: "c", Limit: 5})
				if err == nil && (p.Next != "n" || len(p.Items) != 1) {
					return fmt.Errorf("page %+v", p)
				}
				return err
			},
		},
		{"GET /v1/submissions/s1", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Submission(ctx, "s1"); return err }},
		{"GET /v1/submissions/s1/files", `{"items":[]}`, func(ctx context.Context, c *Client) error { _, err := c.SubmissionFiles(ctx, "s1"); return err }},
		{"GET /v1/runs?submission=s1", `{"items":[]}`, func(ctx context.Context, c *Client) error {
			_, err := c.Runs(ctx, "", "s1", "", ListOptions{})
			return err
		}},
		{"GET /v1/runs/r1", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Run(ctx, "r1"); return err }},
		{"GET /v1/runs/r1/events?after=1.7&limit=9", `{"items":[{"seq":8}]}`, func(ctx context.Context, c *Client) error {
			ev, err := c.Events(ctx, "r1", Cursor{1, 7}, 9)
			if err == nil && (len(ev) != 1 || ev[0].Seq != 8) {
				return fmt.Errorf("events %+v", ev)
			}
			return err
		}},
		{`POST /v1/runs/r1/cancel {"reason":"why"}`, ``, func(ctx context.Context, c *Client) error { return c.CancelRun(ctx, "r1", "why") }},
		{`POST /v1/leases {"kinds":["golf"],"driver":"runc","wait_ms":5}`, `{"id":"l1"}`, func(ctx context.Context, c *Client) error {
			l, err := c.Claim(ctx, ClaimRequest{Kinds: []string{"golf"}, Driver: "runc", WaitMS: 5})
			if err == nil && l.ID != "l1" {
				return fmt.Errorf("lease %+v", l)
			}
			return err
		}},
		{`POST /v1/leases/l1/heartbeat {"token":"t"}`, `{"cancel":true}`, func(ctx context.Context, c *Client) error {
			h, err := c.Heartbeat(ctx, "l1", Heartbeat{Token: "t"})
			if err == nil && !h.Cancel {
				return errors.New("cancel lost")
			}
			return err
		}},
		{`POST /v1/leases/l1/result`, `{"counted":true}`, func(ctx context.Context, c *Client) error {
			_, err := c.Result(ctx, "l1", Result{Token: "t"})
			return err
		}},
		{"PUT /v1/blobs/" + string(d) + " x", ``, func(ctx context.Context, c *Client) error {
			got, err := c.PutBlob(ctx, "", []byte("x"))
			if got != d {
				return fmt.Errorf("digest %s", got)
			}
			return err
		}},
		{"GET /v1/blobs/" + string(d), `x`, func(ctx context.Context, c *Client) error { _, err := c.Blob(ctx, d); return err }},
		{"GET /v1/ledger/7", `{}`, func(ctx context.Context, c *Client) error { _, err := c.Ledger(ctx, 7); return err }},
		{`POST /v1/ledger/7/register {"hotkey":"h","coldkey":"c"}`, `{}`, func(ctx context.Context, c *Client) error {
			return c.Register(ctx, 7, RegisterRequest{Hotkey: "h", Coldkey: "c"})
		}},
		{`POST /v1/ledger/7/weights {"uids":[1],"values":[65535],"version_key":0}`, `{}`, func(ctx context.Context, c *Client) error {
			return c.SetWeights(ctx, 7, SetWeightsRequest{UIDs: []uint16{1}, Values: []uint16{65535}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			var got string
			verifier := auth.Verifier{Audience: "aud", Now: time.Now, Replay: auth.NewMemoryReplay(time.Now)}
			c := newServer(t, newKey(t), func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
				if _, err := verifier.Verify(r.Context(), r.Method, auth.RequestTarget(r), r.Header, body); err != nil {
					t.Errorf("signature: %v", err)
				}
				if tt.reply == "" {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				io.WriteString(w, tt.reply)
			})
			if err := tt.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnsignedClientReadsButChangesNothing(t *testing.T) {
	asked := 0
	c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) { asked++; io.WriteString(w, `{"items":[]}`) })
	if _, err := c.Arenas(t.Context()); err != nil || asked != 1 {
		t.Fatalf("read: %v, asked %d", err, asked)
	}
	if err := c.CancelRun(t.Context(), "r", ""); !IsCode(err, "no_key") || asked != 1 {
		t.Errorf("change without a key: %v, asked %d", err, asked)
	}
}

func TestClaimNothing(t *testing.T) {
	c := newServer(t, newKey(t), func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if l, err := c.Claim(t.Context(), ClaimRequest{}); l != nil || err != nil {
		t.Errorf("Claim = %v, %v; want nil, nil", l, err)
	}
}

func TestProblem(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		want   agon.Error
		id     string
	}{
		{
			"full", 422, `{"title":"Unprocessable","detail":"no agent_main","code":"no_agent_main","field":"agent.py","limit":"1","mend":"define it","fault":"agent","request_id":"q7","findings":[{"code":"a","message":"b"}]}`,
			agon.Error{Code: "no_agent_main", Status: 422, Field: "agent.py", Limit: "1", Message: "no agent_main", Mend: "define it", Fault: agon.FaultAgent},
			"q7",
		},
		{"title only", 409, `{"title":"Conflict"}`, agon.Error{Code: "http_409", Status: 409, Message: "Conflict"}, ""},
		{"a proxy's page", 502, `<html>`, agon.Error{Code: "http_502", Status: 502, Message: "bad gateway", Fault: agon.FaultPlatform}, ""},
		{"the status line wins", 404, `{"status":200,"detail":"gone"}`, agon.Error{Code: "http_404", Status: 404, Message: "gone"}, ""},
		{"unknown status", 599, ``, agon.Error{Code: "http_599", Status: 599, Message: "status 599", Fault: agon.FaultPlatform}, ""},
		{"a redirect is not an answer", 302, ``, agon.Error{Code: "http_302", Status: 302, Message: "found"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			_, err := c.Arena(t.Context(), "a")
			var e *agon.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v is not coded", err)
			}
			got := *e
			got.Err, got.Findings = nil, nil
			if got.Code != tt.want.Code || got.Status != tt.want.Status || got.Field != tt.want.Field || got.Limit != tt.want.Limit ||
				got.Message != tt.want.Message || got.Mend != tt.want.Mend || got.Fault != tt.want.Fault {
				t.Errorf("got %+v\nwant %+v", got, tt.want)
			}
			var re *RequestError
			if !errors.As(err, &re) || re.ID != tt.id || re.Path != "/v1/arenas/a" {
				t.Errorf("cause %+v, want request %q", re, tt.id)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name   string
		status int
		call   func(ctx context.Context, c *Client) error
		want   int // times sent
	}{
		{"read 503", 503, func(ctx context.Context, c *Client) error { _, err := c.Arena(ctx, "a"); return err }, 3},
		{"read 500 is a bug, not a hiccup", 500, func(ctx context.Context, c *Client) error { _, err := c.Arena(ctx, "a"); return err }, 1},
		{"read 404", 404, func(ctx context.Context, c *Client) error { _, err := c.Arena(ctx, "a"); return err }, 1},
		{"result 502", 502, func(ctx context.Context, c *Client) error { _, err := c.Result(ctx, "l", Result{}); return err }, 3},
		{"submit 429", 429, func(ctx context.Context, c *Client) error { _, err := c.Submit(ctx, "a", SubmitRequest{}); return err }, 3},
		{"claim 503", 503, func(ctx context.Context, c *Client) error { _, err := c.Claim(ctx, ClaimRequest{}); return err }, 1},
		{"register 503", 503, func(ctx context.Context, c *Client) error { return c.Register(ctx, 1, RegisterRequest{}) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nonces := map[string]bool{}
			sent := 0
			c := newServer(t, newKey(t), func(w http.ResponseWriter, r *http.Request) {
				sent++
				nonces[r.Header.Get("Agon-Nonce")] = true
				w.WriteHeader(tt.status)
			})
			c.Tries = 3
			if err := tt.call(t.Context(), c); err == nil {
				t.Fatal("no error")
			}
			if sent != tt.want || len(nonces) != tt.want {
				t.Errorf("sent %d times with %d nonces, want %d", sent, len(nonces), tt.want)
			}
		})
	}
}

func TestRetryGivesUpWithTheCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(503)
		cancel()
	})
	if _, err := c.Arena(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	for name, key := range map[string]auth.Signer{"signed": newKey(t), "unsigned": nil} {
		c, err := New(s.URL, key)
		if err != nil {
			t.Fatal(err)
		}
		c.Backoff = time.Microsecond
		_, err = c.Arena(t.Context(), "a")
		var e *agon.Error
		if !errors.As(err, &e) || e.Code != "unreachable" || e.Mend == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAudienceIsAskedOnceAndAgainAfter401(t *testing.T) {
	asked, calls := 0, 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/server" {
			asked++
			fmt.Fprintf(w, `{"audience":"aud%d"}`, asked)
			return
		}
		calls++
		if calls == 3 {
			w.WriteHeader(401)
			return
		}
		io.WriteString(w, `{}`)
	}))
	defer s.Close()
	c, err := New(s.URL, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		c.Arena(t.Context(), "a")
	}
	if asked != 2 {
		t.Errorf("asked for the audience %d times, want 2", asked)
	}
}

func TestBounds(t *testing.T) {
	t.Run("reply", func(t *testing.T) {
		c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			chunk := make([]byte, 1<<20)
			for range MaxReply>>20 + 1 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		})
		if _, err := c.Arena(t.Context(), "a"); !IsCode(err, "reply_too_large") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("blob out", func(t *testing.T) {
		c := newServer(t, newKey(t), func(w http.ResponseWriter, r *http.Request) { t.Error("sent") })
		if _, err := c.PutBlob(t.Context(), "", make([]byte, MaxBlob+1)); !IsCode(err, "too_large") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("blob of other bytes", func(t *testing.T) {
		c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "y") })
		if _, err := c.Blob(t.Context(), agon.Sum([]byte("x"))); !IsCode(err, "corrupt_blob") {
			t.Errorf("error %v", err)
		}
		if _, err := c.Blob(t.Context(), "sha256:../../x"); err == nil {
			t.Error("a bad digest was asked for")
		}
	})
	t.Run("not json", func(t *testing.T) {
		c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
		if _, err := c.Arena(t.Context(), "a"); !IsCode(err, "bad_reply") {
			t.Errorf("error %v", err)
		}
	})
}
