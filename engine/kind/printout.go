package kind

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Output is the data of an agon.EventOutput: what was printed on a stream.
type Output struct {
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// Truncated: there was more, before or after.
	Truncated bool `json:"truncated"`
	// Marks say when it was printed, in order: the time since the stream's begin in
	// ms, and how many bytes of Text stood there by then. Empty: nobody knows.
	Marks [][2]int64 `json:"marks,omitempty"`
}

// Bounds of the marks of an output: what is printed within one step has one mark.
const (
	markStep = 50 * time.Millisecond
	maxMarks = 2000
)

// Printout keeps the end of what a program prints, and when it printed it. It is
// a writer for a command's output, of one or of both streams.
type Printout struct {
	limit int // bytes that are kept
	now   func() time.Time

	mu      sync.Mutex
	began   time.Time
	parts   []part // guarded by mu
	size    int
	dropped int
}

// part is what was printed within one step.
type part struct {
	at time.Duration
	b  []byte
}

// NewPrintout returns a writer that keeps the last limit bytes; its time begins now.
func NewPrintout(limit int) *Printout {
	return &Printout{limit: limit, now: time.Now, began: time.Now()} //nolint:forbidigo // shown to people only
}

// Write implements io.Writer; it never fails.
func (p *Printout) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.now().Sub(p.began)
	if n := len(p.parts); n == 0 || at-p.parts[n-1].at >= markStep && n < maxMarks {
		p.parts = append(p.parts, part{at: at})
	}
	last := &p.parts[len(p.parts)-1]
	last.b = append(last.b, b...)
	p.size += len(b)
	for p.size > p.limit && len(p.parts) > 1 && p.size-len(p.parts[0].b) >= p.limit {
		p.size, p.dropped = p.size-len(p.parts[0].b), p.dropped+len(p.parts[0].b)
		p.parts = p.parts[1:]
	}
	if first := &p.parts[0]; p.size > p.limit && len(first.b) > p.limit {
		cut := p.size - p.limit // of a program that prints without a pause
		first.b = append([]byte(nil), first.b[cut:]...)
		p.size, p.dropped = p.size-cut, p.dropped+cut
	}
	return len(b), nil
}

// Bytes is what is kept: limit bytes at most.
func (p *Printout) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes()
}

func (p *Printout) bytes() []byte {
	var out []byte
	for _, x := range p.parts {
		out = append(out, x.b...)
	}
	return out[max(0, len(out)-p.limit):]
}

// Output is what is kept as the data of an event.
func (p *Printout) Output(stream string) Output {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := Output{Stream: stream, Truncated: p.dropped > 0 || p.size > p.limit}
	var text strings.Builder
	var rest []byte // the begin of a character that the next part ends
	over := max(0, p.size-p.limit)
	for i, x := range p.parts {
		b := x.b
		if over > 0 {
			n := min(over, len(b))
			b, over = b[n:], over-n
		}
		b = append(rest, b...)
		rest = nil
		if i < len(p.parts)-1 {
			for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
				if at := len(b) - n; utf8.RuneStart(b[at]) {
					if !utf8.FullRune(b[at:]) {
						b, rest = b[:at:at], append([]byte(nil), b[at:]...)
					}
					break
				}
			}
		}
		if len(b) > 0 {
			text.WriteString(strings.ToValidUTF8(string(b), "\ufffd"))
			o.Marks = append(o.Marks, [2]int64{x.at.Milliseconds(), int64(text.Len())})
		}
	}
	o.Text = text.String()
	return o
}
