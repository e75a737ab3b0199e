package play

import (
	"bytes"
	"context"
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

// Limits of a submission (spec/oro.md 1.9).
const (
	MaxAgentBytes = 1 << 20
	MaxName       = 100 // characters of an agent's name
	maxFindings   = 20
)

// Finding codes of Check.
const (
	FindNoFile     = kind.FindNoFile
	FindExtraFile  = kind.FindExtraFile
	FindNotRegular = kind.FindNotRegular
	FindEmpty      = "empty"
	FindTooLarge   = "too_large"
	FindNotText    = "not_text"
	FindNotUTF8    = "not_utf8"
	FindSyntax     = "syntax"
	FindNoMain     = "no_agent_main"
	FindImport     = "banned_import"
	FindCall       = "banned_call"
	FindWrite      = "banned_write"
	FindAnswers    = "embedded_answers"
)

var nameForm = lazyregexp.New(`^[A-Za-z0-9 _.-]{1,100}$`)

// Check decides whether files hold one Python agent. It is never run.
func (k *Kind) Check(ctx context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	return kind.CheckOneFile(ctx, files, AgentFile, MaxAgentBytes, CheckSource)
}

// CheckSource checks the bytes of one agent. A byte more than MaxAgentBytes is
// enough to tell that it is too large.
func CheckSource(src []byte) []agon.Finding {
	one := func(code, format string, args ...any) []agon.Finding {
		return []agon.Finding{{Code: code, Field: AgentFile, Message: fmt.Sprintf(format, args...)}}
	}
	switch {
	case len(src) > MaxAgentBytes:
		f := one(FindTooLarge, "agent.py is too large")
		f[0].Limit = fmt.Sprintf("%d bytes", MaxAgentBytes)
		return f
	case len(bytes.TrimSpace(src)) == 0:
		return one(FindEmpty, "agent.py is empty")
	case bytes.IndexByte(src, 0) >= 0:
		return one(FindNotText, "agent.py holds a NUL byte")
	case !utf8.Valid(src):
		return one(FindNotUTF8, "agent.py is not UTF-8")
	}
	tokens, err := copycat.Tokens(string(src))
	if err == nil {
		err = copycat.CheckPython(string(src))
	}
	if err != nil {
		return one(FindSyntax, "agent.py is not Python 3.11: %s", plain.Short(err.Error(), 300))
	}
	s := scan{tokens: tokens}
	s.run()
	return s.found
}

// Modules whose import is refused, with what may be imported of them all the
// same. Whoever wants to get around this list can: the box is what holds.
var banned = map[string][]string{
	"os": {"os.path"}, "subprocess": nil, "commands": nil, "socket": nil, "http": nil, "urllib": {"urllib.parse"}, "requests": nil,
	"ctypes": nil, "cffi": nil, "pickle": nil, "shutil": nil,
	"base64": nil, "binascii": nil, "codecs": nil, "zlib": nil,
}

// Names that may be imported from a refused module.
var allowedNames = map[string][]string{"os": {"getenv", "path"}, "urllib": {"parse"}}

// Calls that are refused.
var bannedCalls = []string{"eval", "exec", "__import__"}

// answerIDs is how many literals that look like product ids a file may hold
// before it is taken for a table of answers.
const answerIDs = 20

var looksLikeID = lazyregexp.New(`^[0-9]{6,20}$`)

// scan walks the tokens of a file once.
type scan struct {
	tokens []copycat.Token
	found  []agon.Finding
	ids    map[string]bool
	main   bool
}

func (s *scan) add(code string, line int, format string, args ...any) {
	if len(s.found) < maxFindings {
		s.found = append(s.found, agon.Finding{Code: code, Field: fmt.Sprintf("%s:%d", AgentFile, line), Message: fmt.Sprintf(format, args...)})
	}
}

// text returns the token i, "" outside.
func (s *scan) text(i int) string {
	if i < 0 || i >= len(s.tokens) {
		return ""
	}
	return s.tokens[i].Text
}

func (s *scan) run() {
	s.ids = map[string]bool{}
	start := true
	for i, t := range s.tokens {
		switch {
		case t.Kind == copycat.TokenNewline || t.Kind == copycat.TokenOp && t.Text == ";":
			start = true
			continue
		case t.Kind == copycat.TokenOp && t.Text == ":":
			start = true // a simple statement may follow on the same line
			continue
		case t.Kind == copycat.TokenString:
			s.literal(t)
		case t.Kind == copycat.TokenNumber && looksLikeID().MatchString(t.Text):
			s.ids[t.Text] = true
		case t.Kind == copycat.TokenName && start && t.Text == "import":
			s.imports(i + 1)
		case t.Kind == copycat.TokenName && start && t.Text == "from":
			s.from(i + 1)
		case t.Kind == copycat.TokenName && t.Text == "def" && s.text(i+1) == "agent_main", t.Text == "agent_main" && start && s.text(i+1) == "=":
			s.main = true
		case t.Kind == copycat.TokenName && s.text(i+1) == "(" && s.text(i-1) != "def":
			s.call(i)
		}
		start = false
	}
	if len(s.ids) > answerIDs {
		s.add(FindAnswers, 1, "%d literals look like product ids, at most %d may: answers may not be written into an agent", len(s.ids), answerIDs)
	}
	if !s.main {
		s.add(FindNoMain, 1, "agent.py must define agent_main(problem_data)")
	}
}

func (s *scan) literal(t copycat.Token) {
	body := strings.Trim(strings.TrimLeft(t.Text, "rRbBuUfF"), `"'`)
	for _, part := range strings.FieldsFunc(body, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == ';' || r == '|' }) {
		if looksLikeID().MatchString(part) {
			s.ids[part] = true
		}
	}
}

// dotted reads a name with dots at i and returns where it ends.
func (s *scan) dotted(i int) (string, int) {
	name := s.text(i)
	for i++; s.text(i) == "."; i += 2 {
		name += "." + s.text(i+1)
	}
	return name, i
}

func refused(module string) bool {
	top, _, _ := strings.Cut(module, ".")
	but, ok := banned[top]
	return ok && !slices.Contains(but, module)
}

// imports reads "import a.b as c, d".
func (s *scan) imports(i int) {
	for {
		line := 0
		if i < len(s.tokens) {
			line = s.tokens[i].Line
		}
		name, next := s.dotted(i)
		if refused(name) {
			s.add(FindImport, line, "import of %s is not allowed", plain.Short(name, 80))
		}
		if s.text(next) == "as" {
			next += 2
		}
		if s.text(next) != "," {
			return
		}
		i = next + 1
	}
}

// from reads "from a.b import c as d, e".
func (s *scan) from(i int) {
	if i >= len(s.tokens) {
		return
	}
	line := s.tokens[i].Line
	module, next := s.dotted(i)
	if !refused(module) {
		return
	}
	allowed := allowedNames[module]
	for next++; next < len(s.tokens) && s.tokens[next].Kind != copycat.TokenNewline; next++ {
		t := s.tokens[next]
		switch {
		case t.Text == "as":
			next++
		case t.Kind == copycat.TokenName && !slices.Contains(allowed, t.Text), t.Text == "*":
			s.add(FindImport, line, "import of %s from %s is not allowed", plain.Short(t.Text, 80), plain.Short(module, 80))
			return
		}
	}
}

// call looks at a call whose name is token i.
func (s *scan) call(i int) {
	t := s.tokens[i]
	method := s.text(i-1) == "."
	switch {
	case !method && slices.Contains(bannedCalls, t.Text):
		s.add(FindCall, t.Line, "%s() is not allowed", t.Text)
	case method && (t.Text == "write_text" || t.Text == "write_bytes"):
		s.add(FindWrite, t.Line, ".%s() is not allowed", t.Text)
	case t.Text == "open":
		if mode := s.openMode(i + 2); strings.ContainsAny(mode, "wax+") {
			s.add(FindWrite, t.Line, "open() with mode %q is not allowed", plain.Short(mode, 10))
		}
	}
}

// openMode finds the mode of an open() call whose arguments begin at i: the
// second argument, or the one named mode.
func (s *scan) openMode(i int) string {
	depth, arg := 0, 0
	for first := i; i < len(s.tokens); i++ {
		t := s.tokens[i]
		switch {
		case t.Text == "(" || t.Text == "[" || t.Text == "{":
			depth++
		case t.Text == ")" || t.Text == "]" || t.Text == "}":
			if depth--; depth < 0 {
				return ""
			}
		case depth == 0 && t.Text == ",":
			arg++
			first = i + 1
		case depth == 0 && t.Kind == copycat.TokenString && (arg == 1 && i == first || s.text(i-1) == "=" && s.text(i-2) == "mode"):
			return strings.Trim(strings.TrimLeft(t.Text, "rRbBuUfF"), `"'`)
		}
	}
	return ""
}
