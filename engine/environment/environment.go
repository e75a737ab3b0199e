// Package environment lets a trainer play tasks call by call: an Environment
// opens episodes of a kind's tasks, each with the kind's own tools and its own
// scorer, and Sessions keeps many of them within limits. Package ui/env serves
// them in the forms that trainers speak.
package environment

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agon-arena/agon"
)

// Environment is a list of tasks that can be played call by call. Safe for
// concurrent use.
type Environment interface {
	// Name is what trainers call it: "shopping".
	Name() string
	// Tasks are the tasks, in a fixed order. Only public ones: what an Environment
	// holds, everybody who can reach the server may read.
	Tasks() []Task
	// Tools are what a policy may call in every episode.
	Tools() []Tool
	// Open begins an episode of the task with this key. The same key, seed and
	// calls give the same replies and the same reward.
	Open(ctx context.Context, key string, seed int64) (Episode, error)
}

// Task is what a policy is told of a task.
type Task struct {
	Key    string          `json:"key"`
	Prompt string          `json:"prompt"`
	Meta   json.RawMessage `json:"meta,omitempty"` // an object; what is public of it besides
}

// Tool is a tool as language models are told of it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"` // JSON schema of the arguments
}

// Episode is one try at a task. Its calls come one after the other.
type Episode interface {
	// Call carries out a tool call. args is a JSON object. Whatever a policy says
	// gets a reply; an error is ours.
	Call(ctx context.Context, tool string, args json.RawMessage) (Reply, error)
	// Close frees what the episode holds.
	Close() error
}

// Reply answers a call.
type Reply struct {
	Text    string // what the policy sees
	Refused bool   // the arguments were not taken; Text says why
	Done    bool   // the episode is over
	// Reward is what the kind's scorer says, from 0 to 1; only with Done.
	Reward float64
	// Fields are the scorer's parts by name; only with Done.
	Fields map[string]float64
}

// Limits of Sessions.
type Limits struct {
	Sessions int           // open at once; 4,096 by default
	Calls    int           // in one episode; 256 by default
	Args     int           // bytes of one call's arguments; 64 KiB by default
	Whole    time.Duration // from the beginning of a session to its end; 1 h by default
	Idle     time.Duration // between two requests; 10 min by default
}

func (l *Limits) defaults() {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&l.Sessions, 4096)
	set(&l.Calls, 256)
	set(&l.Args, 64<<10)
	if l.Whole <= 0 {
		l.Whole = time.Hour
	}
	if l.Idle <= 0 {
		l.Idle = 10 * time.Minute
	}
}

// Sessions keeps the open episodes of one environment. Safe for concurrent use.
type Sessions struct {
	Env    Environment
	limits Limits
	now    func() time.Time
	tasks  map[string]int // place in Env.Tasks by key

	mu    sync.Mutex
	open  map[string]*Session
	ended []Ended        // guarded by mu; a ring of the episodes that ended last
	place map[string]int // guarded by mu; in ended, by session
	next  int            // guarded by mu; the ring's oldest
}

// Ended is what is kept of a session that was closed after its episode was done: a
// trainer that lost the answer asks once more.
type Ended struct {
	Session, Task string
	Seed          int64
	Last          Reply
}

// keptEnded bounds what is kept of closed sessions.
const keptEnded = 4096

// NewSessions keeps sessions of env within limits; now is the clock.
func NewSessions(env Environment, l Limits, now func() time.Time) *Sessions {
	l.defaults()
	s := &Sessions{Env: env, limits: l, now: now, tasks: map[string]int{}, open: map[string]*Session{}, place: map[string]int{}}
	for i, t := range env.Tasks() {
		s.tasks[t.Key] = i
	}
	return s
}

// Session is an episode with its place in Sessions.
type Session struct {
	ID   string
	Task Task
	Seed int64

	all     *Sessions
	begun   time.Time
	mu      sync.Mutex // held during a call
	episode Episode    // guarded by mu; nil when closed
	calls   int        // guarded by mu
	over    *Reply     // guarded by mu; the last reply of an episode that is done
	last    call       // guarded by mu; the one that was answered last
	under   string     // guarded by all.mu; the id of the call that holds mu, "" where it has none

	seen time.Time // guarded by all.mu
}

// call is a call with its answer.
type call struct {
	id, tool string
	args     []byte // only of the call that ended the episode
	reply    Reply
}

// Status is how a session stands.
type Status struct {
	Episode string `json:"episode_id"`
	Task    string `json:"task"`
	Steps   int    `json:"step_count"`
	Done    bool   `json:"done"`
}

// Task returns the task with this key; an error names what is wrong.
func (s *Sessions) Task(key string) (Task, error) {
	i, ok := s.tasks[key]
	if !ok {
		return Task{}, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: fmt.Sprintf("there is no task %.80q here: hidden tasks and tasks that are held back are never served", key)}
	}
	return s.Env.Tasks()[i], nil
}

// Open begins a session. id names it; "" has one drawn.
func (s *Sessions) Open(ctx context.Context, id, key string, seed int64) (*Session, error) {
	t, err := s.Task(key)
	if err != nil {
		return nil, err
	}
	if id == "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		id = hex.EncodeToString(b[:])
	}
	if len(id) > 128 {
		return nil, &agon.Error{Code: "bad_field", Status: 422, Field: "session", Limit: "128 bytes", Message: "the session's id is longer than 128 bytes"}
	}
	s.Sweep()
	x := &Session{ID: id, Task: t, Seed: seed, all: s, begun: s.now(), seen: s.now()}
	s.mu.Lock()
	switch {
	case s.open[id] != nil:
		s.mu.Unlock()
		return nil, &agon.Error{Code: "session_exists", Status: 409, Field: "session", Message: "there is a session of this id already", Mend: "name another, or end that one"}
	case len(s.open) >= s.limits.Sessions:
		s.mu.Unlock()
		return nil, &agon.Error{Code: "too_many_sessions", Status: 503, Field: "session", Limit: fmt.Sprintf("%d sessions", s.limits.Sessions), Message: fmt.Sprintf("%d sessions are open, the limit", s.limits.Sessions), Mend: "end some, or serve with --sessions"}
	}
	x.mu.Lock() // nobody calls before it is there
	s.open[id] = x
	s.mu.Unlock()
	defer x.mu.Unlock()
	x.episode, err = s.Env.Open(ctx, key, seed)
	if err != nil {
		s.forget(x)
		return nil, err
	}
	return x, nil
}

func (s *Sessions) forget(x *Session) {
	s.mu.Lock()
	if s.open[x.ID] == x {
		delete(s.open, x.ID)
	}
	s.mu.Unlock()
}

// Get returns an open session and notes that it is used.
func (s *Sessions) Get(id string) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.open[id]
	if x == nil || s.late(x) {
		return nil, &agon.Error{Code: "session_not_found", Status: 404, Field: "session", Message: "there is no such session: it was never opened, has ended, or was idle for too long"}
	}
	x.seen = s.now()
	return x, nil
}

func (s *Sessions) late(x *Session) bool {
	now := s.now()
	return now.Sub(x.begun) > s.limits.Whole || now.Sub(x.seen) > s.limits.Idle
}

// Sweep ends the sessions that are past their deadline and returns how many.
func (s *Sessions) Sweep() int {
	s.mu.Lock()
	var old []*Session
	for id, x := range s.open {
		if s.late(x) {
			old = append(old, x)
			delete(s.open, id)
		}
	}
	s.mu.Unlock()
	for _, x := range old {
		_ = x.Close()
	}
	return len(old)
}

// Run sweeps until ctx ends, then ends all sessions.
func (s *Sessions) Run(ctx context.Context) {
	tick := time.NewTicker(min(s.limits.Idle, time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.Sweep()
		case <-ctx.Done():
			s.mu.Lock()
			all := s.open
			s.open = map[string]*Session{}
			s.mu.Unlock()
			for _, x := range all {
				_ = x.Close()
			}
			return
		}
	}
}

// ErrOver says that an episode takes no more calls.
var ErrOver = errors.New("the episode is over")

// Call carries out a tool call. A second call while one is under way is refused:
// two trainers on one session would each see half an episode.
//
// id names the call; "" where the trainer has no name for it. A trainer that lost the
// answer asks again: the call that was answered last, by its id, gets the same answer
// and does nothing, and one that is under way is waited for. The call that ended the
// episode is known by its tool and arguments too.
func (x *Session) Call(ctx context.Context, id, tool string, args json.RawMessage) (Reply, error) {
	if !x.hold(id) {
		return Reply{}, &agon.Error{Code: "session_busy", Status: 409, Field: "session", Message: "a call of this session is under way", Mend: "one trainer to a session, one call at a time"}
	}
	defer x.release()
	l := x.all.limits
	again := x.last.tool == tool && (id != "" && x.last.id == id || x.over != nil && bytes.Equal(x.last.args, args))
	switch {
	case again:
		return x.last.reply, nil
	case x.over != nil || x.episode == nil:
		return Reply{}, ErrOver
	case len(args) > l.Args:
		return Reply{Refused: true, Text: fmt.Sprintf("arguments: %d bytes, at most %d", len(args), l.Args)}, nil
	}
	said := args
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if args[0] != '{' || !json.Valid(args) {
		return Reply{Refused: true, Text: "arguments: want a JSON object"}, nil
	}
	x.calls++
	var r Reply
	var err error
	if x.calls > l.Calls {
		// Who never ends has given no answer.
		r = Reply{Done: true, Text: fmt.Sprintf("the episode ended after %d calls without an answer", l.Calls)}
	} else if r, err = x.episode.Call(ctx, tool, args); err != nil {
		x.calls-- // it did nothing
		return Reply{}, err
	}
	x.last = call{id: id, tool: tool, reply: r}
	if r.Done {
		x.over, x.last.args = &r, bytes.Clone(said)
	}
	return r, nil
}

// hold takes mu for a call; it waits only for a call of the same id, and reports false
// where another one has it.
func (x *Session) hold(id string) bool {
	if !x.mu.TryLock() {
		x.all.mu.Lock()
		same := id != "" && x.under == id
		x.all.mu.Unlock()
		if !same {
			return false
		}
		x.mu.Lock()
	}
	x.all.mu.Lock()
	x.under = id
	x.all.mu.Unlock()
	return true
}

func (x *Session) release() {
	x.all.mu.Lock()
	x.under = ""
	x.all.mu.Unlock()
	x.mu.Unlock()
}

// Fresh reports whether the session was opened for this task and seed and nothing was called in it.
func (x *Session) Fresh(key string, seed int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.Task.Key == key && x.Seed == seed && x.calls == 0 && x.episode != nil
}

// Status tells how the session stands.
func (x *Session) Status() Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Status{x.ID, x.Task.Key, x.calls, x.over != nil}
}

// Last is the reply that ended the episode, nil before.
func (x *Session) Last() *Reply {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.over
}

// Close ends the session; a second time does nothing.
func (x *Session) Close() error {
	x.all.forget(x)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.episode == nil {
		return nil
	}
	e := x.episode
	x.episode = nil
	if x.over != nil {
		x.all.keep(Ended{x.ID, x.Task.Key, x.Seed, *x.over})
	}
	return e.Close()
}

// keep notes how a session ended, in the place of the oldest one.
func (s *Sessions) keep(e Ended) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) < keptEnded {
		s.ended = append(s.ended, e)
		s.place[e.Session] = len(s.ended) - 1
		return
	}
	if old := s.ended[s.next].Session; s.place[old] == s.next {
		delete(s.place, old)
	}
	s.ended[s.next] = e
	s.place[e.Session] = s.next
	s.next = (s.next + 1) % keptEnded
}

// Ended tells how a session that is closed has ended, where its episode was done and
// not more than a few thousand have ended since.
func (s *Sessions) Ended(id string) (Ended, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.place[id]
	if !ok {
		return Ended{}, false
	}
	return s.ended[i], true
}

// Len is how many sessions are open.
func (s *Sessions) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
