// Package calc recomputes rules from the command line: one JSON object per
// line in, one per line out, same order. Rules are values handed to New, so
// that every package and kind brings its own and nothing registers itself.
package calc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// MaxLine bounds one input line, in bytes.
const MaxLine = 16 << 20

// ErrUnknownRule is returned by Run for a rule that is not in the registry.
var ErrUnknownRule = errors.New("unknown rule")

// Rule is a named function over JSON.
type Rule struct {
	Name string // "winner_takes_all"
	Doc  string // input -> output, in one line
	// Example is an input that the rule answers, in one line; "": none is short enough.
	Example string
	run     func(line []byte) (any, error)
}

// Func makes a rule of f. The input line must be one JSON object whose fields
// are exactly those of In: unknown fields, a field given twice, another case
// and a missing field are errors. A pointer field, or one tagged omitempty or
// omitzero, may be missing. Integers are exact as far as the Go type is.
func Func[In, Out any](name, doc string, f func(In) (Out, error)) Rule {
	return Rule{Name: name, Doc: doc, run: func(line []byte) (any, error) {
		var in In
		if err := decodeStrict(line, &in); err != nil {
			return nil, err
		}
		return f(in)
	}}
}

// Registry holds rules by name. It is immutable.
type Registry struct {
	rules map[string]Rule
}

// New makes a registry. Two rules of one name are a programming error and panic.
func New(rules ...Rule) *Registry {
	r := &Registry{rules: make(map[string]Rule, len(rules))}
	for _, rule := range rules {
		if _, ok := r.rules[rule.Name]; ok || rule.Name == "" || rule.run == nil {
			panic("calc: rule " + rule.Name + " is empty or registered twice")
		}
		r.rules[rule.Name] = rule
	}
	return r
}

// Rules lists the names, sorted.
func (r *Registry) Rules() []string {
	names := make([]string, 0, len(r.rules))
	for name := range r.rules {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Doc returns the one-line description of a rule, or "".
func (r *Registry) Doc(rule string) string { return r.rules[rule].Doc }

// Run answers each line of in by one line of out and returns how many were bad.
// A bad line is answered {"error": …} and does not stop the others. Lines of
// nothing but white space are skipped. The error is ErrUnknownRule (wrapped),
// or of in or out.
func (r *Registry) Run(rule string, in io.Reader, out io.Writer) (bad int, err error) {
	f, ok := r.rules[rule]
	if !ok {
		return 0, fmt.Errorf("%w %q", ErrUnknownRule, rule)
	}
	w := bufio.NewWriter(out)
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, tooLong, rerr := readLine(reader, MaxLine)
		if tooLong || len(bytes.TrimSpace(line)) > 0 {
			answer, aerr := f.answer(line, tooLong)
			if aerr != nil {
				bad++
				answer = errorLine(aerr)
			}
			if _, err := w.Write(answer); err != nil {
				return bad, fmt.Errorf("write answer: %w", err)
			}
			// Someone may be talking to us line by line: do not sit on an answer when no more input is there.
			if reader.Buffered() == 0 {
				if err := w.Flush(); err != nil {
					return bad, fmt.Errorf("write answer: %w", err)
				}
			}
		}
		if rerr != nil {
			if err := w.Flush(); err != nil {
				return bad, fmt.Errorf("write answer: %w", err)
			}
			if errors.Is(rerr, io.EOF) {
				return bad, nil
			}
			return bad, fmt.Errorf("read input: %w", rerr)
		}
	}
}

func (f Rule) answer(line []byte, tooLong bool) ([]byte, error) {
	if tooLong {
		return nil, fmt.Errorf("line is longer than %d bytes", MaxLine)
	}
	v, err := f.run(line)
	if err != nil {
		return nil, err
	}
	return encode(v)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return b.Bytes(), nil
}

func errorLine(err error) []byte {
	b, eerr := encode(map[string]string{"error": err.Error()})
	if eerr != nil {
		panic("calc: a string does not encode: " + eerr.Error())
	}
	return b
}

// readLine returns the next line without its end. A line over limit bytes is
// read to its end but not kept.
func readLine(r *bufio.Reader, limit int) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong {
			line = append(line, part...)
			if len(bytes.TrimRight(line, "\r\n")) > limit {
				line, tooLong = nil, true
			}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), tooLong, err
		}
	}
}
