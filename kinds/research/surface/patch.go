// Package surface decides what a patch written by a stranger changes in a tree,
// and whether that is allowed. It reads git's patch form (text, binary, quoted
// names, CRLF, files without a last newline), applies it in memory byte by byte
// and judges the tree that comes out. What the patch says of itself is never
// the answer: only what the applied tree holds is. The server, the validator
// and the miner's own check call the same function.
package surface

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/gitdiff"
)

// Limits on a patch. They hold before anything is interpreted or allocated.
const (
	DefaultMaxBytes = 256 << 10 // of the patch where a task names no limit
	MaxBytes        = 4 << 20   // of the patch, whatever a task says
	MaxFiles        = 1000      // sections
	MaxHunks        = 20_000    // of all sections
	MaxPath         = 1024      // bytes of one path
	MaxComponent    = 255       // bytes of one path component
	MaxFile         = 32 << 20  // bytes of one file before or after
	MaxTotal        = 64 << 20  // bytes of all files after
	maxCompares     = 20_000_000
)

// Modes of files as git writes them.
const (
	ModeFile      = 0o100644
	ModeExec      = 0o100755
	ModeLink      = 0o120000
	ModeSubmodule = 0o160000
)

// section is what a patch says of one file.
type section struct {
	line    int // of its first line, from 1
	name    string
	create  bool
	del     bool
	oldMode uint32 // 0: not named
	newMode uint32
	oldID   string // of the index line; full only for binary
	newID   string
	renames string // the first rename or copy header, "" for none
	hunks   []hunk
	binary  bool
	forward binaryHunk
}

type hunk struct {
	line             int // of the header
	oldPos, newPos   int
	oldN, newN       int
	lines            []hunkLine
	leading, trailed int // lines of context before the first and after the last change
}

// hunkLine is one line with its end; op is ' ', '-' or '+'.
type hunkLine struct {
	op   byte
	text []byte
}

// parseError tells where a patch cannot be read.
type parseError struct {
	line int
	msg  string
}

func (e *parseError) Error() string {
	if e.line == 0 {
		return e.msg
	}
	return fmt.Sprintf("line %d: %s", e.line, e.msg)
}

type parser struct {
	lines [][]byte
	at    int
	out   []section
	hunks int
}

// parse reads a whole patch. Text between the sections is skipped, as git does.
func parse(patch []byte) ([]section, error) {
	p := &parser{lines: bytes.SplitAfter(patch, []byte("\n"))}
	if n := len(p.lines); len(p.lines[n-1]) == 0 {
		p.lines = p.lines[:n-1]
	}
	for p.at < len(p.lines) {
		l := p.text(p.at)
		var err error
		switch {
		case strings.HasPrefix(l, "diff --git "):
			err = p.gitSection(l)
		case strings.HasPrefix(l, "--- ") && strings.HasPrefix(p.text(p.at+1), "+++ ") && strings.HasPrefix(p.text(p.at+2), "@@ -"):
			err = p.plainSection()
		case strings.HasPrefix(l, "@@ -"):
			err = p.fail("a hunk without a file header")
		case strings.HasPrefix(l, "GIT binary patch"):
			err = p.fail("binary data without a file header")
		default:
			p.at++
		}
		if err != nil {
			return nil, err
		}
	}
	return p.out, nil
}

func (p *parser) fail(format string, args ...any) error {
	return &parseError{line: p.at + 1, msg: fmt.Sprintf(format, args...)}
}

// text is line i without its newline, "" past the end. A carriage return is
// part of a line everywhere but in headers, where trimCR drops it.
func (p *parser) text(i int) string {
	if i >= len(p.lines) {
		return ""
	}
	return strings.TrimSuffix(string(p.lines[i]), "\n")
}

func trimCR(s string) string { return strings.TrimSuffix(s, "\r") }

func (p *parser) add(s section) error {
	if len(p.out) == MaxFiles {
		return p.fail("more than %d files", MaxFiles)
	}
	p.out = append(p.out, s)
	return nil
}

// gitSection reads one section that begins with "diff --git".
func (p *parser) gitSection(l string) error {
	s := section{line: p.at + 1}
	name, ok := headerName(trimCR(strings.TrimPrefix(l, "diff --git ")))
	renamed := !ok
	s.name = name
	p.at++
	for ; p.at < len(p.lines); p.at++ {
		l := trimCR(p.text(p.at))
		word, rest := headerWord(l)
		var err error
		switch word {
		case "old mode ":
			s.oldMode, err = p.mode(rest)
		case "new mode ":
			s.newMode, err = p.mode(rest)
		case "deleted file mode ":
			s.del = true
			s.oldMode, err = p.mode(rest)
		case "new file mode ":
			s.create = true
			s.newMode, err = p.mode(rest)
		case "index ":
			err = p.index(&s, rest)
		case "similarity index ", "dissimilarity index ":
		case "rename from ", "rename to ", "rename old ", "rename new ", "copy from ", "copy to ":
			if s.renames == "" {
				s.renames = cut(l)
			}
		default:
			return p.gitBody(s, renamed, l)
		}
		if err != nil {
			return err
		}
	}
	return p.gitBody(s, renamed, "")
}

// gitBody reads what follows the headers; l is the line that p stands on.
func (p *parser) gitBody(s section, renamed bool, l string) error {
	if s.renames != "" {
		// It is refused whatever else it says: only find its end.
		p.skip()
		return p.add(s)
	}
	if s.create && s.del {
		return p.fail("a file that is both new and deleted")
	}
	switch {
	case strings.HasPrefix(l, "--- "):
		before := s.create
		if err := p.names(&s, renamed); err != nil {
			return err
		}
		if s.create && !before && s.newMode == 0 {
			s.newMode = ModeFile
		}
		if err := p.readHunks(&s); err != nil {
			return err
		}
		if len(s.hunks) == 0 {
			return p.fail("--- and +++ without a hunk")
		}
	case renamed:
		return &parseError{line: s.line, msg: "the two names of the file differ, or do not begin with a/ and b/"}
	case l == "GIT binary patch":
		p.at++
		s.binary = true
		if err := p.readBinary(&s); err != nil {
			return err
		}
	case strings.HasPrefix(l, "Binary files ") && strings.HasSuffix(l, " differ"):
		return p.fail("a binary change without its data: make the patch with git diff --binary")
	case s.newMode == 0 && !s.create && !s.del:
		return p.fail("a file section that changes nothing")
	}
	return p.add(s)
}

// skip moves to the next section.
func (p *parser) skip() {
	for p.at < len(p.lines) && !strings.HasPrefix(p.text(p.at), "diff --git ") {
		p.at++
	}
}

// plainSection reads a traditional diff with the prefixes a/ and b/.
func (p *parser) plainSection() error {
	s := section{line: p.at + 1}
	if err := p.names(&s, true); err != nil {
		return err
	}
	if s.create {
		s.newMode = ModeFile
	}
	if err := p.readHunks(&s); err != nil {
		return err
	}
	return p.add(s)
}

var headerWords = []string{
	"old mode ", "new mode ", "deleted file mode ", "new file mode ", "index ", "similarity index ", "dissimilarity index ",
	"rename from ", "rename to ", "rename old ", "rename new ", "copy from ", "copy to ",
}

func headerWord(l string) (word, rest string) {
	for _, w := range headerWords {
		if r, ok := strings.CutPrefix(l, w); ok {
			return w, r
		}
	}
	return "", ""
}

// mode reads six octal digits.
func (p *parser) mode(s string) (uint32, error) {
	if len(s) != 6 {
		return 0, p.fail("bad mode %s", quote(s))
	}
	var m uint32
	for _, c := range []byte(s) {
		if c < '0' || c > '7' {
			return 0, p.fail("bad mode %s", quote(s))
		}
		m = m<<3 | uint32(c-'0')
	}
	return m, nil
}

// index reads "old..new[ mode]".
func (p *parser) index(s *section, rest string) error {
	ids, mode, has := strings.Cut(rest, " ")
	var ok bool
	if s.oldID, s.newID, ok = strings.Cut(ids, ".."); !ok {
		return p.fail("bad index line")
	}
	if !has {
		return nil
	}
	m, err := p.mode(mode)
	if err != nil {
		return err
	}
	if s.oldMode == 0 {
		s.oldMode = m
	}
	return nil
}

// names reads "--- old" and "+++ new". open says that the section has no name yet.
func (p *parser) names(s *section, open bool) error {
	for i, prefix := range []string{"a/", "b/"} {
		l := p.text(p.at)
		if !strings.HasPrefix(l, "---+++"[3*i:3*i+3]+" ") {
			return p.fail("--- without +++")
		}
		n, err := readName(l[4:])
		if err != nil {
			return p.fail("%v", err)
		}
		p.at++
		if n == "/dev/null" {
			if i == 0 {
				s.create = true
			} else {
				s.del = true
			}
			continue
		}
		if i == 0 && s.create || i == 1 && s.del {
			p.at--
			return p.fail("a new or deleted file has /dev/null on its other side")
		}
		n, ok := strings.CutPrefix(n, prefix)
		if !ok || n == "" {
			p.at--
			return p.fail("a name does not begin with %s: make the patch with git's own prefixes", prefix)
		}
		if open {
			s.name, open = n, false
		} else if s.name != n {
			p.at--
			return p.fail("names of one section differ: %s and %s", quote(s.name), quote(n))
		}
	}
	if open || s.create && s.del {
		p.at--
		return p.fail("a section that names no file")
	}
	return nil
}

// readHunks reads the hunks that p stands on.
func (p *parser) readHunks(s *section) error {
	for strings.HasPrefix(p.text(p.at), "@@ -") {
		if p.hunks++; p.hunks > MaxHunks {
			return p.fail("more than %d hunks", MaxHunks)
		}
		h := hunk{line: p.at + 1}
		if !h.header(p.text(p.at)) {
			return p.fail("bad hunk header")
		}
		p.at++
		oldN, newN := h.oldN, h.newN
		changed := false
		for oldN > 0 || newN > 0 {
			if p.at >= len(p.lines) {
				return p.fail("the last hunk is cut short")
			}
			raw := p.lines[p.at]
			op, text := raw[0], raw[1:]
			switch op {
			case '\n':
				op, text = ' ', raw // an editor took the space of an empty line
			case ' ', '-', '+':
			default:
				return p.fail("a line of a hunk begins with neither space, + nor -")
			}
			if op != '+' {
				oldN--
			}
			if op != '-' {
				newN--
			}
			if oldN < 0 || newN < 0 {
				return p.fail("a hunk is longer than its header says")
			}
			if op == ' ' {
				h.trailed++
				if !changed {
					h.leading++
				}
			} else {
				changed, h.trailed = true, 0
			}
			p.at++
			if p.at < len(p.lines) && p.lines[p.at][0] == '\\' {
				if len(p.lines[p.at]) < 12 {
					return p.fail("bad line after a backslash")
				}
				text = bytes.TrimSuffix(text, []byte("\n"))
				p.at++
			} else if !bytes.HasSuffix(text, []byte("\n")) {
				return p.fail("the last line of the patch has no newline")
			}
			h.lines = append(h.lines, hunkLine{op, text})
		}
		if !changed {
			return p.fail("a hunk without a change")
		}
		s.hunks = append(s.hunks, h)
	}
	return nil
}

// header reads "@@ -a[,b] +c[,d] @@"; counts default to 1.
func (h *hunk) header(l string) bool {
	x, ok := gitdiff.ReadHunk(l)
	h.oldPos, h.oldN, h.newPos, h.newN = x.OldPos, x.Old, x.NewPos, x.New
	return ok && h.oldN+h.newN > 0
}

// headerName returns the name of a "diff --git" line whose two sides agree. A
// name may hold spaces, so that its length alone tells where it ends.
func headerName(s string) (string, bool) {
	if strings.HasPrefix(s, `"`) {
		o, rest, err := gitdiff.Unquote(s)
		if err != nil || !strings.HasPrefix(rest, ` "`) {
			return "", false
		}
		n, rest, err := gitdiff.Unquote(rest[1:])
		if err != nil || rest != "" {
			return "", false
		}
		return sameName(o, n)
	}
	if len(s)%2 == 0 || len(s) < 7 || s[len(s)/2] != ' ' {
		return "", false
	}
	return sameName(s[:len(s)/2], s[len(s)/2+1:])
}

func sameName(o, n string) (string, bool) {
	o, ok1 := strings.CutPrefix(o, "a/")
	n, ok2 := strings.CutPrefix(n, "b/")
	return o, ok1 && ok2 && o == n && o != ""
}

// readName reads a name up to a tab, after which a time may stand, or a quoted one.
func readName(s string) (string, error) {
	if strings.HasPrefix(s, `"`) {
		n, _, err := gitdiff.Unquote(s)
		return n, err
	}
	n, _, _ := strings.Cut(s, "\t")
	if n = trimCR(n); n == "" {
		return "", fmt.Errorf("empty file name")
	}
	return n, nil
}

const maxQuoted = 120

// quote makes foreign text safe to show.
func quote(s string) string {
	if len(s) > maxQuoted {
		return fmt.Sprintf("%q…", s[:maxQuoted])
	}
	return fmt.Sprintf("%q", s)
}

func cut(s string) string {
	if len(s) > maxQuoted {
		s = s[:maxQuoted]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return s
}
