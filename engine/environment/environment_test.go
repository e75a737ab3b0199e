package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

// counter is an environment whose episodes end at the call "end".
type counter struct {
	mu     sync.Mutex
	closed int
	hold   chan struct{} // a call "wait" blocks on it
	in     chan struct{} // told when "wait" has begun
}

func (c *counter) Name() string  { return "counter" }
func (c *counter) Tasks() []Task { return []Task{{Key: "a", Prompt: "count"}, {Key: "b"}} }
func (c *counter) Tools() []Tool { return []Tool{{Name: "end"}, {Name: "wait"}} }
func (c *counter) Open(_ context.Context, key string, _ int64) (Episode, error) {
	if key == "b" {
		return nil, errors.New("the disk is gone")
	}
	return c, nil
}

func (c *counter) Call(_ context.Context, tool string, _ json.RawMessage) (Reply, error) {
	if tool == "wait" {
		c.in <- struct{}{}
		<-c.hold
	}
	return Reply{Done: tool == "end", Reward: 1}, nil
}

func (c *counter) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}

func code(err error) string {
	var e *agon.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestSessionsKeepTheirLimits(t *testing.T) {
	now := time.Unix(1000, 0)
	c := &counter{}
	s := NewSessions(c, Limits{Sessions: 2, Calls: 3, Args: 20, Whole: time.Hour, Idle: time.Minute}, func() time.Time { return now })
	ctx := t.Context()
	if _, err := s.Open(ctx, "", "hidden", 1); code(err) != "not_found" {
		t.Errorf("a task that is not there: %v", err)
	}
	if _, err := s.Open(ctx, strings.Repeat("x", 129), "a", 1); code(err) != "bad_field" {
		t.Errorf("a long id: %v", err)
	}
	if _, err := s.Open(ctx, "", "b", 1); err == nil || s.Len() != 0 {
		t.Errorf("a failure to open leaves %d sessions, %v", s.Len(), err)
	}
	one, err := s.Open(ctx, "one", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(ctx, "one", "a", 1); code(err) != "session_exists" {
		t.Errorf("the same id: %v", err)
	}
	if _, err := s.Open(ctx, "two", "a", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(ctx, "three", "a", 1); code(err) != "too_many_sessions" {
		t.Errorf("one too many: %v", err)
	}
	for _, args := range []string{`[]`, `{"a":`, `{"a":"` + strings.Repeat("x", 20) + `"}`} {
		if r, err := one.Call(ctx, "", "x", json.RawMessage(args)); err != nil || !r.Refused {
			t.Errorf("%.10s: %+v %v", args, r, err)
		}
	}
	for i := range 3 {
		if r, err := one.Call(ctx, "", "x", nil); err != nil || r.Done {
			t.Fatalf("call %d: %+v %v", i, r, err)
		}
	}
	if r, err := one.Call(ctx, "", "end", nil); err != nil || !r.Done || r.Reward != 0 {
		t.Errorf("past the limit of calls there is no reward: %+v %v", r, err)
	}
	if _, err := one.Call(ctx, "", "x", nil); !errors.Is(err, ErrOver) {
		t.Errorf("after the end: %v", err)
	}
	now = now.Add(50 * time.Second)
	if _, err := s.Get("one"); err != nil {
		t.Error(err)
	}
	now = now.Add(50 * time.Second) // "two" has been idle for too long
	if _, err := s.Get("two"); code(err) != "session_not_found" {
		t.Errorf("idle: %v", err)
	}
	if n := s.Sweep(); n != 1 || s.Len() != 1 || c.closed != 1 {
		t.Errorf("swept %d, %d open, %d closed", n, s.Len(), c.closed)
	}
	for range 80 {
		now = now.Add(50 * time.Second)
		_, err = s.Get("one")
	}
	if code(err) != "session_not_found" {
		t.Errorf("past the deadline though in use: %v", err)
	}
	s.Sweep()
	if err := one.Close(); err != nil || c.closed != 2 || s.Len() != 0 {
		t.Errorf("%v, %d closed, %d open", err, c.closed, s.Len())
	}
}

func TestTwoTrainersOnOneSession(t *testing.T) {
	c := &counter{hold: make(chan struct{}), in: make(chan struct{})}
	s := NewSessions(c, Limits{}, func() time.Time { return time.Unix(1, 0) })
	x, err := s.Open(t.Context(), "", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if r, err := x.Call(context.WithoutCancel(t.Context()), "", "wait", nil); err != nil || r.Done {
			t.Error(r, err)
		}
	})
	<-c.in
	if _, err := x.Call(t.Context(), "", "end", nil); code(err) != "session_busy" {
		t.Errorf("the second trainer: %v", err)
	}
	close(c.hold)
	wg.Wait()
	if st := x.Status(); st.Steps != 1 || st.Done {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if s.Len() != 0 || c.closed != 1 {
		t.Errorf("%d open, %d closed after the end", s.Len(), c.closed)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	c := &counter{}
	s := NewSessions(c, Limits{}, func() time.Time { return time.Unix(1, 0) })
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			x, err := s.Open(context.WithoutCancel(t.Context()), fmt.Sprint(i), "a", int64(i))
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := x.Call(context.WithoutCancel(t.Context()), "", "end", nil); err != nil || r.Reward != 1 {
				t.Error(r, err)
			}
			_ = x.Close()
		})
	}
	wg.Wait()
	if s.Len() != 0 || c.closed != 200 {
		t.Errorf("%d open, %d closed", s.Len(), c.closed)
	}
}

// A trainer that loses an answer asks again and gets the same one; nothing is done twice.
func TestLostAnswers(t *testing.T) {
	c := &counter{hold: make(chan struct{}), in: make(chan struct{})}
	s := NewSessions(c, Limits{}, func() time.Time { return time.Unix(1, 0) })
	ctx := t.Context()
	x, err := s.Open(ctx, "lost", "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	if !x.Fresh("a", 1) || x.Fresh("a", 2) || x.Fresh("b", 1) {
		t.Error("fresh is a session of this task and seed without a call")
	}
	steps := func(want int) {
		t.Helper()
		if st := x.Status(); st.Steps != want {
			t.Errorf("%d calls were made, want %d", st.Steps, want)
		}
	}
	for _, id := range []string{"1", "1", "1"} {
		if r, err := x.Call(ctx, id, "x", nil); err != nil || r.Done {
			t.Fatal(r, err)
		}
	}
	steps(1)
	for range 2 { // no name: each is a call
		if _, err := x.Call(ctx, "", "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	steps(3)
	if _, err := x.Call(ctx, "", "y", nil); err != nil || x.Fresh("a", 1) {
		t.Errorf("%v; fresh after calls: %v", err, x.Fresh("a", 1))
	}
	steps(4)

	// A call that is under way is waited for by its own name.
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			if r, err := x.Call(context.WithoutCancel(ctx), "slow", "wait", nil); err != nil || r.Done {
				t.Error(r, err)
			}
		})
		if i == 0 {
			<-c.in
		}
	}
	if _, err := x.Call(ctx, "other", "x", nil); code(err) != "session_busy" {
		t.Errorf("another call meanwhile: %v", err)
	}
	close(c.hold)
	wg.Wait()
	steps(5)

	for _, id := range []string{"", "", "end-1", "end-2"} {
		if r, err := x.Call(ctx, id, "end", json.RawMessage(`{"a":1}`)); err != nil || !r.Done || r.Reward != 1 {
			t.Errorf("the last call %q: %+v %v", id, r, err)
		}
	}
	steps(6)
	if _, err := x.Call(ctx, "", "end", json.RawMessage(`{"a":2}`)); !errors.Is(err, ErrOver) {
		t.Errorf("another one after the end: %v", err)
	}
	if _, ok := s.Ended("lost"); ok {
		t.Error("it is still open")
	}
	_ = x.Close()
	if e, ok := s.Ended("lost"); !ok || e.Task != "a" || e.Seed != 1 || e.Last.Reward != 1 {
		t.Errorf("closed: %+v %v", e, ok)
	}
	for i := range keptEnded { // what is kept is bounded
		s.keep(Ended{Session: fmt.Sprint(i)})
	}
	_, first := s.Ended("lost")
	_, second := s.Ended("0")
	if first || !second || len(s.place) != keptEnded {
		t.Errorf("kept: %v %v, %d", first, second, len(s.place))
	}
}

// A clock that is put back keeps sessions; one that is put forward ends them, and takes no new one with them.
func TestClocks(t *testing.T) {
	now := time.Unix(100_000, 0)
	c := &counter{}
	s := NewSessions(c, Limits{Whole: time.Hour, Idle: time.Minute}, func() time.Time { return now })
	if _, err := s.Open(t.Context(), "old", "a", 1); err != nil {
		t.Fatal(err)
	}
	now = now.Add(-24 * time.Hour)
	if n := s.Sweep(); n != 0 {
		t.Errorf("put back: %d sessions ended", n)
	}
	if x, err := s.Get("old"); err != nil {
		t.Error(err)
	} else if r, err := x.Call(t.Context(), "", "x", nil); err != nil || r.Done {
		t.Error(r, err)
	}
	now = now.Add(48 * time.Hour)
	if _, err := s.Open(t.Context(), "new", "a", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("old"); code(err) != "session_not_found" {
		t.Errorf("put forward: %v", err)
	}
	if _, err := s.Get("new"); err != nil || s.Len() != 1 || c.closed != 1 {
		t.Errorf("%v, %d open, %d closed", err, s.Len(), c.closed)
	}
}
