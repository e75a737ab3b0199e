// Package progress shows how far long work has come: one live line on a
// terminal, now and then a plain line elsewhere. Logs written through a Bar
// stand above the line.
package progress

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// State is how far the work has come.
type State struct {
	Label   string // what is being done, for example "playing my-arena"
	Total   int    // 0 = not known yet
	Done    int
	Running int
	Failed  int // of Done
}

const (
	redraw = 50 * time.Millisecond // live lines are not drawn more often
	every  = 10 * time.Second      // plain lines come this often, when something changed
)

// Bar shows a State on Err. It is safe for concurrent use.
type Bar struct {
	io   *iostreams.IO
	now  func() time.Time
	live bool

	mu      sync.Mutex // guards what follows
	start   time.Time
	state   State
	told    State     // last state that was written
	toldAt  time.Time // when
	drawn   bool      // a live line stands at the cursor
	closed  bool
	partial []byte // of a log line
}

// New returns a bar; now is the clock. A dumb terminal gets plain lines.
func New(s *iostreams.IO, now func() time.Time, dumb bool) *Bar {
	return &Bar{io: s, now: now, live: s.ErrTTY() && !dumb, start: now()}
}

// Set shows st.
func (b *Bar) Set(st State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || st == b.state {
		return
	}
	b.state = st
	b.show(false)
}

// Write takes log lines and keeps them apart from the live line.
func (b *Bar) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partial = append(b.partial, p...)
	i := bytes.LastIndexByte(b.partial, '\n')
	if i < 0 {
		return len(p), nil
	}
	b.erase()
	_, err := b.io.Err.Write(b.partial[:i+1])
	b.partial = append(b.partial[:0], b.partial[i+1:]...)
	if b.live && !b.closed && b.state != (State{}) {
		b.draw()
	}
	return len(p), err
}

// Close writes the last state and leaves the terminal on a fresh line. It may be called twice.
func (b *Bar) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.show(true)
	b.closed = true
	if b.drawn {
		b.put("\n")
		b.drawn = false
	}
	if len(b.partial) > 0 {
		b.put(string(b.partial) + "\n")
		b.partial = nil
	}
}

// show writes the state if it is due; last writes it in any case.
func (b *Bar) show(last bool) {
	if b.state == b.told {
		return
	}
	wait := every
	if b.live {
		wait = redraw
	}
	now := b.now()
	due := b.toldAt.IsZero() || now.Sub(b.toldAt) >= wait || b.state.Label != b.told.Label ||
		b.state.Total > 0 && b.state.Done == b.state.Total
	if !due && !last {
		return
	}
	b.told, b.toldAt = b.state, now
	if b.live {
		b.erase()
		b.draw()
		return
	}
	b.put(b.words() + "\n")
}

func (b *Bar) erase() {
	if b.drawn {
		b.put("\r\x1b[K")
		b.drawn = false
	}
}

// draw writes the live line, one column short of the edge so that it cannot wrap.
func (b *Bar) draw() {
	b.put(b.line(b.io.Width() - 1))
	b.drawn = true
}

func (b *Bar) put(s string) {
	// Progress has no reader that could hear of an error.
	_, _ = b.io.Err.Write([]byte(s))
}

func (b *Bar) count() string {
	if b.state.Total == 0 {
		return fmt.Sprintf("%d", b.state.Done)
	}
	return fmt.Sprintf("%d/%d", b.state.Done, b.state.Total)
}

// words is the state in full.
func (b *Bar) words() string {
	parts := []string{b.count()}
	if b.state.Label != "" {
		parts[0] = plain.Line(b.state.Label) + " " + parts[0]
	}
	if b.state.Running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", b.state.Running))
	}
	if b.state.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", b.state.Failed))
	}
	return strings.Join(append(parts, b.now().Sub(b.start).Truncate(time.Second).String()), ", ")
}

// line is the state in at most width columns: words, with a bar where there is room.
func (b *Bar) line(width int) string {
	words := b.words()
	room := width - plain.Width(words) - 3
	if b.state.Total <= 0 || room < 10 {
		if plain.Width(words) > width {
			words = b.count()
		}
		return plain.Cut(words, width)
	}
	room = min(room, 30)
	full := min(room, max(0, b.state.Done*room/b.state.Total))
	bar := strings.Repeat("#", full) + strings.Repeat("-", room-full)
	if b.io.ErrColour() {
		bar = iostreams.Paint(true, iostreams.Green, bar[:full]) + bar[full:]
	}
	return "[" + bar + "] " + words
}
