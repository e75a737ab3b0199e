package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

var _ kind.Behaved = (*Kind)(nil)

// What is still a name, a number or a search: longer texts are the agent's own wording,
// which differs from play to play.
const (
	maxNameWords = 3
	maxNameBytes = 40
)

// Deeds implements kind.Behaved: the calls of tools, in their order.
func (k *Kind) Deeds(read func(name string) ([]byte, error)) ([]string, error) {
	b, err := read(FileCalls)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range bytes.Lines(b) {
		var c mock.Call
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("read call: %w", err)
		}
		out = append(out, deed(c))
	}
	return out, nil
}

// deed names a call: the tool, what it was asked for, and how that ended.
func deed(c mock.Call) string {
	var b strings.Builder
	b.WriteString(c.Tool)
	for _, name := range slices.Sorted(slices.Values(c.Args.Keys)) {
		fmt.Fprintf(&b, " %s=%s", name, argument(c.Args.Get(name), c.Tool == "exec" && name == "command"))
	}
	if failed(c.Response) {
		b.WriteString(" failed")
	}
	return agon.Sum([]byte(b.String())).Hex()[:16]
}

// quoted is what stands between quotation marks of a command.
var quoted = lazyregexp.New(`"(?:[^"\\]|\\.)*"|'[^']*'`)

// argument is what a call asked for, without the agent's own wording.
func argument(v packfile.Value, command bool) string {
	if v.Kind != packfile.String {
		return string(v.Compact())
	}
	text := strings.ToLower(v.Str)
	if !command {
		return name(text)
	}
	text, _, _ = strings.Cut(text, "<<") // a text follows
	text = quoted().ReplaceAllStringFunc(text, func(s string) string { return name(s[1 : len(s)-1]) })
	return strings.Join(strings.Fields(text), " ")
}

// name is a text that is short enough for one.
func name(s string) string {
	if words := strings.Fields(s); len(words) <= maxNameWords && len(s) <= maxNameBytes {
		return strings.Join(words, " ")
	}
	return "\u2026"
}

// failed says that a tool said no.
func failed(v packfile.Value) bool {
	return v.Get("error").Truth() || v.Get("status").Str == "failed" || v.Get("ok").Kind == packfile.Bool && !v.Get("ok").Truth()
}
