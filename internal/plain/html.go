package plain

import (
	"html"
	"strings"
	"unicode"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

var (
	dropped = lazyregexp.New(`(?is)<(script|style)\b.*?</(script|style)\s*>`)
	blocks  = lazyregexp.New(`(?i)</?(title|p|div|br|li|h[1-6]|tr|blockquote)\b[^>]*>`)
	tag     = lazyregexp.New(`<[^>]*>`)
	title   = lazyregexp.New(`(?is)<title\b[^>]*>(.*?)</title\s*>`)
)

// HTML takes the markup off a page or a piece of one: text with one space
// between words and one line for each block.
func HTML(s string) string {
	s = dropped().ReplaceAllString(s, " ")
	s = blocks().ReplaceAllString(s, "\n")
	return Squeeze(html.UnescapeString(tag().ReplaceAllString(s, "")))
}

// Title is what a page of HTML calls itself; empty if it does not.
func Title(s string) string {
	if m := title().FindStringSubmatch(s); m != nil {
		return HTML(m[1])
	}
	return ""
}

// Squeeze makes text one space between words, paragraphs kept, without control characters.
func Squeeze(s string) string {
	var b strings.Builder
	space, line := false, false
	for _, r := range strings.ToValidUTF8(s, "") {
		switch {
		case r == '\n':
			line = b.Len() > 0
		case unicode.IsSpace(r):
			space = b.Len() > 0
		case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f:
		default:
			if line {
				b.WriteByte('\n')
			} else if space {
				b.WriteByte(' ')
			}
			space, line = false, false
			b.WriteRune(r)
		}
	}
	return b.String()
}
