// Package lazyregexp compiles regular expressions when they are first used: a
// variable of them costs nothing to a command that does not need it.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// inTest is how `go test` names its programs; to ask package testing would link it.
var inTest = strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

// New returns what compiles s once and gives it. In a test it compiles s at once,
// so that the tests of a package see that all of its expressions are right; else a
// wrong one panics where it is used.
func New(s string) func() *regexp.Regexp {
	if inTest {
		regexp.MustCompile(s)
	}
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })
}
