package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// AgentFile is the only file of a submission.
const AgentFile = "agent.py"

// MaxAgentBytes bounds the agent file (spec/ridges.md 2.1, era B and C).
const MaxAgentBytes = 2 << 20

// Finding codes of Check.
const (
	FindNoFile       = kind.FindNoFile
	FindExtraFile    = kind.FindExtraFile
	FindNotRegular   = kind.FindNotRegular
	FindTooLarge     = "too_large"
	FindNotUTF8      = "not_utf8"
	FindNotText      = "not_text"
	FindEncoding     = "bad_encoding"
	FindSyntax       = "syntax"
	FindNoMain       = "no_agent_main"
	FindAsyncMain    = "async_agent_main"
	FindBadSignature = "bad_signature"
	FindRebound      = "agent_main_rebound" // warning
	FindAnswers      = "embedded_answers"
	FindCoded        = "coded_data" // warning
)

// Check decides whether files hold one Python file with a top-level function
// agent_main that takes one argument. The file is never run.
func (k *Kind) Check(ctx context.Context, a *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	return kind.CheckOneFile(ctx, files, AgentFile, MaxAgentBytes, func(src []byte) []agon.Finding {
		found := CheckSource(src)
		if a == nil || slices.ContainsFunc(found, func(f agon.Finding) bool { return !f.Warning }) {
			return found
		}
		return append(found, named(string(src), a.Tasks)...)
	})
}

// later is on a line that Python 3.11 refuses and a later version may take: what
// versions 3.12 to 3.14 have changed. Boxes of tasks with images of their own may have one.
var later = lazyregexp.New(`^(type\s|(async\s+)?(def|class)\s+\w+\s*\[|except\b)|(?i:\b([ft]r?|r[ft])["'])`)

// never returns the error in what no version of Python 3 reads: an entry that
// could only fail would cost its miner a place in the queue.
func never(text string) error {
	var e *copycat.SyntaxError
	err := copycat.CheckPython(text)
	if !errors.As(err, &e) || !strings.HasPrefix(e.Msg, "expected ") && !strings.HasPrefix(e.Msg, "invalid syntax") {
		return nil
	}
	if lines := strings.Split(text, "\n"); e.Line < 1 || e.Line > len(lines) || later().MatchString(strings.TrimSpace(lines[e.Line-1])) {
		return nil
	}
	return err
}

// codingLine is PEP 263's declaration, looked for in the first two lines.
var codingLine = lazyregexp.New(`^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)`)

// CheckSource checks the bytes of one agent file. A byte more than
// MaxAgentBytes is enough to tell that a file is too large.
func CheckSource(src []byte) []agon.Finding {
	one := func(code, format string, args ...any) []agon.Finding {
		return []agon.Finding{{Code: code, Field: AgentFile, Message: fmt.Sprintf(format, args...)}}
	}
	if len(src) > MaxAgentBytes {
		f := one(FindTooLarge, "agent.py is too large")
		f[0].Limit = fmt.Sprintf("%d bytes", MaxAgentBytes)
		return f
	}
	if bytes.IndexByte(src, 0) >= 0 {
		return one(FindNotText, "agent.py holds a NUL byte")
	}
	if !utf8.Valid(src) {
		return one(FindNotUTF8, "agent.py is not UTF-8")
	}
	text := strings.TrimPrefix(string(src), "\ufeff")
	for i, l := range strings.SplitN(text, "\n", 3) {
		if m := codingLine().FindStringSubmatch(l); i < 2 && m != nil {
			enc := strings.ReplaceAll(strings.ToLower(m[1]), "_", "-")
			if enc != "utf-8" && enc != "utf8" && enc != "ascii" && enc != "us-ascii" {
				return one(FindEncoding, "agent.py declares the encoding %q; only utf-8 is read", plain.Short(m[1], 40))
			}
		}
	}
	m, err := scanPython(text)
	if err == nil {
		err = never(text)
	}
	if err != nil {
		return one(FindSyntax, "agent.py is not Python: %v", err)
	}
	last := -1
	for i := range m.Defs {
		if m.Defs[i].Name == "agent_main" {
			last = i // a later definition replaces an earlier one
		}
	}
	if last < 0 {
		f := one(FindNoMain, "agent.py has no top-level function agent_main (def agent_main(input): ...)")
		if slices.Contains(m.Bound, "agent_main") {
			f[0].Message = "agent_main must be a top-level def, not an assignment or an import"
		}
		return f
	}
	d := m.Defs[last]
	switch {
	case d.Async:
		return one(FindAsyncMain, "line %d: agent_main is async; it is called as an ordinary function", d.Line)
	case !takesOneArgument(d.Params):
		return one(FindBadSignature, "line %d: agent_main must be callable with exactly one positional argument", d.Line)
	case d.Decorated || slices.Contains(m.Bound, "agent_main"):
		f := one(FindRebound, "line %d: agent_main is decorated or bound again; what it becomes is seen only when it runs", d.Line)
		f[0].Warning = true
		return append(f, embedded(text)...)
	}
	return embedded(text)
}
