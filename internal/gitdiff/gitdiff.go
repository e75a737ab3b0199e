// Package gitdiff reads the two parts of git's patch format that every reader
// of patches needs alike: quoted names and headers of hunks. What a patch may
// do is for its readers to say (kind/coding/patch, kind/research/surface).
package gitdiff

import (
	"errors"
	"strings"
)

// Hunk is what the header of a hunk says: where it begins and how many lines it
// has, before and after. A count that is left out is 1.
type Hunk struct{ OldPos, Old, NewPos, New int }

// ReadHunk reads "@@ -a[,b] +c[,d] @@"; what stands behind it is let be.
// Numbers have at most 9 digits.
func ReadHunk(l string) (h Hunk, ok bool) {
	rest, ok := strings.CutPrefix(l, "@@ -")
	if !ok {
		return Hunk{}, false
	}
	if h.OldPos, h.Old, rest, ok = span(rest); !ok {
		return Hunk{}, false
	}
	if rest, ok = strings.CutPrefix(rest, " +"); !ok {
		return Hunk{}, false
	}
	if h.NewPos, h.New, rest, ok = span(rest); !ok || !strings.HasPrefix(rest, " @@") {
		return Hunk{}, false
	}
	return h, true
}

func span(s string) (pos, n int, rest string, ok bool) {
	if pos, s, ok = Number(s); !ok {
		return 0, 0, "", false
	}
	r, found := strings.CutPrefix(s, ",")
	if !found {
		return pos, 1, s, true
	}
	n, rest, ok = Number(r)
	return pos, n, rest, ok
}

// Number reads up to 9 digits and returns what follows them.
func Number(s string) (n int, rest string, ok bool) {
	i := 0
	for i < len(s) && i < 9 && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		i++
	}
	return n, s[i:], i > 0
}

// Unquote decodes a name as git quotes it, in C's style from the quote that
// begins s, and returns what follows it.
func Unquote(s string) (name, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", errors.New("no quoted name")
	}
	var out []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(out), s[i+1:], nil
		case c != '\\':
			out = append(out, c)
			continue
		}
		i++
		if i == len(s) {
			break
		}
		if k := strings.IndexByte(`abtnvfr"\`, s[i]); k >= 0 {
			out = append(out, "\a\b\t\n\v\f\r\"\\"[k])
			continue
		}
		if i+2 >= len(s) || s[i] > '3' {
			break
		}
		v := 0
		for _, d := range []byte(s[i : i+3]) {
			if d < '0' || d > '7' {
				return "", "", errors.New("bad escape in a quoted name")
			}
			v = v*8 + int(d-'0')
		}
		out = append(out, byte(v))
		i += 2
	}
	return "", "", errors.New("bad quoted name")
}
