// Package iostreams is the CLI's door to the terminal: where to read and
// write, whether a person looks, how wide the window is and whether it takes
// colour. Data goes to Out; everything said to a person goes to Err.
package iostreams

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/term"
)

// DefaultWidth is assumed where the terminal does not tell.
const DefaultWidth = 80

// IO holds the streams of one command.
type IO struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	inTTY, outTTY, errTTY bool
	width                 func() int
	colour                bool
	colourForced          bool
}

// System returns the process's streams. Getenv is os.Getenv outside tests.
//
// AGON_FORCE_TTY=N makes stdout and stderr count as a terminal N columns wide
// (for tests and screen recordings). Colour follows NO_COLOR, CLICOLOR_FORCE,
// CLICOLOR=0 and TERM=dumb, in this order.
func System(getenv func(string) string) *IO {
	s := &IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	s.inTTY = term.IsTerminal(int(os.Stdin.Fd()))
	s.outTTY = term.IsTerminal(int(os.Stdout.Fd()))
	s.errTTY = term.IsTerminal(int(os.Stderr.Fd()))
	s.width = func() int {
		for _, f := range []*os.File{os.Stdout, os.Stderr} {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
		}
		if w, err := strconv.Atoi(getenv("COLUMNS")); err == nil && w > 0 {
			return w
		}
		return DefaultWidth
	}
	if w, err := strconv.Atoi(getenv("AGON_FORCE_TTY")); err == nil && w > 0 {
		s.ForceTTY(w)
	}
	s.colour, s.colourForced = colour(getenv)
	return s
}

// colour reads the environment's wish; forced says that it holds without a terminal too.
func colour(getenv func(string) string) (on, forced bool) {
	switch {
	case getenv("NO_COLOR") != "":
		return false, true
	case getenv("CLICOLOR_FORCE") != "" && getenv("CLICOLOR_FORCE") != "0":
		return true, true
	case getenv("CLICOLOR") == "0", getenv("TERM") == "dumb":
		return false, false
	}
	return true, false
}

// SetColour applies --color: "auto" keeps what the environment says.
func (s *IO) SetColour(mode string) error {
	switch mode {
	case "", "auto":
	case "always":
		s.colour, s.colourForced = true, true
	case "never":
		s.colour, s.colourForced = false, true
	default:
		return fmt.Errorf("--color %q: want auto, always or never", mode)
	}
	return nil
}

// ForceTTY makes the streams count as a terminal of this width.
func (s *IO) ForceTTY(width int) {
	s.inTTY, s.outTTY, s.errTTY = true, true, true
	s.width = func() int { return width }
}

// InTTY reports whether a person can answer a question.
func (s *IO) InTTY() bool { return s.inTTY }

// OutTTY reports whether a person reads Out.
func (s *IO) OutTTY() bool { return s.outTTY }

// ErrTTY reports whether a person reads Err.
func (s *IO) ErrTTY() bool { return s.errTTY }

// Width returns the terminal's columns, at least 1. It may change with the window.
func (s *IO) Width() int { return max(1, s.width()) }

// OutColour and ErrColour report whether to colour a stream.
func (s *IO) OutColour() bool { return s.colour && (s.outTTY || s.colourForced) }

// ErrColour: see OutColour.
func (s *IO) ErrColour() bool { return s.colour && (s.errTTY || s.colourForced) }

// Style is a way to mark text.
type Style string

// The styles in use.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint marks s where on is true. The text must be clean already.
func Paint(on bool, st Style, s string) string {
	if !on || s == "" || st == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// Notef writes one line to Err.
func (s *IO) Notef(format string, args ...any) {
	// A person who closed stderr hears nothing; there is nowhere to report it.
	_, _ = fmt.Fprintln(s.Err, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}

// Buffer is a bytes.Buffer that several goroutines may write.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Test returns streams over buffers that are not a terminal.
func Test(in string) (s *IO, out, errOut *Buffer) {
	out, errOut = &Buffer{}, &Buffer{}
	return &IO{In: strings.NewReader(in), Out: out, Err: errOut, width: func() int { return DefaultWidth }}, out, errOut
}
