package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) runViewCmd() *cobra.Command {
	var content bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "view ID",
		Short: "Show one run: its attempts, faults and scores, what was said and the patch",
		Long: `Show one run: its attempts, faults and scores. On a terminal also the
conversation of the attempt that counts and the agent's patch, in colour and
page by page (AGON_PAGER, PAGER, else less): text of contestants, models and
tasks, cleaned of terminal controls. Elsewhere --content asks for it.`,
		Example:           "  agon run view …9f59ecbd\n  agon run view …9f59ecbd --content=false\n  agon run view …9f59ecbd --jq '.list[].fault'",
		Args:              Args(1, 1, "a run"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked := cmd.Flags().Changed("content")
			if asked && content && a.Printer.Explicit && a.Printer.Machine() {
				return output.Usage("content", "agon run trace has it as a document", "--content is text for people, not for -o %s", a.Printer.Format)
			}
			if asked && content && !a.Printer.Explicit {
				a.Printer.Format = output.Table // text is what is asked for, in a pipe too
			}
			if !asked {
				content = !a.Printer.Machine() && a.IO.OutTTY()
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			id, err := a.runID(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			r, err := c.Run(cmd.Context(), id)
			if err != nil {
				return err
			}
			said := ""
			if content {
				if said, err = a.story(cmd.Context(), r, attempt); err != nil {
					return err
				}
			}
			return a.paged(cmd.Context(), func() error {
				if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{r.Run.Run}, Human: func(h *output.Human) { runHuman(h, r) }}); err != nil {
					return err
				}
				_, err := io.WriteString(a.IO.Out, said)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&content, "content", false, "show what was said and the patch (a terminal does unasked)")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "say what was said in this attempt (`number`; default the one that counts)")
	return cmd
}

// What `agon run view` shows of a text at most, in characters.
const (
	storyBlock  = 4_000
	storyPatch  = 40_000
	storyArgs   = 1_000
	storyResult = 2_000
)

// storyteller writes a run's conversation for a person. Whatever it is given was
// written by an agent, a model or a task: it is cleaned before it is coloured.
type storyteller struct {
	b      strings.Builder
	width  int // columns; 0: no bound
	colour bool
}

func (t *storyteller) line(st iostreams.Style, s string) {
	t.b.WriteString(iostreams.Paint(t.colour, st, s))
	t.b.WriteByte('\n')
}

// block writes a text below a bar, its lines broken to the width, cut after most characters.
func (t *storyteller) block(st iostreams.Style, s string, most int) {
	s = strings.TrimRight(plain.Clean(s), "\n ")
	left := 0
	if n := utf8.RuneCountInString(s); n > most {
		s, left = string([]rune(s)[:most]), n-most
	}
	if s == "" {
		return
	}
	for _, l := range strings.Split(s, "\n") {
		l = strings.ReplaceAll(l, "\t", "    ")
		for first := true; first || l != ""; first = false {
			part := l
			if t.width > 4 {
				part = cutColumns(l, t.width-2)
			}
			l = l[len(part):]
			t.b.WriteString(iostreams.Paint(t.colour, iostreams.Dim, "│ "))
			t.line(st, part)
		}
	}
	if left > 0 {
		more := fmt.Sprintf("│ … %d more characters", left)
		if t.width > 4 {
			more = plain.Cut(more, t.width)
		}
		t.line(iostreams.Dim, more)
	}
}

// cutColumns is the longest begin of s that fits n columns; at least one character.
func cutColumns(s string, n int) string {
	used := 0
	for i, r := range s {
		if w := plain.Width(string(r)); used+w > n && i > 0 {
			return s[:i]
		} else {
			used += w
		}
	}
	return s
}

// conversation writes who said what, in order.
func (t *storyteller) conversation(d *trajectory.Document) {
	if len(d.Steps) == 0 {
		t.line(iostreams.Dim, "no model was asked")
		return
	}
	copied := 0
	for _, s := range d.Steps {
		if s.Copied {
			copied++
			continue
		}
		st, who := iostreams.Cyan, s.Source
		switch s.Source {
		case "agent":
			st, who = iostreams.Green, plain.Line(s.Model)
			if who == "" {
				who = "agent"
			}
		case "system":
			st = iostreams.Dim
		}
		head := fmt.Sprintf("%d %s", s.ID, who)
		if m := s.Metrics; m != nil {
			head += fmt.Sprintf(" · %d + %d tokens · $%s", m.Prompt, m.Completion, strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.6f", m.Cost), "0"), "."))
		}
		t.b.WriteByte('\n')
		t.line(iostreams.Bold, head)
		t.block(iostreams.Dim, s.Reasoning, storyBlock)
		most := storyBlock
		if s.Source == "system" {
			most = storyResult
		}
		if s.Source == "agent" {
			st = ""
		}
		t.block(st, s.Message, most)
		for _, c := range s.ToolCalls {
			t.line(iostreams.Yellow, "→ "+plain.Line(c.Name))
			t.block(iostreams.Yellow, readable(c.Arguments), storyArgs)
		}
		if s.Observation != nil {
			for _, r := range s.Observation.Results {
				t.line(iostreams.Dim, "← "+plain.Line(resultName(s, r)))
				t.block("", r.Content, storyResult)
			}
		}
	}
	if copied > 0 {
		t.b.WriteByte('\n')
		t.line(iostreams.Dim, fmt.Sprintf("left out, since the agent sent them again: %d", copied))
	}
}

// resultName names the call that a result answers.
func resultName(s trajectory.Step, r trajectory.Result) string {
	for _, c := range s.ToolCalls {
		if c.ID == r.Source {
			return c.Name
		}
	}
	return "result"
}

// readable lays an object of arguments out: a line for each where it has several.
func readable(raw json.RawMessage) string {
	var m map[string]any
	if json.Unmarshal(raw, &m) != nil || len(m) == 0 {
		return strings.TrimSpace(string(raw))
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(m) != nil {
		return string(raw)
	}
	s := b.String()
	if len(m) == 1 {
		for k, v := range m {
			if text, ok := v.(string); ok {
				return k + ": " + text // a command, say: with its own lines
			}
		}
	}
	return s
}

// patch writes a unified diff.
func (t *storyteller) patch(s string) {
	s = strings.TrimRight(plain.Clean(s), "\n")
	left := 0
	if n := utf8.RuneCountInString(s); n > storyPatch {
		s, left = string([]rune(s)[:storyPatch]), n-storyPatch
	}
	for _, l := range strings.Split(s, "\n") {
		st := iostreams.Style("")
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"), strings.HasPrefix(l, "diff "):
			st = iostreams.Bold
		case strings.HasPrefix(l, "+"):
			st = iostreams.Green
		case strings.HasPrefix(l, "-"):
			st = iostreams.Red
		case strings.HasPrefix(l, "@@"):
			st = iostreams.Cyan
		}
		t.line(st, l)
	}
	if left > 0 {
		t.line(iostreams.Dim, fmt.Sprintf("… %d more characters", left))
	}
}

// patchOf finds the patch that judging left as a note; "": there is none, or it is withheld.
func patchOf(events []agon.Event, attempt int) (patch string) {
	for _, e := range events {
		var d struct {
			Patch string `json:"patch"`
		}
		if e.Type == agon.EventNote && e.Attempt == attempt && json.Unmarshal(e.Data, &d) == nil && d.Patch != "" {
			patch = d.Patch
		}
	}
	return patch
}

// counted is the attempt that counts, else the last; 0: nobody has played.
func counted(r *client.Run) int {
	n := 0
	for _, t := range r.List {
		n = t.N
		if t.Counted {
			return t.N
		}
	}
	return n
}

// story is the conversation and the patch of a run's attempt as text.
func (a *App) story(ctx context.Context, r *client.Run, attempt int) (string, error) {
	t := storyteller{colour: a.IO.OutColour()}
	if a.IO.OutTTY() {
		t.width = a.IO.Width()
	}
	if attempt == 0 {
		attempt = counted(r)
	}
	if attempt == 0 {
		return "", nil
	}
	var events []agon.Event
	if err := a.eachEvent(ctx, r.Run.Run, false, func(e agon.Event) error { events = append(events, e); return nil }); err != nil {
		return "", err
	}
	if err := t.conversations(r, attempt, events); err != nil {
		return "", err
	}
	if p := patchOf(events, attempt); p != "" {
		t.b.WriteByte('\n')
		t.line(iostreams.Bold, "patch")
		t.patch(p)
	}
	return t.b.String(), nil
}

// conversations writes what agent and models said, task by task.
func (t *storyteller) conversations(r *client.Run, attempt int, events []agon.Event) error {
	tasks := []string{""}
	if len(r.Tasks) > 1 {
		tasks = ids(r.Tasks, func(x agon.TaskRef) string { return x.Key })
	}
	silent := 0 // tasks on which no model was called
	for _, task := range tasks {
		d, err := trajectory.ATIF(events, attempt, trajectory.Meta{Run: r.Run.Run, Arena: r.Arena, Submission: r.Submission, Agent: r.Submission, Version: "unknown", Task: task})
		if err != nil {
			return err
		}
		if task != "" && len(d.Steps) == 0 {
			continue
		}
		if len(d.Steps) == 1 && d.Steps[0].Message == trajectory.NoModel {
			silent++
			continue
		}
		title := fmt.Sprintf("conversation of attempt %d", attempt)
		if task != "" {
			title += ", " + plain.Line(task)
		}
		t.b.WriteByte('\n')
		t.line(iostreams.Bold, title)
		t.conversation(d)
	}
	if silent > 0 {
		t.b.WriteByte('\n')
		where := ""
		if len(tasks) > 1 {
			where = fmt.Sprintf(" on %d of %d tasks", silent, len(tasks))
		}
		t.line(iostreams.Dim, fmt.Sprintf("The agent called no model%s; what else it called: agon run trace %s", where, plain.Line(r.Run.Run)))
	}
	return nil
}

// paged runs show with an output that goes through a pager where it is longer than
// the terminal: AGON_PAGER, else PAGER, else less. Elsewhere, and without such a
// program, it goes straight to the output.
func (a *App) paged(ctx context.Context, show func() error) error {
	out, ok := a.IO.Out.(*os.File)
	if !ok || !a.IO.OutTTY() {
		return show()
	}
	var b bytes.Buffer
	a.IO.Out = &b
	err := show()
	a.IO.Out = out
	if err == nil && longer(&b, out) && a.page(ctx, b.Bytes(), out) {
		return nil
	}
	if _, werr := out.Write(b.Bytes()); werr != nil && err == nil {
		err = fmt.Errorf("write output: %w", werr)
	}
	return err
}

func longer(b *bytes.Buffer, out *os.File) bool {
	_, height, err := term.GetSize(int(out.Fd()))
	return err == nil && bytes.Count(b.Bytes(), []byte("\n")) >= height
}

// page shows text in the pager; false: there is none, nothing was shown.
func (a *App) page(ctx context.Context, text []byte, out io.Writer) bool {
	words := pagerOf(a.Env.Getenv)
	if len(words) == 0 {
		return false
	}
	at, err := exec.LookPath(words[0])
	if err != nil {
		return false
	}
	cmd := exec.CommandContext(ctx, at, words[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, a.IO.Err
	cmd.Env = os.Environ()
	if a.Env.Getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	if err := cmd.Start(); err != nil {
		return false
	}
	_ = cmd.Wait() // who leaves a pager early has seen enough
	return true
}

// pagerOf is the pager's program and arguments; none for "cat" and for an empty choice.
func pagerOf(getenv func(string) string) []string {
	for _, name := range []string{"AGON_PAGER", "PAGER"} {
		if v := strings.Fields(getenv(name)); len(v) > 0 {
			if v[0] == "cat" {
				return nil
			}
			return v
		}
	}
	return []string{"less"}
}
