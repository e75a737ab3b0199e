// Package output prints what commands found: a table for a person, JSON for a
// program. Hostile text goes through package plain first.
package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// Format is a way to print a result.
type Format string

// The formats of -o.
const (
	Table Format = "table" // for a person
	JSON  Format = "json"  // one document
	JSONL Format = "jsonl" // one document a line
	ID    Format = "id"    // one identifier a line
)

// Usage is the error of a wrong flag or argument: exit code 2.
func Usage(field, mend, format string, args ...any) error {
	return &agon.Error{Code: "usage", Status: http.StatusBadRequest, Field: field, Message: fmt.Sprintf(format, args...), Mend: mend}
}

// Printer prints results of one command.
type Printer struct {
	IO     *iostreams.IO
	Format Format
	// Explicit is true when the user chose the format: then errors are documents too.
	Explicit bool
	query    *gojq.Code
}

// New resolves -o and --jq: without a choice a terminal gets a table and a
// pipe JSON; --jq means JSON.
func New(s *iostreams.IO, format, jq string) (*Printer, error) {
	p := &Printer{IO: s, Format: Format(format), Explicit: format != ""}
	switch p.Format {
	case Table, JSON, JSONL, ID:
	case "":
		p.Format = JSON
		if s.OutTTY() && jq == "" {
			p.Format = Table
		}
	default:
		return nil, Usage("output", "use table, json, jsonl or id", "-o %q: no such format", format)
	}
	if jq == "" {
		return p, nil
	}
	if p.Format != JSON && p.Format != JSONL {
		return nil, Usage("jq", "leave -o out, or use -o json", "--jq works on JSON, not on -o %s", format)
	}
	q, err := gojq.Parse(jq)
	if err == nil {
		// No environment and no modules: an expression sees the result alone.
		p.query, err = gojq.Compile(q, gojq.WithEnvironLoader(func() []string { return nil }))
	}
	if err != nil {
		return nil, Usage("jq", "see the jq manual; quote the expression for the shell", "--jq %q: %v", jq, err)
	}
	p.Explicit = true
	return p, nil
}

// Machine reports whether a program reads the result.
func (p *Printer) Machine() bool { return p.Format != Table }

// Result is what a command found, in every form.
type Result struct {
	// Value is the JSON document.
	Value any
	// Rows are the lines of jsonl; nil means Value alone.
	Rows []any
	// IDs are the lines of -o id; nil means that the result has none.
	IDs []string
	// Human writes the form for a person; nil means indented JSON.
	Human func(*Human)
}

// List is the Result of a listing: an array in JSON.
func List[T any](items []T, id func(T) string, human func(*Human)) Result {
	r := Result{Value: items, Rows: []any{}, IDs: []string{}, Human: human}
	if items == nil {
		r.Value = []T{} // an empty list is [], not null
	}
	for _, it := range items {
		r.Rows = append(r.Rows, it)
		r.IDs = append(r.IDs, id(it))
	}
	return r
}

// Print writes r to stdout.
func (p *Printer) Print(ctx context.Context, r Result) error {
	if p.query != nil {
		return p.printQuery(ctx, r.Value)
	}
	switch p.Format {
	case ID:
		if r.IDs == nil {
			return Usage("output", "use -o json", "-o id: this result has no identifiers")
		}
		for _, id := range r.IDs {
			if _, err := fmt.Fprintln(p.IO.Out, plain.Line(id)); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
		return nil
	case JSONL:
		rows := r.Rows
		if rows == nil {
			rows = []any{r.Value}
		}
		for _, row := range rows {
			if err := WriteJSON(p.IO.Out, row, false); err != nil {
				return err
			}
		}
		return nil
	case Table:
		if r.Human != nil {
			h := &Human{width: p.IO.Width(), colour: p.IO.OutColour()}
			if !p.IO.OutTTY() {
				h.width = 0 // -o table into a file: nothing is cut
			}
			r.Human(h)
			if _, err := h.b.WriteTo(p.IO.Out); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
			return nil
		}
	}
	return WriteJSON(p.IO.Out, r.Value, p.IO.OutTTY())
}

// Render returns a form for a person as it is to stand on stderr.
func (p *Printer) Render(human func(*Human)) string {
	h := &Human{colour: p.IO.ErrColour()}
	if p.IO.ErrTTY() {
		h.width = p.IO.Width()
	}
	human(h)
	return h.b.String()
}

func (p *Printer) printQuery(ctx context.Context, v any) error {
	in, err := generic(v)
	if err != nil {
		return err
	}
	it := p.query.RunWithContext(ctx, in)
	for {
		v, ok := it.Next()
		if !ok {
			return nil
		}
		if err, ok := v.(error); ok {
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil
			}
			return fmt.Errorf("--jq: %w", err)
		}
		if s, ok := v.(string); ok { // raw, as jq -r
			if p.IO.OutTTY() {
				s = plain.Clean(s)
			}
			if _, err := fmt.Fprintln(p.IO.Out, s); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
			continue
		}
		if err := WriteJSON(p.IO.Out, v, p.IO.OutTTY()); err != nil {
			return err
		}
	}
}

// generic turns v into the maps, slices and numbers that jq works on.
func generic(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return out, nil
}

// WriteJSON writes v and a newline. Characters that could steer a terminal
// are escaped, so that JSON is safe to look at and still the same data.
func WriteJSON(w io.Writer, v any, indent bool) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if _, err := w.Write(EscapeUnsafe(b.Bytes())); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// EscapeUnsafe writes \u escapes for the runes that could steer a terminal. In
// JSON such runes stand inside strings only, so the document stays the same.
func EscapeUnsafe(b []byte) []byte {
	if bytes.IndexFunc(b, plain.Unsafe) < 0 {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case !plain.Unsafe(r):
			out.Write(b[:n])
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out.Bytes()
}

// Human collects the form for a person. It cleans everything it is given.
type Human struct {
	b      bytes.Buffer
	width  int // columns; 0 = no bound
	colour bool
}

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style iostreams.Style
}

// Text makes a plain cell.
func Text(s string) Cell { return Cell{Text: s} }

// Styled makes a marked cell.
func Styled(st iostreams.Style, s string) Cell { return Cell{s, st} }

// Column describes one column of a table.
type Column struct {
	Title string
	Right bool // numbers
	// Min > 0 lets the column shrink to Min columns in a narrow terminal.
	Min int
	// ID marks identifiers, whose endings tell them apart: where the terminal is
	// narrow, their last characters stand behind an ellipsis, at least idEnd of them.
	ID bool
	// Spare columns are left out where the terminal is too narrow for all, the last first.
	Spare bool
}

// idEnd is how much of an identifier is always shown, and taken by commands.
const idEnd = 8

const gap = 2 // blanks between columns

// Line writes one line.
func (h *Human) Line(format string, args ...any) {
	h.b.WriteString(plain.Line(fmt.Sprintf(format, args...)))
	h.b.WriteByte('\n')
}

// Heading writes one marked line.
func (h *Human) Heading(s string) {
	h.b.WriteString(iostreams.Paint(h.colour, iostreams.Bold, plain.Line(s)))
	h.b.WriteByte('\n')
}

// Text writes a text of several lines.
func (h *Human) Text(s string) {
	h.b.WriteString(strings.TrimRight(plain.Clean(s), "\n"))
	h.b.WriteByte('\n')
}

// Fields writes "title  value" lines; rows with an empty value are left out.
func (h *Human) Fields(rows ...[2]string) {
	w := 0
	for _, r := range rows {
		if r[1] != "" {
			w = max(w, plain.Width(r[0]))
		}
	}
	for _, r := range rows {
		if r[1] == "" {
			continue
		}
		pad := strings.Repeat(" ", w-plain.Width(r[0])+gap)
		h.b.WriteString(iostreams.Paint(h.colour, iostreams.Dim, r[0]) + pad + plain.Line(r[1]) + "\n")
	}
}

// Table writes a table. Where the terminal is too narrow, shrinkable columns
// shrink, widest first; where that is not enough, spare columns are left out, and
// where that is not, each row becomes a block of all.
func (h *Human) Table(cols []Column, rows [][]Cell) {
	widths := make([]int, len(cols))
	for i, c := range cols {
		widths[i] = plain.Width(c.Title)
		if c.ID {
			cols[i].Min = idEnd + 1
		}
	}
	texts := make([][]string, len(rows))
	for r, row := range rows {
		texts[r] = make([]string, len(cols))
		for i := range min(len(cols), len(row)) {
			texts[r][i] = plain.Line(row[i].Text)
			widths[i] = max(widths[i], plain.Width(texts[r][i]))
		}
	}
	if h.width > 0 {
		keep := fitting(cols, widths, h.width)
		if keep == nil {
			h.blocks(cols, rows, texts)
			return
		}
		cols, widths = pick(cols, keep), pick(widths, keep)
		for r := range rows {
			n := slices.DeleteFunc(slices.Clone(keep), func(i int) bool { return i >= len(rows[r]) })
			rows[r], texts[r] = pick(rows[r], n), pick(texts[r], keep)
		}
	}
	head := make([]Cell, len(cols))
	for i, c := range cols {
		head[i] = Cell{strings.ToUpper(c.Title), iostreams.Dim}
	}
	h.row(cols, widths, head, nil)
	for r := range rows {
		h.row(cols, widths, rows[r], texts[r])
	}
}

// fitting says which columns are shown in a terminal of width columns, and lowers
// widths; nil where none fit.
func fitting(cols []Column, widths []int, width int) []int {
	keep := make([]int, len(cols))
	for i := range keep {
		keep[i] = i
	}
	for {
		now := pick(widths, keep)
		if shrink(pick(cols, keep), now, width) {
			for i, k := range keep {
				widths[k] = now[i]
			}
			return keep
		}
		last := -1
		for i, k := range keep {
			if cols[k].Spare {
				last = i
			}
		}
		if last < 0 {
			return nil
		}
		keep = slices.Delete(keep, last, last+1)
	}
}

func pick[T any](list []T, keep []int) []T {
	out := make([]T, len(keep))
	for i, k := range keep {
		out[i] = list[k]
	}
	return out
}

// shrink lowers widths until the table fits and reports whether it does.
func shrink(cols []Column, widths []int, width int) bool {
	total := gap * (len(cols) - 1)
	for _, w := range widths {
		total += w
	}
	for total > width {
		widest := -1
		for i, c := range cols {
			if c.Min > 0 && widths[i] > c.Min && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
		total--
	}
	return true
}

func (h *Human) row(cols []Column, widths []int, row []Cell, texts []string) {
	var b strings.Builder
	for i, c := range cols {
		if i >= len(row) {
			break
		}
		s := row[i].Text
		if texts != nil {
			s = texts[i]
		}
		if c.ID && texts != nil {
			s = tail(s, widths[i])
		}
		s = plain.Cut(s, widths[i])
		pad := strings.Repeat(" ", widths[i]-plain.Width(s))
		s = iostreams.Paint(h.colour, row[i].Style, s)
		if i > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		switch {
		case c.Right:
			b.WriteString(pad + s)
		case i == len(cols)-1:
			b.WriteString(s)
		default:
			b.WriteString(s + pad)
		}
	}
	h.b.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

// tail cuts an identifier from the left to width columns.
func tail(s string, width int) string {
	if r := []rune(s); len(r) > width && width > 1 {
		return "…" + string(r[len(r)-width+1:])
	}
	return s
}

func (h *Human) blocks(cols []Column, rows [][]Cell, texts [][]string) {
	for r, row := range rows {
		if r > 0 {
			h.b.WriteByte('\n')
		}
		for i, c := range cols {
			if i >= len(row) || texts[r][i] == "" {
				continue
			}
			// Not cut: here there is room below, and the terminal breaks lines.
			line := texts[r][i]
			if c.Title != "" {
				line = c.Title + ": " + line
			}
			h.b.WriteString(iostreams.Paint(h.colour, row[i].Style, line) + "\n")
		}
	}
}
