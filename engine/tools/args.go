package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// errInvalid marks bad arguments: the script hears TextInvalid and nothing more.
var errInvalid = errors.New("invalid arguments")

// Limits of arguments.
const (
	maxQuery   = 4000    // code points of a query, prompt or path
	maxText    = 1 << 20 // bytes of any other string
	maxArgs    = 64      // keyword arguments of one call
	maxQueries = 32
)

// args reads keyword arguments by name. The first error stays; done reports it,
// or the names that nobody asked for. The seed's SDK passes None as null, so
// null reads as absent.
type args struct {
	kw  map[string]json.RawMessage
	got []string
	err error
}

func (a *args) fail(name, format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("%w: %s: %s", errInvalid, name, fmt.Sprintf(format, v...))
	}
}

// raw returns the value of name; ok is false when it is absent or null.
func (a *args) raw(name string) (json.RawMessage, bool) {
	a.got = append(a.got, name)
	v, ok := a.kw[name]
	v = bytes.TrimSpace(v)
	return v, ok && !bytes.Equal(v, []byte("null"))
}

func (a *args) str(name string, required bool, limit int) string {
	v, ok := a.raw(name)
	if !ok {
		if required {
			a.fail(name, "it is missing")
		}
		return ""
	}
	var s string
	if v[0] != '"' || json.Unmarshal(v, &s) != nil {
		a.fail(name, "want a string")
		return ""
	}
	if len(s) > 4*limit || utf8.RuneCountInString(s) > limit {
		a.fail(name, "longer than %d characters", limit)
		return ""
	}
	return s
}

// text is a required string that is not blank.
func (a *args) text(name string) string {
	s := a.str(name, true, maxQuery)
	if a.err == nil && strings.TrimSpace(s) == "" {
		a.fail(name, "it is blank")
	}
	return s
}

// num reads a whole number between low and high. def stands where it is absent.
func (a *args) num(name string, def, low, high int64, required bool) int64 {
	v, ok := a.raw(name)
	if !ok {
		if required {
			a.fail(name, "it is missing")
		}
		return def
	}
	var n json.Number
	if (v[0] != '-' && (v[0] < '0' || v[0] > '9')) || json.Unmarshal(v, &n) != nil {
		a.fail(name, "want a whole number")
		return def
	}
	i, err := n.Int64()
	if err != nil {
		f, ferr := n.Float64()
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			a.fail(name, "want a whole number")
			return def
		}
		i = int64(f)
	}
	if i < low || i > high {
		a.fail(name, "want %d to %d", low, high)
		return def
	}
	return i
}

func (a *args) float(name string, low, high float64) (json.RawMessage, bool) {
	v, ok := a.raw(name)
	if !ok {
		return nil, false
	}
	var f float64
	if (v[0] != '-' && (v[0] < '0' || v[0] > '9')) || json.Unmarshal(v, &f) != nil || f < low || f > high {
		a.fail(name, "want a number from %g to %g", low, high)
		return nil, false
	}
	return v, true
}

func (a *args) boolean(name string) *bool {
	v, ok := a.raw(name)
	if !ok {
		return nil
	}
	b := bytes.Equal(v, []byte("true"))
	if !b && !bytes.Equal(v, []byte("false")) {
		a.fail(name, "want true or false")
		return nil
	}
	return &b
}

func (a *args) oneOf(name, def string, allowed ...string) string {
	s := a.str(name, false, 100)
	if s == "" {
		return def
	}
	if !slices.Contains(allowed, s) {
		a.fail(name, "want one of %s", strings.Join(allowed, ", "))
	}
	return s
}

var dateForm = lazyregexp.New(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

func (a *args) date(name string) string {
	s := a.str(name, false, 10)
	if s == "" {
		return ""
	}
	if _, err := time.Parse(time.DateOnly, s); err != nil || !dateForm().MatchString(s) {
		a.fail(name, "want YYYY-MM-DD")
	}
	return s
}

// list reads 1 to maxQueries strings that are not blank.
func (a *args) list(name string) []string {
	v, ok := a.raw(name)
	if !ok {
		a.fail(name, "it is missing")
		return nil
	}
	var out []string
	if v[0] != '[' || json.Unmarshal(v, &out) != nil || len(out) == 0 || len(out) > maxQueries {
		a.fail(name, "want 1 to %d strings", maxQueries)
		return nil
	}
	for _, s := range out {
		if strings.TrimSpace(s) == "" || utf8.RuneCountInString(s) > maxQuery {
			a.fail(name, "want strings of 1 to %d characters", maxQuery)
			return nil
		}
	}
	return out
}

// done reports the first error, or a name that the tool does not know.
func (a *args) done() error {
	if a.err != nil {
		return a.err
	}
	for k := range a.kw {
		if !slices.Contains(a.got, k) {
			return fmt.Errorf("%w: unknown argument", errInvalid)
		}
	}
	return nil
}
