package platform

import (
	"context"
	"sync"
	"time"
)

// echoAfter is when a change is announced a second time. A reader that looks
// and then waits may miss the first announcement in between; it hears the echo.
const echoAfter = 150 * time.Millisecond

// hub tells waiters that a run has changed. The zero value is ready.
type hub struct {
	tell  func(run string) // tells other servers; nil: there are none. Set before use.
	mu    sync.Mutex
	topic map[string]*topic // of runs that someone waits for; "" is any run
	echo  map[string]bool   // runs to announce again
	timer *time.Timer       // non-nil while echo has entries
}

type topic struct {
	ch chan struct{} // closed on a change
	n  int           // how many wait; owned by hub.mu
}

// changed wakes the waiters of run, now and once more a little later, here and
// at other servers.
func (h *hub) changed(run string) {
	if h.tell != nil {
		h.tell(run)
	}
	h.heard(run)
}

// heard is changed by another server.
func (h *hub) heard(run string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake(run)
	if h.echo == nil {
		h.echo = map[string]bool{}
	}
	h.echo[run] = true
	if h.timer == nil {
		h.timer = time.AfterFunc(echoAfter, h.again)
	}
}

func (h *hub) again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for run := range h.echo {
		h.wake(run)
	}
	clear(h.echo)
	h.timer = nil
}

// wake needs mu.
func (h *hub) wake(run string) {
	for _, k := range []string{run, ""} {
		if t := h.topic[k]; t != nil {
			close(t.ch)
			delete(h.topic, k)
		}
	}
}

// all wakes everybody: what changed is not known.
func (h *hub) all() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, t := range h.topic {
		close(t.ch)
		delete(h.topic, k)
	}
}

// wait blocks until a change of run, or of any run if it is empty.
func (h *hub) wait(ctx context.Context, run string) error {
	h.mu.Lock()
	if h.topic == nil {
		h.topic = map[string]*topic{}
	}
	t := h.topic[run]
	if t == nil {
		t = &topic{ch: make(chan struct{})}
		h.topic[run] = t
	}
	t.n++
	h.mu.Unlock()
	select {
	case <-t.ch:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.n--; t.n == 0 && h.topic[run] == t {
		delete(h.topic, run)
	}
	return ctx.Err()
}

// close stops the echo.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil && h.timer.Stop() {
		h.timer = nil
		clear(h.echo)
	}
}

// waiters is the line of claims that wait for work. Work that turns up wakes
// one waiter for each piece; a waiter that finds nothing for itself passes the
// news on to the next, so that work reaches whoever may have it and a crowd is
// never woken for nothing. The zero value is ready.
type waiters struct {
	tell func(n int, validator string) // tells other servers; nil: there are none. Set before use.
	mu   sync.Mutex
	gen  int64 // news so far
	line []*waiter
	// watch is told the length of the line whenever it changes; tests set it.
	watch func(int)
}

type waiter struct {
	validator string
	ch        chan struct{} // buffered: 1
	heard     int64         // the newest news it was woken for; owned by waiters.mu
}

// join puts a new waiter at the end of the line.
func (w *waiters) join(validator string) *waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &waiter{validator: validator, ch: make(chan struct{}, 1), heard: w.gen}
	w.line = append(w.line, x)
	w.changed()
	return x
}

// changed needs mu.
func (w *waiters) changed() {
	if w.watch != nil {
		w.watch(len(w.line))
	}
}

// leave takes x out of the line. News that it had not used goes to the next.
func (w *waiters) leave(x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, y := range w.line {
		if x == y {
			w.line = append(w.line[:i], w.line[i+1:]...)
			w.changed()
			break
		}
	}
	select {
	case <-x.ch:
		w.wake(1, nil)
	default:
	}
}

// news wakes the first n waiters of the line, here and at other servers.
func (w *waiters) news(n int) {
	if w.tell != nil {
		w.tell(n, "")
	}
	w.heard(n)
}

// heard is news from another server.
func (w *waiters) heard(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gen++
	w.wake(n, nil)
}

// freed wakes one waiter of a validator whose cap has room again.
func (w *waiters) freed(validator string) {
	if w.tell != nil {
		w.tell(0, validator)
	}
	w.freedThere(validator)
}

// freedThere is freed at another server.
func (w *waiters) freedThere(validator string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gen++
	w.wake(1, func(x *waiter) bool { return x.validator == validator })
}

// pass hands the news that x could not use to the next that has not heard it.
func (w *waiters) pass() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(1, nil)
}

// wake needs mu.
func (w *waiters) wake(n int, ok func(*waiter) bool) {
	for _, x := range w.line {
		if n == 0 {
			return
		}
		if x.heard >= w.gen || (ok != nil && !ok(x)) {
			continue
		}
		x.heard = w.gen
		select {
		case x.ch <- struct{}{}:
			n--
		default: // it has news to look at already
		}
	}
}

// seen remembers when validators last served an arena, and says when that is
// worth a write: the store must know it, so that it survives a restart.
type seen struct {
	mu   sync.Mutex
	last map[[2]string]sighting // arena, validator -> last write
}

// sighting is when a validator was noted, and with which GPUs: others are noted at
// once, because results are compared with them.
type sighting struct {
	at   time.Time
	gpus string
}

// due reports whether (arena, validator) should be written again.
func (s *seen) due(arena, validator, gpus string, now time.Time, every time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[[2]string]sighting{}
	}
	k := [2]string{arena, validator}
	x, ok := s.last[k]
	if gpus == "" {
		gpus = x.gpus
	}
	if ok && now.Sub(x.at) < every && gpus == x.gpus {
		return false
	}
	s.last[k] = sighting{now, gpus}
	return true
}

// turns remembers in which order validators took runs of arenas. It lasts as long
// as the process: who took none has its turn first.
type turns struct {
	mu sync.Mutex
	n  uint64
	at map[[2]string]uint64 // arena, validator -> the n of its last run
}

func (t *turns) took(arena, validator string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == nil {
		t.at = map[[2]string]uint64{}
	}
	t.n++
	t.at[[2]string{arena, validator}] = t.n
}

func (t *turns) last(arena, validator string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at[[2]string{arena, validator}]
}
