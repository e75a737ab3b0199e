package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

func event(attempt int, seq int64) string {
	return fmt.Sprintf("id: %d.%d\nevent: note\ndata: {\"run\":\"r\",\"attempt\":%d,\"seq\":%d,\"type\":\"note\"}\n\n", attempt, seq, attempt, seq)
}

const endEvent = "event: end\ndata: {\"run\":\"r\",\"state\":\"scored\"}\n\n"

// serveParts answers each connection with the next part and records what it was resumed from.
func serveParts(t *testing.T, parts ...string) (*Client, *[]string) {
	var from []string
	c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		if len(from) <= len(parts) {
			io.WriteString(w, parts[len(from)-1])
		}
	})
	return c, &from
}

func TestStreamResumesAndNeverRepeats(t *testing.T) {
	c, from := serveParts(t,
		": beat\nretry: 1\n\n"+event(1, 1)+event(1, 2)+"id: 1.3\ndata: {\"attempt\":1,\"seq\":3", // cut within an event
		event(1, 2)+event(1, 3), // a server that repeats
		"",                      // a connection that brings nothing
		event(2, 1)+endEvent,
	)
	var got []string
	run, err := c.Stream(t.Context(), "r", Cursor{}, func(e agon.Event) error {
		got = append(got, CursorOf(e).String())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, " "); s != "1.1 1.2 1.3 2.1" {
		t.Errorf("events %s", s)
	}
	if s := strings.Join(*from, " "); s != " 1.2 1.3 1.3" {
		t.Errorf("resumed from %q", s)
	}
	if run.State != agon.RunScored {
		t.Errorf("ended as %+v", run)
	}
}

func TestStreamErrors(t *testing.T) {
	stop := errors.New("enough")
	tests := []struct {
		name, part string
		on         func(agon.Event) error
		want       string // code, or the text of the error
	}{
		{"the caller stops", event(1, 1) + event(1, 2), func(agon.Event) error { return stop }, "enough"},
		{"not an event", "data: nonsense\n\n", nil, "bad_reply"},
		{"not a run at the end", "event: end\ndata: [1]\n\n", nil, "bad_reply"},
		{"endless id", "id: " + strings.Repeat("9", 1000) + "\n\n", nil, "bad_reply"},
		{"a server that always hangs up", "", nil, "unreachable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := serveParts(t, tt.part)
			if tt.on == nil {
				tt.on = func(agon.Event) error { return nil }
			}
			c.Backoff = time.Microsecond
			_, err := c.Stream(t.Context(), "r", Cursor{}, tt.on)
			if err == nil || !IsCode(err, tt.want) && err.Error() != tt.want {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestStreamRefusals(t *testing.T) {
	asked := 0
	c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.WriteHeader(404)
		io.WriteString(w, `{"code":"not_found","detail":"no run r"}`)
	})
	if _, err := c.Stream(t.Context(), "r", Cursor{}, nil); !IsCode(err, "not_found") || asked != 1 {
		t.Errorf("error %v after %d tries", err, asked)
	}
	c = newServer(t, nil, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") })
	if _, err := c.Stream(t.Context(), "r", Cursor{}, nil); !IsCode(err, "bad_reply") {
		t.Errorf("error %v", err)
	}
}

func TestStreamDetaches(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, event(1, 1))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	_, err := c.Stream(ctx, "r", Cursor{}, func(agon.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

func TestStreamLeavesADeadLine(t *testing.T) {
	n := 0
	c := newServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Content-Type", "text/event-stream")
		if n > 1 {
			io.WriteString(w, endEvent)
			return
		}
		io.WriteString(w, event(1, 1))
		w.(http.Flusher).Flush()
		<-r.Context().Done() // says nothing more
	})
	c.Quiet = 20 * time.Millisecond
	if _, err := c.Stream(t.Context(), "r", Cursor{}, func(agon.Event) error { return nil }); err != nil || n != 2 {
		t.Errorf("error %v after %d connections", err, n)
	}
}

func TestSSE(t *testing.T) {
	type ev struct{ id, name, data string }
	big := strings.Repeat("x", maxEvent+16)
	tests := []struct {
		name, in string
		want     []ev
		over     bool // ends over the limit instead of at the end
	}{
		{"plain", "id: 1\nevent: a\ndata: x\n\n", []ev{{"1", "a", "x"}}, false},
		{"many lines, no blank, crlf", "data:x\r\ndata: y\r\n\r\n", []ev{{"", "", "x\ny"}}, false},
		{"id lasts", "id: 1\ndata: x\n\ndata: y\n\n", []ev{{"1", "", "x"}, {"1", "", "y"}}, false},
		{"no data is not an event", "event: a\n\nevent: b\ndata\n\n", []ev{{"", "b", ""}}, false},
		{"comments and unknown fields", ": hi\nfoo: bar\ndata: x\n\n", []ev{{"", "", "x"}}, false},
		{"cut off", "data: x\n", nil, false},
		{"one long line", "data: " + big + "\n\n", nil, true},
		{"many lines", strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17) + "\n", nil, true},
		{"no line end", big, nil, true},
		{"long name", "event: " + strings.Repeat("n", maxMeta+1) + "\n", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newSSEReader(strings.NewReader(tt.in))
			var got []ev
			for {
				e, err := r.next()
				if err != nil {
					if errors.Is(err, errSSE) != tt.over {
						t.Errorf("ended with %v", err)
					}
					break
				}
				got = append(got, ev{e.id, e.name, string(e.data)})
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	r := newSSEReader(strings.NewReader("retry: 0\n\nretry: 99999999\n\nretry: -1\n\nretry: x\n\n"))
	if _, err := r.next(); err != io.EOF || r.retry != maxRetry {
		t.Errorf("retry %v, %v", r.retry, err)
	}
}

func TestCursor(t *testing.T) {
	for in, want := range map[string]Cursor{"": {}, "1.2": {1, 2}, "0.0": {}} {
		if got, err := ParseCursor(in); err != nil || got != want {
			t.Errorf("ParseCursor(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"1", ".", "1.", "-1.2", "1.-2", "1.2.3", "4294967296.1", "1.9223372036854775808", " 1.2"} {
		if _, err := ParseCursor(in); err == nil {
			t.Errorf("ParseCursor(%q): no error", in)
		}
	}
}

func FuzzSSE(f *testing.F) {
	for _, s := range []string{"id: 1\nevent: a\ndata: x\n\n", ": c\n\n", "data\r\n\r\n", "retry: 5\n\n", "id: a\x00b\ndata:\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newSSEReader(bytes.NewReader(b))
		total := 0
		for {
			e, err := r.next()
			if err != nil {
				break
			}
			total += len(e.data)
			if len(e.name) > maxMeta || len(e.id) > maxMeta || total > len(b) {
				t.Fatalf("event grew: %d of %d bytes", total, len(b))
			}
		}
		if r.retry < 0 || r.retry > maxRetry {
			t.Fatalf("retry %v", r.retry)
		}
	})
}

func FuzzProblem(f *testing.F) {
	f.Add(404, []byte(`{"code":"not_found","detail":"x"}`))
	f.Add(502, []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, b []byte) {
		e := ParseProblem(status, b, &RequestError{})
		if e.Code == "" || e.Message == "" || e.Status != status {
			t.Fatalf("problem %+v", e)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("1.2")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		if err != nil {
			return
		}
		if back, err := ParseCursor(c.String()); err != nil || back != c {
			t.Fatalf("%q: %v, %v", s, back, err)
		}
	})
}
