package progress

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newBar(t *testing.T, width int) (*Bar, *iostreams.Buffer, *clock) {
	t.Helper()
	s, _, errOut := iostreams.Test("")
	if width > 0 {
		s.ForceTTY(width)
	}
	c := &clock{time.Unix(0, 0)}
	return New(s, c.now, false), errOut, c
}

func TestPlainLines(t *testing.T) {
	b, out, c := newBar(t, 0)
	b.Set(State{Label: "playing", Total: 54, Done: 0})
	for i := range 54 {
		c.t = c.t.Add(time.Second)
		b.Set(State{Label: "playing", Total: 54, Done: i + 1, Running: 2})
	}
	b.Close()
	b.Close()
	b.Set(State{Label: "after the end"})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 7 || lines[0] != "playing 0/54, 0s" || lines[6] != "playing 54/54, 2 running, 54s" {
		t.Errorf("lines:\n%s", out.String())
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\r") {
		t.Errorf("controls in %q", out.String())
	}
}

func TestDumbTerminalGetsPlainLines(t *testing.T) {
	s, _, out := iostreams.Test("")
	s.ForceTTY(80)
	b := New(s, time.Now, true)
	b.Set(State{Total: 2})
	b.Close()
	if strings.ContainsAny(out.String(), "\x1b\r") {
		t.Errorf("%q", out.String())
	}
}

// screen plays terminal output and returns the lines as a person sees them.
func screen(t *testing.T, s string, width int) []string {
	t.Helper()
	s = regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(s, "")
	lines := []string{""}
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, "\r\x1b[K"):
			lines[len(lines)-1] = ""
			s = s[len("\r\x1b[K"):]
			continue
		case s[0] == '\n':
			lines = append(lines, "")
		case s[0] == 0x1b || s[0] == '\r':
			t.Fatalf("unexpected control in %q", s)
		default:
			lines[len(lines)-1] += s[:1]
		}
		s = s[1:]
	}
	for _, l := range lines {
		if plain.Width(l) >= width {
			t.Errorf("line of %d columns in a window of %d: %q", plain.Width(l), width, l)
		}
	}
	return lines
}

func TestLiveLineAtEveryWidth(t *testing.T) {
	for _, width := range []int{1, 2, 5, 12, 20, 40, 80, 300} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			b, out, c := newBar(t, width)
			for i := range 55 {
				c.t = c.t.Add(time.Second)
				b.Set(State{Label: "playing\x1b[2J", Total: 54, Done: i, Running: 2, Failed: 1})
			}
			b.Close()
			lines := screen(t, out.String(), max(width, 2))
			if len(lines) != 2 || lines[1] != "" {
				t.Errorf("screen %q", lines)
			}
			if width == 80 && lines[0] != "["+strings.Repeat("#", 30)+"] playing 54/54, 2 running, 1 failed, 55s" {
				t.Errorf("line %q", lines[0])
			}
			if width == 12 && lines[0] != "54/54" {
				t.Errorf("line %q", lines[0])
			}
		})
	}
}

func TestLogsStandAboveTheLine(t *testing.T) {
	b, out, c := newBar(t, 40)
	b.Set(State{Label: "a", Total: 2})
	fmt.Fprint(b, "one\ntw")
	c.t = c.t.Add(time.Second)
	b.Set(State{Label: "a", Total: 2, Done: 1})
	fmt.Fprint(b, "o\nrest")
	b.Close()
	want := []string{"one", "two", "[###############---------------]", "rest", ""}
	got := screen(t, out.String(), 60)
	if len(got) != len(want) {
		t.Fatalf("screen %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], strings.TrimSuffix(want[i], "]")[:min(3, len(want[i]))]) {
			t.Errorf("line %d: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestUnknownTotal(t *testing.T) {
	b, out, _ := newBar(t, 40)
	b.Set(State{Label: "fetching", Done: 3})
	b.Close()
	if !strings.Contains(out.String(), "fetching 3, 0s") {
		t.Errorf("%q", out.String())
	}
}

func TestConcurrentUse(t *testing.T) {
	s, _, _ := iostreams.Test("")
	s.ForceTTY(40)
	b := New(s, time.Now, false)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				b.Set(State{Total: 200, Done: i*50 + j})
				io.WriteString(b, "log\n")
			}
		})
	}
	wg.Wait()
	b.Close()
}
