package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/plain"
)

// Live parts. A run's feed renders each new step once for all who may read the
// same; what else changes is told as one word, and the browser fetches its
// page again, at most once a second.

const (
	keepAlive = 15 * time.Second
	atMost    = time.Second
)

// openStream starts server-sent events.
func openStream(w http.ResponseWriter) (*http.ResponseController, error) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // a stream outlives the server's write timeout
	if _, err := fmt.Fprint(w, "retry: 2000\n\n"); err != nil {
		return nil, err
	}
	return rc, rc.Flush()
}

// changes tells that something has changed, at most once a second.
func (s *server) changes(w http.ResponseWriter, r *http.Request) {
	rc, err := openStream(w)
	if err != nil {
		return
	}
	f := s.feeds.open("", func(f *feed) { s.watchAll(f) })
	defer s.feeds.close(f)
	n := f.position()
	for {
		line := "event: change\ndata: 1\n\n"
		next, _, ok := f.after(r.Context(), n, keepAlive)
		if r.Context().Err() != nil {
			return
		}
		if !ok {
			line = ": still here\n\n"
		}
		n = next
		if _, err := fmt.Fprint(w, line); err != nil || rc.Flush() != nil {
			return
		}
	}
}

// watchAll adds one entry to f whenever something has changed, until f is closed.
func (s *server) watchAll(f *feed) {
	for f.ctx.Err() == nil {
		wctx, cancel := context.WithTimeout(f.ctx, keepAlive)
		err := s.cfg.Platform.Wait(wctx, "")
		cancel()
		if err == nil {
			f.add("", "")
		}
		pause(f.ctx, atMost)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// live streams the steps of a run as HTML. Last-Event-ID or ?after resumes.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	c, _ := s.callerOf(r)
	id := r.PathValue("id")
	run, err := s.cfg.Platform.Run(r.Context(), c, id)
	if err != nil {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	role, err := s.cfg.Platform.RoleOf(r.Context(), c, run.Submission)
	if err != nil {
		http.Error(w, "no such run", http.StatusNotFound)
		return
	}
	from := r.URL.Query().Get("after")
	if h := r.Header.Get("Last-Event-ID"); h != "" {
		from = h
	}
	at, seq, ok := cursor(from)
	if from != "" && !ok {
		http.Error(w, "after: want ATTEMPT.SEQ", http.StatusBadRequest)
		return
	}
	rc, err := openStream(w)
	if err != nil {
		return
	}
	f := s.feeds.open(string(role)+" "+id, func(f *feed) { s.watchRun(f, c, id) })
	defer s.feeds.close(f)
	// What was there before the feed saw it comes from the store.
	for n := 0; ; {
		next, list, ok := f.after(r.Context(), n, keepAlive)
		if r.Context().Err() != nil {
			return
		}
		n = next
		var b bytes.Buffer
		if !ok {
			b.WriteString(": still here\n\n")
		}
		for _, e := range list {
			if a, q, ok := cursor(e.id); ok {
				if a < at || (a == at && q <= seq) {
					continue
				}
				at, seq = a, q
			}
			b.WriteString(e.text)
		}
		if b.Len() > 0 {
			if _, err := w.Write(b.Bytes()); err != nil || rc.Flush() != nil {
				return
			}
		}
		if len(list) > 0 && list[len(list)-1].id == "end" {
			return
		}
	}
}

// watchRun adds the steps of a run to f as events of the stream, then its end.
func (s *server) watchRun(f *feed, c platform.Caller, id string) {
	var at int
	var seq int64
	for f.ctx.Err() == nil {
		// The run is read before its events: when it is final, all are there.
		run, err := s.cfg.Platform.Run(f.ctx, c, id)
		if err != nil {
			return
		}
		evs, err := s.cfg.Platform.Events(f.ctx, c, id, at, seq, 200)
		if err != nil {
			return
		}
		for _, e := range evs {
			st := stepOf(e, maxBlock)
			var b bytes.Buffer
			if err := s.pages["run"].ExecuteTemplate(&b, "step", st); err != nil {
				s.cfg.Log.Error("step failed", "err", err)
				return
			}
			f.add(st.Cursor, "id: "+st.Cursor+"\nevent: step\ndata: "+strings.ReplaceAll(string(plain.Strip(b.Bytes())), "\n", "\ndata: ")+"\n\n")
			at, seq = e.Attempt, e.Seq
		}
		if len(evs) == 200 {
			continue
		}
		if run.State.Final() {
			f.add("end", "event: end\ndata: "+string(run.State)+"\n\n")
			return
		}
		wctx, cancel := context.WithTimeout(f.ctx, keepAlive)
		_ = s.cfg.Platform.Wait(wctx, id) // ends with news or after a while; both are looked at
		cancel()
		pause(f.ctx, 100*time.Millisecond) // steps that come together are drawn together
	}
}

// feeds shares one watcher among all who watch the same.
type feeds struct {
	mu    sync.Mutex
	byKey map[string]*feed
}

func newFeeds() *feeds { return &feeds{byKey: map[string]*feed{}} }

// feed is a growing list of entries. Those before first have been let go.
type feed struct {
	key    string
	ctx    context.Context
	stop   context.CancelFunc
	users  int
	mu     sync.Mutex
	first  int
	list   []entry
	signal chan struct{} // closed when an entry comes
}

type entry struct{ id, text string }

// maxFeed is how many entries a feed keeps for those who are behind.
const maxFeed = 2000

func (f *feeds) open(key string, watch func(*feed)) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.byKey[key]
	if x == nil {
		x = &feed{key: key, signal: make(chan struct{})}
		x.ctx, x.stop = context.WithCancel(context.Background())
		f.byKey[key] = x
		go watch(x)
	}
	x.users++
	return x
}

func (f *feeds) close(x *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.users--; x.users == 0 {
		x.stop()
		delete(f.byKey, x.key)
	}
}

func (f *feed) add(id, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, entry{id, text})
	if over := len(f.list) - maxFeed; over > 0 {
		f.list = append(f.list[:0:0], f.list[over:]...)
		f.first += over
	}
	close(f.signal)
	f.signal = make(chan struct{})
}

// position is where a reader starts who wants only what comes.
func (f *feed) position() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.first + len(f.list)
}

// after returns the entries from n on and where to go on, waiting for one at
// most d; ok is false when none came.
func (f *feed) after(ctx context.Context, n int, d time.Duration) (next int, list []entry, ok bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		f.mu.Lock()
		end, signal := f.first+len(f.list), f.signal
		if n < end {
			list = append(list, f.list[max(n-f.first, 0):]...)
			f.mu.Unlock()
			return end, list, true
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return n, nil, false
		case <-t.C:
			return n, nil, false
		case <-signal:
		}
	}
}
