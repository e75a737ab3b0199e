package surface

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// checkPath decides whether a path may be named in a patch at all. kind is ""
// for a good path.
func checkPath(n string) (kind, message string) {
	switch {
	case n == "":
		return KindPath, "empty"
	case len(n) > MaxPath:
		return KindPath, fmt.Sprintf("longer than %d bytes", MaxPath)
	case !utf8.ValidString(n):
		return KindUnicode, "not UTF-8"
	case strings.HasPrefix(n, "/"):
		return KindPath, "absolute"
	case strings.Contains(n, `\`):
		return KindPath, "holds a backslash"
	case !norm.NFC.IsNormalString(n):
		return KindUnicode, "not in Unicode's composed form (NFC)"
	}
	for _, r := range n {
		if invisible(r) {
			return KindUnicode, fmt.Sprintf("holds the invisible or control character U+%04X", r)
		}
	}
	for c := range strings.SplitSeq(n, "/") {
		switch {
		case c == "..":
			return KindPath, "leaves the tree"
		case c == "" || c == ".":
			return KindPath, "has an empty or . component"
		case len(c) > MaxComponent:
			return KindPath, fmt.Sprintf("a component is longer than %d bytes", MaxComponent)
		case gitName(c):
			return KindGit, "names a file that steers git (.git and what begins with it)"
		case strings.HasSuffix(c, ".") || strings.HasSuffix(c, " "):
			return KindPath, "a component ends in a dot or a space"
		case mixedScripts(c):
			return KindUnicode, "a component mixes Latin letters with look-alikes of another script"
		}
	}
	if pythonCache(n) {
		return KindCache, "a generated Python cache file"
	}
	return "", ""
}

// invisible reports runes that cannot be seen in a listing, or that change
// how their neighbours look.
func invisible(r rune) bool {
	switch {
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
		return true
	case r != ' ' && unicode.Is(unicode.Zs, r):
		return true
	}
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0, utf8.RuneError:
		return true
	}
	return false
}

// gitName reports whether some file system would take component c for .git,
// or c is a file that git itself obeys (.gitattributes, .gitmodules, .gitignore …).
func gitName(c string) bool {
	s := Fold(c)
	if strings.HasPrefix(s, ".git") {
		return true
	}
	rest, ok := strings.CutPrefix(s, "git~")
	return ok && rest != "" && strings.Trim(rest, "0123456789") == ""
}

// Fold is the form in which names that some file system cannot tell apart are
// the same: case folded, compatibility forms joined.
func Fold(s string) string {
	if ascii(s) {
		return strings.ToLower(s)
	}
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(s)))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// mixedScripts reports a component in which Latin letters stand beside those
// of scripts that look like them.
func mixedScripts(c string) bool {
	latin, other := false, false
	for _, r := range c {
		if r < utf8.RuneSelf {
			latin = latin || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
			continue
		}
		latin = latin || unicode.Is(unicode.Latin, r)
		other = other || unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Cherokee, unicode.Lisu, unicode.Coptic)
	}
	// An extension is Latin wherever the name comes from.
	if other {
		stem, ext, ok := strings.Cut(c, ".")
		if ok && len(ext) <= 8 {
			return mixedScripts(stem)
		}
	}
	return latin && other
}

func pythonCache(n string) bool {
	s := Fold(n)
	return strings.HasSuffix(s, ".pyc") || strings.HasSuffix(s, ".pyo") || strings.Contains("/"+s, "/__pycache__/")
}
