// Package plain makes hostile text plain: it strips what could steer a terminal
// or mislead a reader, and measures and cuts what is left.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean strips from s what could steer a terminal or mislead a reader: escape
// sequences whole, all other C0 and C1 controls but newline and tab, DEL,
// controls of writing direction, line separators, tags, and bytes that are
// not UTF-8 (each run of them becomes U+FFFD). "\r\n" becomes "\n".
//
// Every string that a contestant, a task, a model or a server wrote goes
// through Clean before a terminal sees it. The result is stable: cleaning it
// again changes nothing.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	bad := false
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			if !bad {
				b.WriteRune(utf8.RuneError)
			}
			bad = true
			i += n
			continue
		}
		bad = false
		switch {
		case r == 0x1b, r == 0x9b, r == 0x9d, r == 0x90, r == 0x98, r == 0x9e, r == 0x9f:
			i += escape(s[i:], r, n)
			continue
		case !Unsafe(r):
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// Line is Clean for one line: newlines and tabs become blanks.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Clean(s))
}

func clean(s string) bool {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if Unsafe(r) || r == utf8.RuneError && n == 1 {
			return false
		}
		i += n
	}
	return true
}

// Unsafe reports whether r may not reach a terminal.
func Unsafe(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f: // C0, DEL, C1
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, // direction marks
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, // embeddings, overrides, isolates
		r == 0x2028, r == 0x2029, // line and paragraph separators
		r >= 0x206a && r <= 0x206f,   // deprecated format characters
		r == 0xfeff,                  // byte order mark
		r >= 0xfff9 && r <= 0xfffb,   // interlinear annotation
		r >= 0xe0000 && r <= 0xe0fff: // tags: invisible text
		return true
	}
	return false
}

// maxEscape bounds an escape sequence. A longer one loses its introducer and
// shows as text, so that an unterminated one cannot swallow what follows.
const maxEscape = 4096

// escape returns the length of the escape sequence at the start of s, whose
// first rune is r of n bytes: the introducer alone where no sequence follows.
func escape(s string, r rune, n int) int {
	if r == 0x1b {
		if len(s) < 2 {
			return 1
		}
		switch c := s[1]; {
		case c == '[':
			return csi(s, 2)
		case c == ']', c == 'P', c == 'X', c == '^', c == '_':
			return text(s, 2)
		case c >= 0x20 && c <= 0x2f: // ESC, intermediates, final
			i := 1
			for i < len(s) && i < 8 && s[i] >= 0x20 && s[i] <= 0x2f {
				i++
			}
			if i < len(s) && s[i] >= 0x30 && s[i] <= 0x7e {
				return i + 1
			}
			return 1
		case c >= 0x30 && c <= 0x7e:
			return 2
		}
		return 1
	}
	if r == 0x9b {
		return csi(s, n)
	}
	return text(s, n)
}

// csi measures a control sequence whose parameters start at i.
func csi(s string, i int) int {
	from := i
	for i < len(s) && i < maxEscape && s[i] >= 0x20 && s[i] <= 0x3f {
		i++
	}
	if i < len(s) && s[i] >= 0x40 && s[i] <= 0x7e {
		return i + 1
	}
	return from
}

// text measures a command string (OSC, DCS, SOS, PM, APC) whose text starts at
// i. It ends with BEL or ST on the same line, or it is none.
func text(s string, i int) int {
	from := i
	for ; i < len(s) && i < maxEscape; i++ {
		switch {
		case s[i] == 0x07:
			return i + 1
		case s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\':
			return i + 2
		case s[i] == 0xc2 && i+1 < len(s) && s[i+1] == 0x9c: // ST as U+009C
			return i + 2
		case s[i] == '\n':
			return from
		}
	}
	return from
}

// Width returns the columns that clean text takes in a terminal.
func Width(s string) int {
	w := 0
	for _, r := range s {
		w += runeWidth(r)
	}
	return w
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r == 0x200b, r == 0x200c, r == 0x200d, unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0xa4cf,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f,
		r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// Cut shortens clean text to at most width columns, with "…" where it was cut.
func Cut(s string, width int) string {
	if Width(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	w := 0
	for i, r := range s {
		if w+runeWidth(r) > width-1 {
			return s[:i] + "…"
		}
		w += runeWidth(r)
	}
	return s
}

// Short shortens foreign text to n characters, with "…" where it was cut, and
// shows each control character and each wrong byte as "·". It is for a value
// inside a message.
func Short(s string, n int) string {
	var b strings.Builder
	for _, r := range s {
		if n--; n < 0 {
			b.WriteRune('…')
			break
		}
		if r == utf8.RuneError || r < 0x20 || r >= 0x7f && r < 0xa0 {
			r = '·'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// First is the beginning of s, at most n characters.
func First(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// Storable is s as the store keeps it: no column holds NUL or half a character. What is
// signed or hashed of a stored text goes through it too.
func Storable(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

// Head is the beginning of s, at most n bytes, without halving a character.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
