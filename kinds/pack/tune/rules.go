package tune

import (
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Block is one rule of a policy: an item of a list, or a paragraph.
type Block struct {
	Before  string // what stands between the block before and this one
	Marker  string // of a list's item, as "1. " or "- ", with its indent
	Body    string // the rest, lines and all
	Heading bool   // a title
}

var (
	itemForm    = lazyregexp.New(`^[ \t]*(?:\d{1,3}[.)]|[-*+])[ \t]+`)
	headingForm = lazyregexp.New(`^#{1,6}[ \t]`)
	sentences   = lazyregexp.New(`[^.!?]+[.!?]+["')]*\s*|[^.!?]+$`)
)

// Split takes a policy apart. Join puts it together again, to the byte.
func Split(text string) []Block {
	var out []Block
	var cur *Block
	before := ""
	flush := func() {
		if cur != nil {
			out = append(out, *cur)
			cur = nil
		}
	}
	for line := range strings.SplitAfterSeq(text, "\n") {
		marker := itemForm().FindString(line)
		heading := headingForm().MatchString(line)
		switch {
		case strings.TrimSpace(line) == "":
			flush()
			before += line
			continue
		case cur == nil || marker != "" || heading || cur.Heading:
			flush()
			cur = &Block{Before: before, Marker: marker, Body: line[len(marker):], Heading: heading}
			before = ""
		default:
			cur.Body += line
		}
	}
	flush()
	if before != "" { // blank lines at the end belong to the last block
		if len(out) == 0 {
			return []Block{{Before: before}}
		}
		out[len(out)-1].Body += before
	}
	return out
}

// Join is the inverse of Split. Numbers of items stay as they are; a block whose
// line lost its end gets one.
func Join(list []Block) string {
	var b strings.Builder
	for _, x := range list {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(x.Before + x.Marker + x.Body)
	}
	return b.String()
}

// merged joins block i to the one before; false where they are not of one kind.
func merged(list []Block, i int) ([]Block, bool) {
	a, b := list[i-1], list[i]
	if a.Heading || b.Heading || (a.Marker == "") != (b.Marker == "") {
		return nil, false
	}
	said := map[string]bool{}
	for _, x := range list[:i] {
		for _, s := range sentences().FindAllString(x.Body, -1) {
			said[plain(s)] = true
		}
	}
	body := strings.TrimRight(a.Body, " \t\n")
	for _, s := range sentences().FindAllString(b.Body, -1) {
		if k := plain(s); k != "" && !said[k] {
			body += " " + strings.TrimSpace(s)
		}
	}
	out := append([]Block{}, list[:i-1]...)
	a.Body = body + "\n"
	return append(append(out, a), list[i+1:]...), true
}

// plain is a sentence as it is compared.
func plain(s string) string {
	return strings.Join(strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(s), ".!?"))), " ")
}
