package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// Cursor is a place in a run's event log: after event Seq of attempt Attempt.
// The zero value is the beginning.
type Cursor struct {
	Attempt int
	Seq     int64
}

// String writes a cursor as the API does: "ATTEMPT.SEQ".
func (c Cursor) String() string {
	return strconv.Itoa(c.Attempt) + "." + strconv.FormatInt(c.Seq, 10)
}

// Before reports whether c stands before o.
func (c Cursor) Before(o Cursor) bool {
	return c.Attempt < o.Attempt || c.Attempt == o.Attempt && c.Seq < o.Seq
}

// ParseCursor reads "ATTEMPT.SEQ"; the empty string is the beginning.
func ParseCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	bad := fmt.Errorf("cursor %q: want ATTEMPT.SEQ", s)
	a, q, ok := strings.Cut(s, ".")
	if !ok {
		return Cursor{}, bad
	}
	attempt, err := strconv.ParseUint(a, 10, 31)
	if err != nil {
		return Cursor{}, bad
	}
	seq, err := strconv.ParseUint(q, 10, 63)
	if err != nil {
		return Cursor{}, bad
	}
	return Cursor{int(attempt), int64(seq)}, nil
}

// CursorOf returns the place of e.
func CursorOf(e agon.Event) Cursor { return Cursor{e.Attempt, e.Seq} }

// Limits on a server's event stream.
const (
	maxEvent = 16 << 20 // bytes of one event, all its lines together
	maxMeta  = 256      // bytes of an id, an event name, a retry
	minRetry = 100 * time.Millisecond
	maxRetry = 30 * time.Second
	// maxIdle is how many connections in a row may bring nothing new before we say so.
	maxIdle = 10
)

// Stream follows a run's events from after the cursor until the run ends,
// calling on for each in order and never twice, and returns the run as it
// ended. A lost connection is taken up again where it broke. An error of on
// ends the stream and is returned.
func (c *Client) Stream(ctx context.Context, run string, after Cursor, on func(agon.Event) error) (*Run, error) {
	pause := c.Backoff
	for idle := 0; ; {
		before := after
		end, wait, err := c.follow(ctx, run, &after, on)
		if end != nil {
			return end, nil
		}
		if after != before {
			idle, pause = 0, c.Backoff
		} else {
			idle++
		}
		var final *finalError
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &final):
			return nil, final.error
		case idle >= maxIdle:
			if err == nil {
				err = c.unreachable(io.ErrUnexpectedEOF)
			}
			return nil, err
		}
		if wait == 0 {
			wait = pause/2 + rand.N(pause/2+1)
			pause = min(2*pause, maxRetry)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}

// finalError ends a stream: connecting again would not mend it.
type finalError struct{ error }

// follow reads one connection. It moves after along and returns the run when
// the end event came; the duration is what the server asked us to wait.
func (c *Client) follow(ctx context.Context, run string, after *Cursor, on func(agon.Event) error) (*Run, time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.openStream(ctx, run, *after)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests {
			return nil, 0, &finalError{err}
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	if ct, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); strings.TrimSpace(ct) != "text/event-stream" {
		return nil, 0, &finalError{&agon.Error{
			Code: "bad_reply", Status: http.StatusBadGateway, Fault: agon.FaultPlatform,
			Message: "the event stream is not text/event-stream", Mend: "check that AGON_URL names an agon server",
		}}
	}
	quiet := time.AfterFunc(c.Quiet, cancel)
	defer quiet.Stop()
	r := newSSEReader(&watched{resp.Body, func() { quiet.Reset(c.Quiet) }})
	for {
		ev, err := r.next()
		if err != nil {
			if errors.Is(err, errSSE) {
				return nil, r.retry, &finalError{&agon.Error{
					Code: "bad_reply", Status: http.StatusBadGateway,
					Fault: agon.FaultPlatform, Message: "event stream: " + err.Error(), Err: err,
				}}
			}
			return nil, r.retry, c.unreachable(err)
		}
		if ev.name == "end" {
			var end Run
			if err := json.Unmarshal(ev.data, &end); err != nil {
				return nil, 0, badEvent(err)
			}
			return &end, 0, nil
		}
		var e agon.Event
		if err := json.Unmarshal(ev.data, &e); err != nil {
			return nil, 0, badEvent(err)
		}
		if !after.Before(CursorOf(e)) {
			continue // a repeat after a resume
		}
		if err := on(e); err != nil {
			return nil, 0, &finalError{err}
		}
		*after = CursorOf(e)
	}
}

func badEvent(err error) error {
	return &finalError{&agon.Error{
		Code: "bad_reply", Status: http.StatusBadGateway, Fault: agon.FaultPlatform,
		Message: "event stream: an event is not what /v1 promises", Err: err,
	}}
}

func (c *Client) openStream(ctx context.Context, run string, after Cursor) (*http.Response, error) {
	ca := call{method: http.MethodGet, path: path("runs", run, "stream"), accept: "text/event-stream"}
	if after != (Cursor{}) {
		ca.lastEventID = after.String()
	}
	resp, err := c.open(ctx, ca)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, problem(resp, ca)
	}
	return resp, nil
}

// watched tells of every read that brought bytes.
type watched struct {
	r    io.Reader
	seen func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.seen()
	}
	return n, err
}

// errSSE marks a stream that breaks its limits.
var errSSE = errors.New("over the limit")

// sseEvent is one event of a server-sent stream.
type sseEvent struct {
	id, name string
	data     []byte
}

// sseReader reads server-sent events within limits. Bytes are foreign.
type sseReader struct {
	r     *bufio.Reader
	id    string        // of the last event; it lasts until the next
	retry time.Duration // what the server asked for, bounded; 0 = nothing
}

func newSSEReader(r io.Reader) *sseReader { return &sseReader{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next event that has data. An event that the stream's end
// cuts off is dropped, as the format says.
func (s *sseReader) next() (sseEvent, error) {
	var ev sseEvent
	var seen bool
	size := 0
	for {
		line, err := s.line(maxEvent - size)
		if err != nil {
			return sseEvent{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if seen {
				ev.id = s.id
				return ev, nil
			}
			ev, size = sseEvent{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "data":
			if seen {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
			seen = true
		case "event", "id", "retry":
			if len(value) > maxMeta {
				return sseEvent{}, fmt.Errorf("%s of more than %d bytes: %w", field, maxMeta, errSSE)
			}
			s.meta(&ev, string(field), string(value))
		}
	}
}

func (s *sseReader) meta(ev *sseEvent, field, value string) {
	switch field {
	case "event":
		ev.name = value
	case "id":
		if !strings.ContainsRune(value, 0) {
			s.id = value
		}
	case "retry":
		if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
			s.retry = min(max(time.Duration(ms)*time.Millisecond, minRetry), maxRetry)
		}
	}
}

// line reads one line without its end ("\n" or "\r\n"), at most limit bytes.
func (s *sseReader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if len(line)+len(part) > limit+2 {
			return nil, fmt.Errorf("event of more than %d bytes: %w", maxEvent, errSSE)
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
}
