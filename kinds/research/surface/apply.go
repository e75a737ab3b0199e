package surface

import (
	"bytes"
	"fmt"
	"slices"
)

// applier bounds the work of one patch.
type applier struct {
	compares int
}

// hunks applies the hunks of a section as git does: context must match to the
// byte, at the named line or the nearest one where it does; a hunk without
// context at its end must reach the end of the file. Hunks stand in order.
func (a *applier) hunks(old []byte, s *section) ([]byte, error) {
	image := splitLines(old)
	out := make([][]byte, 0, len(image)+8)
	at := 0 // first line of image that is not in out yet
	for i := range s.hunks {
		h := &s.hunks[i]
		var pre, post [][]byte
		for _, l := range h.lines {
			if l.op != '+' {
				pre = append(pre, l.text)
			}
			if l.op != '-' {
				post = append(post, l.text)
			}
		}
		if s.create && len(pre) > 0 {
			return nil, &parseError{line: h.line, msg: "a new file has old lines"}
		}
		// The header counts in the file as the hunks before left it.
		want := max(h.newPos-1, 0) - (len(out) - at)
		pos, err := a.find(image, pre, at, want, h)
		if err != nil {
			return nil, err
		}
		out = append(out, image[at:pos]...)
		out = append(out, post...)
		at = pos + len(pre)
	}
	out = append(out, image[at:]...)
	return append([]byte{}, slices.Concat(out...)...), nil // never nil: an emptied file is still there
}

// find returns where pre stands in image, not before line from.
func (a *applier) find(image, pre [][]byte, from, want int, h *hunk) (int, error) {
	fail := func() (int, error) {
		return 0, &parseError{line: h.line, msg: "this hunk does not apply to the base"}
	}
	begin := h.oldPos == 0 || h.oldPos == 1
	end := h.trailed == 0
	last := len(image) - len(pre)
	match := func(pos int) bool {
		if pos < from || pos > last || begin && pos != 0 || end && pos != last {
			return false
		}
		for i, l := range pre {
			a.compares++
			if !bytes.Equal(l, image[pos+i]) {
				return false
			}
		}
		return true
	}
	switch {
	case begin:
		want = 0
	case end:
		want = last
	}
	want = min(want, len(image))
	if match(want) {
		return want, nil
	}
	if begin || end {
		return fail()
	}
	for step := 1; want+step <= last || want-step >= from; step++ {
		for _, pos := range []int{want + step, want - step} {
			if a.compares++; a.compares > maxCompares {
				return 0, &parseError{line: h.line, msg: "the place of this hunk is too far from where it says"}
			}
			if match(pos) {
				return pos, nil
			}
		}
	}
	return fail()
}

// splitLines keeps the ends of lines.
func splitLines(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	l := bytes.SplitAfter(b, []byte("\n"))
	if len(l[len(l)-1]) == 0 {
		l = l[:len(l)-1]
	}
	return l
}

// content makes what a section leaves of its file.
func (a *applier) content(s *section, old []byte) ([]byte, error) {
	switch {
	case s.binary:
		// Without whole ids nobody could tell whether the base is the right one.
		if len(s.oldID) != 40 || len(s.newID) != 40 {
			return nil, &parseError{line: s.line, msg: "a binary change without a full index line: make the patch with git diff --binary"}
		}
		if want := BlobID(old); s.oldID != want && !(s.create && s.oldID == zeroID) {
			return nil, &parseError{line: s.line, msg: "the binary change is of another version of the file"}
		}
		out, err := applyBinary(&s.forward, old)
		if err != nil {
			return nil, &parseError{line: s.line, msg: err.Error()}
		}
		if want := BlobID(out); s.newID != want && !(s.del && s.newID == zeroID) {
			return nil, &parseError{line: s.line, msg: "the binary change does not make what its index line says"}
		}
		return out, nil
	case len(s.hunks) > 0:
		return a.hunks(old, s)
	case s.create:
		return []byte{}, nil
	}
	return old, nil
}

const zeroID = "0000000000000000000000000000000000000000"

// errGone reports a section whose file is not there, or is when it must not be.
func errGone(s *section, format string, args ...any) error {
	return &parseError{line: s.line, msg: fmt.Sprintf(format, args...)}
}
