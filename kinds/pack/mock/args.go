package mock

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// errArgument stops a call whose argument has a type that ClawBench's server
// cannot work with. That server answers status 500 then, and so does this one:
// a pack that sends such arguments meets the same wall in both.
var errArgument = errors.New("an argument has the wrong type")

// refuse ends the call with errArgument. Do recovers it.
func refuse() { panic(errArgument) }

// text reads an argument that must be a text; absent it is empty.
func (c *call) text(args packfile.Value, name string) string {
	switch v := args.Get(name); v.Kind {
	case packfile.Absent:
	case packfile.String:
		return v.Str
	default:
		refuse()
	}
	return ""
}

// either is a field, or what stands for it where it is absent.
func either(v packfile.Value, name string, otherwise packfile.Value) packfile.Value {
	if e := v.Get(name); e.Kind != packfile.Absent {
		return e
	}
	return otherwise
}

func orNull(v packfile.Value) packfile.Value {
	if v.Kind == packfile.Absent {
		return packfile.Of(nil)
	}
	return v
}

// same compares two values; an absent one is null.
func same(a, b packfile.Value) bool {
	return bytes.Equal(orNull(a).Canonical(), orNull(b).Canonical())
}

// far bounds numbers of lines and results, so that sums of two cannot overflow.
const far = 1 << 30

// whole reads a whole number as Python's slices do: true is 1, false 0.
func whole(v packfile.Value) (int, bool) {
	switch v.Kind {
	case packfile.Int:
		n, err := strconv.Atoi(v.Int)
		switch {
		case err != nil && strings.HasPrefix(v.Int, "-"):
			n = -far
		case err != nil:
			n = far
		}
		return max(-far, min(far, n)), true
	case packfile.Bool:
		if v.Bool {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// first returns the first n of a list, n as a Python slice takes it: negative
// counts from the end, null is all.
func (c *call) first(list []packfile.Value, args packfile.Value, name string, otherwise int) []packfile.Value {
	v := either(args, name, packfile.Of(otherwise))
	if v.Kind == packfile.Null {
		return list
	}
	n, ok := whole(v)
	if !ok {
		refuse()
	}
	return slice(list, 0, n)
}

// slice is Python's list[from:to].
func slice[T any](list []T, from, to int) []T {
	at := func(i int) int {
		if i < 0 {
			i += len(list)
		}
		return max(0, min(i, len(list)))
	}
	a, b := at(from), at(to)
	if a >= b {
		return nil
	}
	return list[a:b]
}

// page returns the lines that the arguments from and lines ask for, and the
// number of the first of them. ok is false where one of the two is not a whole number.
func page(text string, args packfile.Value, most int) (lines []string, at int, ok bool) {
	from, ok := whole(either(args, "from", packfile.Of(1)))
	n, isCount := whole(either(args, "lines", packfile.Of(most)))
	if !ok || !isCount {
		return nil, 0, false
	}
	at = max(0, from-1)
	return slice(strings.Split(text, "\n"), at, at+n), at + 1, true
}

// readable is a file's text as Python reads it: every line ends in \n.
func readable(raw string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\r", "\n"), "\ufffd")
}

// pySpace is what Python's str.strip and str.split take for a blank.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
