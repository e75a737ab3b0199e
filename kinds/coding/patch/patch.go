// Package patch reads unified git diffs written by strangers and decides
// whether they may be applied to a tree at all. It applies nothing: that is
// done by git inside a box. Whatever git makes of a patch, only the paths
// that this package has named are ever taken out of that box, so a difference
// between the two readers cannot carry a file across.
package patch

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/gitdiff"
)

// Limits on a patch. They hold before anything is interpreted.
const (
	MaxBytes     = 1 << 20 // whole patch
	MaxFiles     = 1000    // files named in it
	MaxPath      = 1024    // bytes of one path
	MaxComponent = 255     // bytes of one path component
)

// Reasons why a patch is refused, stable for programs.
const (
	ReasonTooLarge  = "too_large"
	ReasonNotText   = "not_text"
	ReasonNoDiff    = "no_diff"
	ReasonCorrupt   = "corrupt"
	ReasonPath      = "bad_path"
	ReasonGitDir    = "git_dir"
	ReasonSymlink   = "symlink"
	ReasonSubmodule = "submodule"
	ReasonMode      = "bad_mode"
	ReasonBinary    = "binary"
)

// Error tells why a patch is refused. Message never holds raw patch text
// beyond a quoted, cut path.
type Error struct {
	Reason  string
	Line    int // from 1; 0 = the whole patch
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "patch: " + e.Message
	}
	return fmt.Sprintf("patch line %d: %s", e.Line, e.Message)
}

// File is one file section of a patch. Names are as written, prefixes
// ("a/", "b/") included; "" stands for /dev/null or not named.
type File struct {
	Old, New string
	Exec     *bool // new mode if the patch names one: 100755 or 100644
	Create   bool
	Delete   bool
	Hunks    int
	names    []string // every name in the section
}

// Patch is a parsed diff that broke no rule.
type Patch struct {
	Files []File
	Bytes int
}

// Paths lists, sorted and without repeats, every path of the tree that
// applying the patch could touch: each name with none and with one leading
// component removed, because git guesses which of the two is meant.
func (p *Patch) Paths() []string {
	set := map[string]bool{}
	for i := range p.Files {
		for _, n := range p.Files[i].names {
			set[n] = true
			if _, rest, ok := strings.Cut(n, "/"); ok && rest != "" {
				set[rest] = true
			}
		}
	}
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// ExecOf tells which execute bit the patch sets on tree path name, if any.
func (p *Patch) ExecOf(name string) (exec, set bool) {
	for _, f := range p.Files {
		if f.Exec == nil {
			continue
		}
		for _, n := range f.names {
			if _, rest, ok := strings.Cut(n, "/"); n == name || ok && rest == name {
				exec, set = *f.Exec, true
			}
		}
	}
	return exec, set
}

// Parse reads a unified diff: git's own form or a traditional one. Text
// between the file sections is ignored, as git does.
func Parse(b []byte) (*Patch, error) {
	if len(b) > MaxBytes {
		return nil, &Error{Reason: ReasonTooLarge, Message: fmt.Sprintf("%d bytes, at most %d are allowed", len(b), MaxBytes)}
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, &Error{Reason: ReasonNotText, Message: "holds a NUL byte"}
	}
	p := &parser{lines: bytes.SplitAfter(b, []byte("\n"))}
	if n := len(p.lines); n > 0 && len(p.lines[n-1]) == 0 {
		p.lines = p.lines[:n-1]
	}
	if err := p.run(); err != nil {
		return nil, err
	}
	if len(p.files) == 0 {
		return nil, &Error{Reason: ReasonNoDiff, Message: "holds no diff"}
	}
	return &Patch{Files: p.files, Bytes: len(b)}, nil
}

type parser struct {
	lines [][]byte
	at    int // index of the line to read next
	files []File
}

// fail makes an error about the line last read.
func (p *parser) fail(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Line: min(p.at+1, len(p.lines)), Message: fmt.Sprintf(format, args...)}
}

// line returns the line i without its end of line.
func (p *parser) line(i int) string {
	if i >= len(p.lines) {
		return ""
	}
	return strings.TrimRight(string(p.lines[i]), "\r\n")
}

func (p *parser) run() error {
	for p.at < len(p.lines) {
		l := p.line(p.at)
		var err error
		switch {
		case strings.HasPrefix(l, "diff --git "):
			err = p.gitFile(l)
		case strings.HasPrefix(l, "--- ") && strings.HasPrefix(p.line(p.at+1), "+++ ") && strings.HasPrefix(p.line(p.at+2), "@@ -"):
			f := File{}
			if err = p.names(&f); err == nil {
				err = p.hunks(&f)
			}
			if err == nil {
				err = p.add(f)
			}
		case strings.HasPrefix(l, "@@ -"):
			return p.fail(ReasonCorrupt, "a hunk without a file header")
		case strings.HasPrefix(l, "GIT binary patch"), isBinaryNote(l):
			return p.fail(ReasonBinary, "binary changes are not accepted")
		default:
			p.at++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isBinaryNote(l string) bool {
	return (strings.HasPrefix(l, "Binary files ") || strings.HasPrefix(l, "Files ")) && strings.HasSuffix(l, " differ")
}

func (p *parser) add(f File) error {
	if len(f.names) == 0 {
		return p.fail(ReasonCorrupt, "a file section that names no file")
	}
	if len(p.files) == MaxFiles {
		return p.fail(ReasonTooLarge, "more than %d files", MaxFiles)
	}
	p.files = append(p.files, f)
	return nil
}

// gitFile reads one section that begins with "diff --git".
func (p *parser) gitFile(l string) error {
	f := File{}
	// Names of the header line count only where the section has no other
	// (mode changes, empty files); they are checked in any case.
	headOld, headNew := headerNames(strings.TrimPrefix(l, "diff --git "))
	for _, n := range []string{headOld, headNew} {
		if n == "" {
			continue
		}
		if err := p.name(&f, n); err != nil {
			return err
		}
	}
	f.Old, f.New = headOld, headNew
	p.at++
	for ; p.at < len(p.lines); p.at++ {
		l := p.line(p.at)
		word, rest := headerWord(l)
		var err error
		switch word {
		case "old mode", "deleted file mode":
			_, err = p.mode(rest)
			f.Delete = f.Delete || word == "deleted file mode"
		case "new mode", "new file mode":
			var exec bool
			exec, err = p.mode(rest)
			f.Exec = &exec
			f.Create = f.Create || word == "new file mode"
		case "index ":
			// "index 0a1b..2c3d 100644": the mode is optional.
			if _, m, ok := strings.Cut(rest, " "); ok {
				_, err = p.mode(m)
			}
		case "similarity index", "dissimilarity index":
		case "rename from ", "rename old ", "copy from ":
			err = p.quotedName(&f, rest)
		case "rename to ", "rename new ", "copy to ":
			err = p.quotedName(&f, rest)
		case "GIT binary patch", "Binary files ":
			return p.fail(ReasonBinary, "binary changes are not accepted")
		case "--- ":
			if !strings.HasPrefix(p.line(p.at+1), "+++ ") {
				return p.fail(ReasonCorrupt, "--- without +++")
			}
			if err := p.names(&f); err != nil {
				return err
			}
			if err := p.hunks(&f); err != nil {
				return err
			}
			return p.add(f)
		default:
			// End of the header: an empty file, a mode change or a rename.
			return p.add(f)
		}
		if err != nil {
			return err
		}
	}
	return p.add(f)
}

var headerWords = []string{
	"old mode", "new mode", "deleted file mode", "new file mode", "index ", "similarity index", "dissimilarity index",
	"rename from ", "rename old ", "copy from ", "rename to ", "rename new ", "copy to ", "GIT binary patch", "Binary files ", "--- ",
}

func headerWord(l string) (word, rest string) {
	for _, w := range headerWords {
		if r, ok := strings.CutPrefix(l, w); ok {
			return w, r
		}
	}
	return "", ""
}

// mode accepts the two modes of regular files.
func (p *parser) mode(s string) (exec bool, err error) {
	switch strings.TrimSpace(s) {
	case "100644":
		return false, nil
	case "100755":
		return true, nil
	case "120000":
		return false, p.fail(ReasonSymlink, "symbolic links are not accepted")
	case "160000":
		return false, p.fail(ReasonSubmodule, "submodules are not accepted")
	}
	return false, p.fail(ReasonMode, "mode %.12q, only 100644 and 100755 are accepted", s)
}

// names reads the lines "--- old" and "+++ new".
func (p *parser) names(f *File) error {
	for i, dst := range []*string{&f.Old, &f.New} {
		l := p.line(p.at)[len("--- "):]
		n, _, err := readName(l)
		if err != nil {
			return p.fail(ReasonCorrupt, "%v", err)
		}
		*dst = n
		if n == "/dev/null" {
			*dst = ""
			f.Create = f.Create || i == 0
			f.Delete = f.Delete || i == 1
		} else if err := p.name(f, n); err != nil {
			return err
		}
		p.at++
	}
	return nil
}

func (p *parser) quotedName(f *File, s string) error {
	n, _, err := readName(s)
	if err != nil {
		return p.fail(ReasonCorrupt, "%v", err)
	}
	return p.name(f, n)
}

// name checks one path and notes it.
func (p *parser) name(f *File, n string) error {
	if reason, msg := CheckPath(n); reason != "" {
		return p.fail(reason, "path %s: %s", quoteCut(n), msg)
	}
	if !slices.Contains(f.names, n) {
		f.names = append(f.names, n)
	}
	return nil
}

// hunks reads the hunks of a section; p.at stands on the first "@@".
func (p *parser) hunks(f *File) error {
	for strings.HasPrefix(p.line(p.at), "@@ -") {
		h, ok := gitdiff.ReadHunk(p.line(p.at))
		oldN, newN := h.Old, h.New
		if !ok {
			return p.fail(ReasonCorrupt, "bad hunk header")
		}
		p.at++
		for oldN > 0 || newN > 0 {
			if p.at >= len(p.lines) {
				return p.fail(ReasonCorrupt, "the last hunk is cut short")
			}
			switch p.lines[p.at][0] {
			case ' ', '\n':
				oldN, newN = oldN-1, newN-1
			case '-':
				oldN--
			case '+':
				newN--
			case '\\':
			default:
				return p.fail(ReasonCorrupt, "a line in a hunk must begin with space, + or -")
			}
			if oldN < 0 || newN < 0 {
				return p.fail(ReasonCorrupt, "a hunk is longer than its header says")
			}
			p.at++
		}
		for p.at < len(p.lines) && p.lines[p.at][0] == '\\' {
			p.at++
		}
		f.Hunks++
	}
	return nil
}

// headerNames splits the two names of a "diff --git" line. Unquoted names may
// hold spaces; git then demands that both are the same, and so do we. Names
// that cannot be told apart are returned empty.
func headerNames(s string) (oldName, newName string) {
	if strings.HasPrefix(s, `"`) || strings.HasSuffix(s, `"`) {
		o, rest, err := readHeaderName(s)
		if err != nil {
			return "", ""
		}
		n, _, err := readHeaderName(strings.TrimPrefix(rest, " "))
		if err != nil {
			return "", ""
		}
		return o, n
	}
	for i := 0; i < len(s); i++ {
		if s[i] != ' ' {
			continue
		}
		o, n := s[:i], s[i+1:]
		_, or, ok1 := strings.Cut(o, "/")
		_, nr, ok2 := strings.Cut(n, "/")
		if ok1 && ok2 && or == nr {
			return o, n
		}
	}
	// A rename: the extended header names both, so a rough cut is enough here.
	o, n, ok := strings.Cut(s, " ")
	if !ok || strings.Contains(n, " ") {
		return "", ""
	}
	return o, n
}

func readHeaderName(s string) (name, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		return gitdiff.Unquote(s)
	}
	name, rest, _ = strings.Cut(s, " ")
	return name, rest, nil
}

// readName reads a name up to a tab (after which a time stamp may stand) or a quoted one.
func readName(s string) (name, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		return gitdiff.Unquote(s)
	}
	name, rest, _ = strings.Cut(s, "\t")
	name = strings.TrimRight(name, "\r")
	if name == "" {
		return "", "", fmt.Errorf("empty file name")
	}
	return name, rest, nil
}

// CheckPath decides whether a path may be named in a patch. reason is "" for
// a good path.
func CheckPath(n string) (reason, message string) {
	switch {
	case n == "":
		return ReasonPath, "empty"
	case len(n) > MaxPath:
		return ReasonPath, fmt.Sprintf("longer than %d bytes", MaxPath)
	case !utf8.ValidString(n):
		return ReasonPath, "not UTF-8"
	case strings.HasPrefix(n, "/"):
		return ReasonPath, "absolute"
	case strings.Contains(n, `\`):
		return ReasonPath, "holds a backslash"
	case strings.ContainsFunc(n, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return ReasonPath, "holds a control character"
	}
	for c := range strings.SplitSeq(n, "/") {
		switch {
		case c == "..":
			return ReasonPath, "leaves the tree"
		case c == "" || c == ".":
			return ReasonPath, "has an empty or . component"
		case len(c) > MaxComponent:
			return ReasonPath, fmt.Sprintf("a component is longer than %d bytes", MaxComponent)
		case isGitDir(c):
			return ReasonGitDir, "names git's own directory"
		case c == ".gitmodules":
			return ReasonSubmodule, "submodules are not accepted"
		}
	}
	if path.Clean(n) != n {
		return ReasonPath, "not in its shortest form"
	}
	return "", ""
}

// isGitDir reports whether some file system would take component c for
// ".git": case folding, code points that HFS+ ignores, full-width letters,
// NTFS short names, trailing dots and spaces, and alternate streams.
func isGitDir(c string) bool {
	var b strings.Builder
	for _, r := range c {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff, r == 0x200b, r == 0x2060, r == 0x00ad:
			continue
		case r >= 0xff01 && r <= 0xff5e:
			r -= 0xff01 - '!'
		case r == 0x0130 || r == 0x0131:
			r = 'i'
		case r == 0x2024 || r == 0xfe52:
			r = '.'
		}
		b.WriteRune(r)
	}
	s := strings.ToLower(b.String())
	s, _, _ = strings.Cut(s, ":")
	s = strings.TrimRight(s, ". ")
	return s == ".git" || s == "git~1"
}

// quoteCut quotes a path for a message and cuts it.
func quoteCut(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
