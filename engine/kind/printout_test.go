package kind

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// fakeClock steps when it is told to.
func printoutAt(limit int) (*Printout, *time.Time) {
	now := time.Unix(1000, 0)
	p := NewPrintout(limit)
	p.began, p.now = now, func() time.Time { return now }
	return p, &now
}

// What is printed keeps its times, and a character that two writes share stays one.
func TestPrintout(t *testing.T) {
	p, now := printoutAt(1 << 10)
	for _, w := range []string{"one\n", "two\n", "\xe2\x82", "\xac three\n", "\xff"} {
		*now = now.Add(40 * time.Millisecond)
		fmt.Fprint(p, w)
	}
	o := p.Output("output")
	if want := "one\ntwo\n€ three\n\ufffd"; o.Text != want || o.Truncated || o.Stream != "output" {
		t.Errorf("%+v, want %q", o, want)
	}
	if fmt.Sprint(o.Marks) != fmt.Sprintf("[[40 8] [120 %d] [200 %d]]", len("one\ntwo\n€ three\n"), len(o.Text)) {
		t.Errorf("marks %v", o.Marks)
	}
}

// However much is printed, and however, the end of it stays, in bounds, and the
// marks never fall behind the text.
func TestPrintoutBounds(t *testing.T) {
	for name, each := range map[string]int{"small": 7, "as large as the limit": 100, "larger": 333} {
		p, now := printoutAt(100)
		var all strings.Builder
		for i := range 3 * maxMarks {
			*now = now.Add(markStep)
			s := strings.Repeat(fmt.Sprint(i%10), each)
			all.WriteString(s)
			fmt.Fprint(p, s)
			if p.size > p.limit+each*2 || len(p.parts) > maxMarks {
				t.Fatalf("%s: %d bytes in %d parts are held", name, p.size, len(p.parts))
			}
		}
		o := p.Output("output")
		if want := all.String()[all.Len()-100:]; o.Text != want || !o.Truncated || string(p.Bytes()) != want {
			t.Errorf("%s: %q, want %q", name, o.Text, want)
		}
		last := [2]int64{-1, -1}
		for _, m := range o.Marks {
			if m[0] <= last[0] || m[1] <= last[1] {
				t.Fatalf("%s: mark %v after %v", name, m, last)
			}
			last = m
		}
		if last[1] != int64(len(o.Text)) {
			t.Errorf("%s: the last mark is %v of %d bytes", name, last, len(o.Text))
		}
	}
}

func FuzzPrintout(f *testing.F) {
	f.Add([]byte("a\xe2\x82\xacb\xff\xff"), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		p, now := printoutAt(64)
		for i := 0; i < len(b); i += int(step) + 1 {
			*now = now.Add(markStep)
			_, _ = p.Write(b[i:min(len(b), i+int(step)+1)])
		}
		o := p.Output("x")
		if !utf8.ValidString(o.Text) {
			t.Errorf("%q is not UTF-8", o.Text)
		}
		if n := len(o.Marks); (n > 0) != (o.Text != "") || n > 0 && o.Marks[n-1][1] != int64(len(o.Text)) {
			t.Errorf("marks %v of %d bytes", o.Marks, len(o.Text))
		}
	})
}
