package surface

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a list of allowed paths.
const (
	MaxGlobs   = 64
	maxGlobLen = 512
)

// Style says how globs are read.
type Style string

const (
	// StylePath is the default: * and ? stay within a directory, ** crosses.
	StylePath Style = "path"
	// StyleFnmatch is Python's fnmatch, as older tasks mean it: * crosses too.
	StyleFnmatch Style = "fnmatch"
)

// CheckGlobs tells what is wrong with a list of allowed paths, nil for nothing.
func CheckGlobs(globs []string) error {
	if len(globs) == 0 || len(globs) > MaxGlobs {
		return fmt.Errorf("%d globs, from 1 to %d are allowed", len(globs), MaxGlobs)
	}
	for _, g := range globs {
		switch {
		case strings.TrimSpace(g) == "":
			return fmt.Errorf("an empty glob")
		case len(g) > maxGlobLen:
			return fmt.Errorf("a glob of %d bytes, at most %d are allowed", len(g), maxGlobLen)
		case !utf8.ValidString(g) || strings.ContainsRune(g, 0):
			return fmt.Errorf("glob %s is not text", quote(g))
		case strings.HasPrefix(g, "/"):
			return fmt.Errorf("glob %s is absolute", quote(g))
		}
		for seg := range strings.SplitSeq(g, "/") {
			if seg == ".." {
				return fmt.Errorf("glob %s leaves the tree", quote(g))
			}
		}
	}
	return nil
}

// Match reports whether one of the globs matches the path. An unknown style is StylePath.
func Match(style Style, globs []string, name string) bool {
	for _, g := range globs {
		if style == StyleFnmatch {
			if matchText(g, name) {
				return true
			}
			continue
		}
		g = strings.TrimPrefix(g, "./")
		if strings.HasSuffix(g, "/") {
			g += "**"
		}
		if matchSegments(strings.Split(g, "/"), strings.Split(name, "/")) {
			return true
		}
	}
	return false
}

// matchSegments matches directories; ** stands for any number of them, none
// included, but for at least one where it ends the pattern.
func matchSegments(pat, name []string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		switch {
		case p < len(pat) && pat[p] == "**":
			if p == len(pat)-1 {
				return true
			}
			star, mark = p, n
			p++
		case p < len(pat) && matchText(pat[p], name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return p == len(pat)
}

// matchText is Python's fnmatchcase, in time linear in each star.
func matchText(pat, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if p < len(pat) {
			if pat[p] == '*' {
				star, mark = p, i
				p++
				continue
			}
			if ok, next := matchOne(pat[p:], r); ok {
				p += next
				i += size
				continue
			}
		}
		if star < 0 {
			return false
		}
		_, size = utf8.DecodeRuneInString(s[mark:])
		mark += size
		p, i = star+1, mark
	}
	for p < len(pat) && pat[p] == '*' {
		p++
	}
	return p == len(pat)
}

// matchOne matches the first element of a pattern, which is not a star, and
// returns its length.
func matchOne(pat string, r rune) (bool, int) {
	switch pat[0] {
	case '?':
		return true, 1
	case '[':
		if ok, n := matchClass(pat, r); n > 0 {
			return ok, n
		}
	}
	c, n := utf8.DecodeRuneInString(pat)
	return c == r, n
}

// matchClass matches "[a-z]" or "[!a-z]"; its length is 0 if the bracket is never closed.
func matchClass(pat string, r rune) (ok bool, n int) {
	i := 1
	neg := i < len(pat) && pat[i] == '!'
	if neg {
		i++
	}
	end := i
	if end < len(pat) && pat[end] == ']' {
		end++
	}
	k := strings.IndexByte(pat[end:], ']')
	if k < 0 {
		return false, 0
	}
	set := []rune(pat[i : end+k])
	for j := 0; j < len(set); j++ {
		if j+2 < len(set) && set[j+1] == '-' {
			ok = ok || set[j] <= r && r <= set[j+2]
			j += 2
			continue
		}
		ok = ok || set[j] == r
	}
	return ok != neg, end + k + 1
}
