package plain

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", "solved 3/12\n\tok", "solved 3/12\n\tok"},
		{"umlauts and emoji stay", "Grüße 👩‍🔬 ok 日本", "Grüße 👩‍🔬 ok 日本"},
		{"colour", "a\x1b[31mred\x1b[0mb", "aredb"},
		{"cursor and clear", "\x1b[2J\x1b[Hx", "x"},
		{"csi with intermediates", "\x1b[?25l\x1b[1 qx", "x"},
		{"unterminated csi", "\x1b[31", "31"},
		{"csi cut by a control", "\x1b[3\x07m", "3m"},
		{"window title", "a\x1b]0;evil\x07b", "ab"},
		{"hyperlink", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"clipboard by DCS", "a\x1bPq..\x1b\\b", "ab"},
		{"string ended by U+009C", "a\x1b]0;x\u009cb", "ab"},
		{"unterminated string hides nothing", "a\x1b]0;the rest", "a0;the rest"},
		{"string may not cross a line", "a\x1b]0;\nline\x07b", "a0;\nlineb"},
		{"charset", "a\x1b(0b", "ab"},
		{"reset", "a\x1bcb", "ab"},
		{"escape at the end", "a\x1b", "a"},
		{"escape before a control", "a\x1b\x01b", "ab"},
		{"nested", "\x1b\x1b[31m[31mx", "[31mx"},
		{"c1 csi", "a\u009b31mb", "ab"},
		{"c1 osc", "a\u009d0;t\x07b", "ab"},
		{"other c1", "a\u0085b\u008dc", "abc"},
		{"carriage return", "real\rfake\r\nx", "realfake\nx"},
		{"backspace, bell, nul, del", "a\bb\ac\x00d\x7fe", "abcde"},
		{"bidi override", "a\u202egnp.exe\u202cb", "agnp.exeb"},
		{"isolates and marks", "\u2066a\u2069\u200e\u200f\u061cb", "ab"},
		{"line separators", "a\u2028b\u2029c", "abc"},
		{"tags", "a\U000e0041b", "ab"},
		{"bom", "\ufeffa", "a"},
		{"not utf-8", "a\xff\xfeb\xc2", "a\ufffdb\ufffd"},
		{"raw c1 bytes are not utf-8", "a\x9b31mb", "a\ufffd31mb"},
		{"a real replacement character", "a\ufffd\ufffdb", "a\ufffd\ufffdb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
	if got := Line("a\nb\tc\x1b[1m"); got != "a b c" {
		t.Errorf("Line: %q", got)
	}
	if got := Clean("\x1b]" + strings.Repeat("x", 2*maxEscape) + "\x07"); len(got) != 2*maxEscape {
		t.Errorf("an over-long string hid %d bytes", 2*maxEscape-len(got))
	}
}

func TestWidthAndCut(t *testing.T) {
	for s, want := range map[string]int{"": 0, "abc": 3, "日本": 4, "e\u0301": 1, "é": 1, "🚀": 2} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
	for _, tt := range []struct {
		in   string
		w    int
		want string
	}{{"abcdef", 6, "abcdef"}, {"abcdef", 4, "abc…"}, {"abc", 1, "…"}, {"abc", 0, ""}, {"日本語", 4, "日…"}, {"日本語", 5, "日本…"}} {
		if got := Cut(tt.in, tt.w); got != tt.want || Width(got) > tt.w {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.w, got, tt.want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a\x1b[31mb", "\x1b]0;t\x07", "\u009b1m", "\xff\x1b", "\u202ex", "\x1b\x1b[", "a\r\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := Clean(s)
		if !utf8.ValidString(c) {
			t.Fatalf("%q: not UTF-8", c)
		}
		for _, r := range c {
			if Unsafe(r) {
				t.Fatalf("%q keeps %U", c, r)
			}
		}
		if again := Clean(c); again != c {
			t.Fatalf("not stable: %q, %q", c, again)
		}
		if strings.ContainsAny(Line(s), "\n\t\r") {
			t.Fatalf("Line(%q) has several lines", s)
		}
		for _, w := range []int{0, 1, 2, 7} {
			if cut := Cut(Line(s), w); Width(cut) > w {
				t.Fatalf("Cut to %d: %q", w, cut)
			}
		}
	})
}

func TestFirstAndStorable(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 2, "ab"}, {"abc", 3, "abc"}, {"äöü", 2, "äö"}, {"", 0, ""}, {"a", 0, ""}} {
		if got := First(c.in, c.n); got != c.want {
			t.Errorf("First(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
	if got := Storable("a\x00b\xffc"); got != "ab\uFFFDc" {
		t.Errorf("Storable gives %q", got)
	}
}

func TestShortAndHead(t *testing.T) {
	for _, tt := range []struct {
		in          string
		n           int
		short, head string
	}{
		{"plain", 5, "plain", "plain"},
		{"plain", 3, "pla…", "pla"},
		{"añb", 2, "añ…", "a"},
		{"añb", 3, "añb", "añ"},
		{"a\x1b[1m\n\x7f\xffb", 20, "a·[1m···b", "a\x1b[1m\n\x7f\xffb"},
		{"日本", 1, "日…", ""},
		{"", 0, "", ""},
		{"a", 0, "…", ""},
	} {
		if got := Short(tt.in, tt.n); got != tt.short {
			t.Errorf("Short(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.short)
		}
		if got := Head(tt.in, tt.n); got != tt.head {
			t.Errorf("Head(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.head)
		}
	}
}
