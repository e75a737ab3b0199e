package surface

import (
	"bytes"
	"crypto/sha1" // git's names of blobs, not a matter of trust
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
)

// Codes of reasons. The first ones are those of the coordinator's error table.
const (
	CodeEmpty       = "empty_submission"
	CodeTooLarge    = "patch_too_large"
	CodeUnparseable = "unparseable_patch_surface"
	CodeDisallowed  = "disallowed_patch_paths"
	CodeForbidden   = "forbidden_patch_entry"
	CodeCache       = "generated_python_cache_paths"
	CodeNotApply    = "patch_does_not_apply"
)

// Kinds of forbidden entries: Reason.Kind.
const (
	KindRename    = "rename_or_copy"
	KindLink      = "symlink"
	KindSubmodule = "submodule"
	KindMode      = "mode"
	KindGit       = "git_file"
	KindPath      = "path"
	KindUnicode   = "unicode"
	KindClash     = "name_clash"
	KindCache     = "python_cache"
	KindTwice     = "twice"
)

// Reason is one ground on which a patch is refused.
type Reason struct {
	Code    string `json:"code"`
	Kind    string `json:"kind,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"` // safe to show
}

func (r Reason) String() string {
	s := r.Code
	if r.Kind != "" {
		s += " (" + r.Kind + ")"
	}
	if r.Path != "" {
		s += " " + quote(r.Path)
	}
	return s + ": " + r.Message
}

// Rule is what a task allows.
type Rule struct {
	Allowed  []string
	Style    Style
	MaxBytes int // of the patch; 0 means DefaultMaxBytes
}

// Change is one file that differs between the base and the applied tree.
type Change struct {
	Path             string
	OldMode, NewMode uint32 // 0: not there
	Data             []byte // after; nil if deleted
}

// Result is what came of a patch.
type Result struct {
	OK      bool
	Reasons []Reason // none if OK
	Changes []Change // sorted by path; what the patch does, if OK
	// Digest names the changes: two patches of one base that make the same
	// tree have the same digest, however they are written.
	Digest agon.Digest
}

// Paths lists what changes.
func (r *Result) Paths() []string {
	out := make([]string, len(r.Changes))
	for i, c := range r.Changes {
		out[i] = c.Path
	}
	return out
}

// Error joins the reasons in one line.
func (r *Result) Error() string {
	var b strings.Builder
	for i, x := range r.Reasons {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == 8 {
			fmt.Fprintf(&b, "and %d more", len(r.Reasons)-i)
			break
		}
		b.WriteString(x.String())
	}
	return b.String()
}

// File is one entry of a base tree.
type File struct {
	Mode uint32 // ModeFile, ModeExec, ModeLink or ModeSubmodule
	Size int64
	// Read returns the content. It is asked only for files that a patch names.
	Read func() ([]byte, error)
}

// Bytes makes a file of bytes that are at hand.
func Bytes(mode uint32, data []byte) File {
	return File{Mode: mode, Size: int64(len(data)), Read: func() ([]byte, error) { return data, nil }}
}

// Tree is the base that patches are applied to. It does not change and may be
// used by many at once: make it once per task.
type Tree struct {
	files map[string]File
	dirs  map[string]bool
	// names maps folded paths, directories too, to how they are spelt. Names
	// of the base that clash among themselves stand for the first.
	names map[string]string
}

// NewTree takes over files, by slash-separated path.
func NewTree(files map[string]File) *Tree {
	t := &Tree{files: files, dirs: map[string]bool{}, names: make(map[string]string, len(files))}
	for name := range files {
		t.names[Fold(name)] = name
		for d := path.Dir(name); d != "." && !t.dirs[d]; d = path.Dir(d) {
			t.dirs[d] = true
			t.names[Fold(d)] = d
		}
	}
	return t
}

// File returns an entry.
func (t *Tree) File(name string) (File, bool) { f, ok := t.files[name]; return f, ok }

// Names lists the files, sorted.
func (t *Tree) Names() []string {
	out := make([]string, 0, len(t.files))
	for n := range t.files {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// check is one patch under way.
type check struct {
	t    *Tree
	rule Rule
	res  Result
	app  applier
	seen map[string]bool
}

const maxReasons = 100

func (c *check) refuse(code, kind, name, format string, args ...any) {
	if len(c.res.Reasons) < maxReasons {
		c.res.Reasons = append(c.res.Reasons, Reason{Code: code, Kind: kind, Path: cut(name), Message: fmt.Sprintf(format, args...)})
	}
}

// Check applies a patch to the base and judges what comes out. The error is
// that of reading the base; whatever is wrong with the patch is in Reasons.
func Check(t *Tree, patch []byte, rule Rule) (*Result, error) {
	c := &check{t: t, rule: rule, seen: map[string]bool{}}
	if err := c.run(patch); err != nil {
		return nil, err
	}
	c.res.OK = len(c.res.Reasons) == 0
	if !c.res.OK {
		c.res.Changes = nil
		return &c.res, nil
	}
	c.res.Digest = digest(c.res.Changes)
	return &c.res, nil
}

// read parses the patch and judges its sections one by one.
func (c *check) read(patch []byte) []section {
	limit := c.rule.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	limit = min(limit, MaxBytes)
	if len(patch) > limit {
		c.refuse(CodeTooLarge, "", "", "the patch has %d bytes, at most %d are allowed", len(patch), limit)
		return nil
	}
	if len(bytes.TrimSpace(patch)) == 0 {
		c.refuse(CodeEmpty, "", "", "the patch is empty")
		return nil
	}
	sections, err := parse(patch)
	if err != nil {
		c.refuse(CodeUnparseable, "", "", "%v", err)
		return nil
	}
	if len(sections) == 0 {
		c.refuse(CodeUnparseable, "", "", "the patch holds no diff")
		return nil
	}
	var disallowed []string
	for i := range sections {
		c.section(&sections[i])
		if s := &sections[i]; s.name != "" && s.renames == "" && !Match(c.rule.Style, c.rule.Allowed, s.name) {
			disallowed = append(disallowed, s.name)
		}
	}
	slices.Sort(disallowed)
	for _, n := range slices.Compact(disallowed) {
		c.refuse(CodeDisallowed, "", n, "outside the paths that the task allows (%s)", cut(strings.Join(c.rule.Allowed, ", ")))
	}
	return sections
}

func (c *check) run(patch []byte) error {
	sections := c.read(patch)
	if len(c.res.Reasons) > 0 {
		return nil
	}
	var total int64
	for i := range sections {
		s := &sections[i]
		ch, err := c.apply(s)
		var bad *parseError
		if errors.As(err, &bad) {
			c.refuse(CodeNotApply, "", s.name, "%v", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("read base: %w", err)
		}
		if total += int64(len(ch.Data)); total > MaxTotal {
			c.refuse(CodeTooLarge, "", s.name, "the files it leaves hold more than %d bytes", MaxTotal)
			return nil
		}
		if ch.OldMode != ch.NewMode || ch.Data != nil {
			c.res.Changes = append(c.res.Changes, ch)
		}
	}
	if len(c.res.Reasons) > 0 {
		return nil
	}
	slices.SortFunc(c.res.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	if len(c.res.Changes) == 0 {
		c.refuse(CodeEmpty, "", "", "the patch changes nothing")
		return nil
	}
	c.judge()
	return nil
}

// section judges what can be judged before anything is applied.
func (c *check) section(s *section) {
	if s.renames != "" {
		c.refuse(CodeForbidden, KindRename, s.name, "renames and copies are not accepted (line %d: %s): make the patch with git diff --no-renames", s.line, quote(s.renames))
		return
	}
	if kind, msg := checkPath(s.name); kind != "" {
		code := CodeForbidden
		if kind == KindCache {
			code = CodeCache
		}
		c.refuse(code, kind, s.name, "%s", msg)
		return
	}
	if c.seen[s.name] {
		c.refuse(CodeForbidden, KindTwice, s.name, "has two sections in the patch")
	}
	c.seen[s.name] = true
	for _, m := range []uint32{s.oldMode, s.newMode} {
		switch m {
		case ModeLink:
			c.refuse(CodeForbidden, KindLink, s.name, "symbolic links are not accepted")
			return
		case ModeSubmodule:
			c.refuse(CodeForbidden, KindSubmodule, s.name, "submodules are not accepted")
			return
		}
	}
	switch {
	case s.newMode != 0 && !s.create:
		c.refuse(CodeForbidden, KindMode, s.name, "modes of files may not change")
	case s.newMode != 0 && s.newMode != ModeFile:
		c.refuse(CodeForbidden, KindMode, s.name, "a new file has mode 100644, not %06o", s.newMode)
	}
}

// apply makes the new content of a section's file.
func (c *check) apply(s *section) (Change, error) {
	ch := Change{Path: s.name}
	f, had := c.t.files[s.name]
	switch {
	case s.create && had:
		return ch, errGone(s, "it makes a file that the base has")
	case !s.create && !had:
		return ch, errGone(s, "the base has no such file")
	}
	var old []byte
	if had {
		if f.Mode == ModeLink || f.Mode == ModeSubmodule {
			return ch, errGone(s, "the base has a link or a submodule there")
		}
		if f.Size > MaxFile {
			return ch, errGone(s, "the file has %d bytes, at most %d can be patched", f.Size, MaxFile)
		}
		var err error
		if old, err = f.Read(); err != nil {
			return ch, err
		}
		ch.OldMode = f.Mode
	}
	out, err := c.app.content(s, old)
	if err != nil {
		return ch, err
	}
	if len(out) > MaxFile {
		return ch, errGone(s, "the file would have %d bytes, at most %d are allowed", len(out), MaxFile)
	}
	switch {
	case s.del && len(out) > 0:
		return ch, errGone(s, "it deletes a file but not all of its lines")
	case s.del:
	case s.create:
		ch.NewMode, ch.Data = ModeFile, out
	default:
		ch.NewMode = f.Mode
		if !bytes.Equal(old, out) {
			ch.Data = out
		}
	}
	if ch.NewMode != 0 && ch.Data == nil && ch.NewMode != ch.OldMode {
		ch.Data = []byte{}
	}
	return ch, nil
}

// judge looks at the applied tree itself, whatever the patch said.
func (c *check) judge() {
	gone, made := map[string]bool{}, map[string]string{}
	for _, ch := range c.res.Changes {
		if ch.NewMode == 0 {
			gone[ch.Path] = true
		}
	}
	for _, ch := range c.res.Changes {
		if !Match(c.rule.Style, c.rule.Allowed, ch.Path) {
			c.refuse(CodeDisallowed, "", ch.Path, "outside the paths that the task allows")
		}
		if ch.NewMode != 0 && ch.NewMode != ModeFile && ch.NewMode != ch.OldMode {
			c.refuse(CodeForbidden, KindMode, ch.Path, "mode %06o", ch.NewMode)
		}
		for d := path.Dir(ch.Path); d != "."; d = path.Dir(d) {
			if f, ok := c.t.files[d]; ok && f.Mode == ModeLink {
				c.refuse(CodeForbidden, KindLink, ch.Path, "goes through the symbolic link %s", quote(d))
			}
		}
		if ch.OldMode != 0 {
			continue
		}
		// A new name: nothing may be spelt like it, and no file stand where its directories do.
		if c.t.dirs[ch.Path] {
			c.refuse(CodeNotApply, "", ch.Path, "the base has a directory of that name")
		}
		for n := ch.Path; n != "."; n = path.Dir(n) {
			key := Fold(n)
			if have, ok := c.t.names[key]; ok && have != n {
				c.refuse(CodeForbidden, KindClash, ch.Path, "differs from %s only in case or Unicode form", quote(have))
			} else if have, ok := made[key]; ok && have != n {
				c.refuse(CodeForbidden, KindClash, ch.Path, "differs from %s only in case or Unicode form", quote(have))
			}
			made[key] = n
			if n == ch.Path {
				continue
			}
			if _, ok := c.t.files[n]; ok && !gone[n] {
				c.refuse(CodeNotApply, "", ch.Path, "the base has a file where a directory must be")
			}
		}
	}
	for i, ch := range c.res.Changes {
		if ch.NewMode == 0 || ch.OldMode != 0 {
			continue
		}
		for _, other := range c.res.Changes[i+1:] {
			if !strings.HasPrefix(other.Path, ch.Path) {
				break
			}
			if strings.HasPrefix(other.Path, ch.Path+"/") && other.NewMode != 0 {
				c.refuse(CodeNotApply, "", other.Path, "the patch has a file where a directory must be")
			}
		}
	}
}

func digest(changes []Change) agon.Digest {
	var b bytes.Buffer
	for _, c := range changes {
		fmt.Fprintf(&b, "%06o %x %s\x00", c.NewMode, sha256.Sum256(c.Data), c.Path)
	}
	return agon.Sum(b.Bytes())
}

// BlobID is git's name of a file's content.
func BlobID(data []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// Inspect judges a patch without its base: size, form, names and modes. What
// it refuses Check refuses too.
func Inspect(patch []byte, maxBytes int) []Reason {
	c := &check{t: NewTree(nil), rule: Rule{Allowed: []string{"**"}, MaxBytes: maxBytes}, seen: map[string]bool{}}
	c.read(patch)
	return c.res.Reasons
}
