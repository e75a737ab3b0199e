package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/iostreams"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) runCmd(s Corpora, j Judges) *cobra.Command {
	return a.noun(&cobra.Command{
		Use:     "run",
		Short:   "Runs: watch them live, read their logs and traces",
		Example: "  agon run list --submission {arena}/mine\n  agon run watch …9f59ecbd",
	}, a.runListCmd(), a.runViewCmd(), a.watchCmd(), a.logsCmd(), a.traceCmd(s), a.regradeCmd(j))
}

func (a *App) runListCmd() *cobra.Command {
	var arena, submission, state string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List runs, newest first",
		Long:    "List runs, newest first. JSON: an array of runs {run, arena, submission, tasks, state, fault, reason, attempts, scores, …}.",
		Example: "  agon run list --state failed\n  agon run list --submission {arena}/mine -o id",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return output.Usage("limit", "ask for at least 1", "--limit %d: out of range", limit)
			}
			if state != "" && !knownState(state) {
				return output.Usage("state", "use one of "+strings.Join(stateNames(), ", "), "--state %q: no such state", state)
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			if submission != "" {
				if submission, err = a.submissionID(cmd.Context(), c, submission); err != nil {
					return err
				}
			}
			runs, err := All(limit, func(o client.ListOptions) (*client.Page[client.Run], error) {
				return c.Runs(cmd.Context(), arena, submission, state, o)
			})
			if err != nil {
				return err
			}
			if len(runs) == 0 {
				if submission != "" { // one without runs, or none at all
					if _, err := c.Submission(cmd.Context(), submission); err != nil {
						return err
					}
				}
				if err := knownArena(cmd.Context(), c, arena); err != nil {
					return err
				}
			}
			return a.Printer.Print(cmd.Context(), output.List(runs, func(r client.Run) string { return r.Run.Run }, func(h *output.Human) {
				if len(runs) == 0 {
					h.Line("no runs")
					return
				}
				rows := make([][]output.Cell, len(runs))
				for i, r := range runs {
					rows[i] = []output.Cell{
						output.Text(r.Run.Run), output.Text(taskNames(r.Tasks)), output.Text(ownerName(r)), StateCell(string(r.State)),
						output.Text(faultText(r.Fault)), output.Text(runScore(r)), output.Text(strconv.Itoa(r.Attempts)), output.Text(When(r.CreatedAt)),
					}
				}
				h.Table([]output.Column{
					{Title: "id", ID: true},
					{Title: "task", Min: 10},
					{Title: "submission", Min: 12},
					{Title: "state"},
					{Title: "fault"},
					{Title: "score", Right: true},
					{Title: "attempts", Right: true},
					{Title: "created", Min: 10},
				}, rows)
			}))
		},
	}
	f := cmd.Flags()
	f.StringVar(&arena, "arena", "", "only of this `arena`")
	f.StringVar(&submission, "submission", "", "only of this submission (`id`, its ending, or ARENA/NAME)")
	f.StringVar(&state, "state", "", "only in this `state`")
	f.IntVar(&limit, "limit", 50, "at most this many")
	Register(cmd, "state", stateNames()...)
	return cmd
}

func stateNames() []string {
	out := make([]string, len(agon.RunStates))
	for i, s := range agon.RunStates {
		out[i] = string(s)
	}
	return out
}

func knownState(s string) bool {
	for _, k := range stateNames() {
		if k == s {
			return true
		}
	}
	return false
}

// taskNames names a run's task, or the first of them and how many follow.
func taskNames(tasks []agon.TaskRef) string {
	if len(tasks) > 2 {
		return fmt.Sprintf("%s and %d more", tasks[0].Key, len(tasks)-1)
	}
	return strings.Join(ids(tasks, func(t agon.TaskRef) string { return t.Key }), ",")
}

func faultText(f agon.Fault) string {
	if f == agon.FaultNone {
		return "-"
	}
	return string(f)
}

// runScore is the mean of a run's scores, or "-".
func runScore(r client.Run) string {
	if len(r.Scores) == 0 {
		return "-"
	}
	sum := 0.0
	for _, s := range r.Scores {
		sum += s.Value
	}
	return fmt.Sprintf("%.4f", sum/float64(len(r.Scores)))
}

// ownerName names the submission of a run as commands take it: ARENA/NAME. Its
// id, where the server tells no name.
func ownerName(r client.Run) string {
	if r.Name == "" {
		return r.Submission
	}
	return r.Arena + "/" + plain.Line(r.Name)
}

// scoreOf is a run's score, "" where it has none.
func scoreOf(r *client.Run) string {
	if len(r.Scores) == 0 {
		return ""
	}
	return runScore(*r)
}

func runHuman(h *output.Human, r *client.Run) {
	fault := ""
	if r.Fault != agon.FaultNone {
		fault = string(r.Fault)
	}
	deadline := ""
	if !r.State.Final() {
		deadline = When(r.Deadline)
	}
	h.Heading(r.Run.Run)
	h.Fields([2]string{"task", taskNames(r.Tasks)}, [2]string{"arena", r.Arena}, [2]string{"submission", strings.TrimSpace(plain.Line(r.Name) + " " + r.Submission)}, [2]string{"state", string(r.State)}, [2]string{"score", scoreOf(r)},
		[2]string{"fault", fault}, [2]string{"reason", r.Reason}, [2]string{"seed", strconv.FormatInt(r.Seed, 10)},
		[2]string{"created", When(r.CreatedAt)}, [2]string{"ended", When(r.EndedAt)}, [2]string{"played again from", When(r.RetryAt)}, [2]string{"deadline", deadline}, [2]string{"gone", strings.Join(r.Gone, ", ")})
	if len(r.Scores) > 0 {
		h.Line("")
		h.Heading("scores")
		rows := make([][]output.Cell, len(r.Scores))
		for i, s := range r.Scores {
			rows[i] = []output.Cell{output.Text(s.Task), output.Text(fmt.Sprintf("%.4f", s.Value)), output.Text(strconv.FormatBool(s.Solved))}
		}
		h.Table([]output.Column{{Title: "task", Min: 10}, {Title: "score", Right: true}, {Title: "solved"}}, rows)
		for _, s := range r.Scores { // what columns would cut
			for _, said := range []string{s.Detail, numbers(s.Metrics)} {
				if said != "" {
					h.Line("%s: %s", plain.Line(s.Task), plain.Line(said))
				}
			}
		}
	}
	if len(r.List) > 0 {
		h.Line("")
		h.Heading("attempts")
		rows := make([][]output.Cell, len(r.List))
		for i, t := range r.List {
			mark := ""
			switch {
			case t.Counted:
				mark = "counted"
			case t.Late:
				mark = "late"
			}
			rows[i] = []output.Cell{
				output.Text(strconv.Itoa(t.N)), output.Text(t.Validator), StateCell(t.State), output.Text(faultText(t.Fault)),
				output.Text(t.Driver.Name), output.Text(fmt.Sprintf("%d ms", t.BoxMS)), output.Text(money(t.CostMicros)), output.Text(mark), output.Text(t.Reason),
			}
		}
		h.Table([]output.Column{
			{Title: "n", Right: true},
			{Title: "validator", Min: 7},
			{Title: "state"},
			{Title: "fault"},
			{Title: "driver"},
			{Title: "box", Right: true},
			{Title: "cost", Right: true},
			{Title: "result"},
			{Title: "reason", Min: 8},
		}, rows)
	}
}

type watchOptions struct {
	Run     string
	After   client.Cursor
	Content bool // show what the agent wrote
}

func (a *App) watchCmd() *cobra.Command {
	var after string
	var content bool
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a run live until it ends",
		Long: `Follow a run live until it ends. Reconnects if the connection drops. What the
agent wrote is withheld unless --content asks for it. Ctrl-C detaches and
cancels nothing.

With -o json or in a pipe: one event a line, then the run as it ended.
Exit codes: 0 scored, 1 cancelled, 9 failed by a fault of ours.`,
		Example:           "  agon run watch …9f59ecbd\n  agon run watch …9f59ecbd --after 1.42",
		Args:              Args(1, 1, "a run"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := client.ParseCursor(after)
			if err != nil {
				return output.Usage("after", "use ATTEMPT.SEQ of an event, such as 1.42", "--after: %v", err)
			}
			id, err := a.wholeRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.watch(cmd.Context(), watchOptions{id, from, content})
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "resume after this event (`ATTEMPT.SEQ`)")
	cmd.Flags().BoolVar(&content, "content", false, "show what the agent wrote (cleaned of terminal controls)")
	return cmd
}

func (a *App) watch(ctx context.Context, o watchOptions) error {
	c, err := a.Reader()
	if err != nil {
		return err
	}
	p := eventPrinter{a, o.Content}
	last := o.After
	run, err := c.Stream(ctx, o.Run, o.After, func(e agon.Event) error {
		last = client.CursorOf(e)
		return p.print(ctx, e)
	})
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			resume := "agon run watch " + plain.Line(o.Run)
			if last != (client.Cursor{}) {
				resume += " --after " + last.String()
			}
			a.IO.Notef("detached; the run goes on. Resume with `%s`", resume)
			return &Exit{Code: CodeInterrupted}
		}
		return err
	}
	if err := a.Printer.Print(ctx, output.Result{Value: run, IDs: []string{run.Run.Run}, Human: func(h *output.Human) {
		h.Line("%s: %s%s", run.Run.Run, run.State, endDetail(run))
	}}); err != nil {
		return err
	}
	switch run.State {
	case agon.RunFailed:
		return &Exit{Code: CodeOurs}
	case agon.RunCancelled:
		return &Exit{Code: CodeFailed}
	}
	return nil
}

func endDetail(r *client.Run) string {
	switch {
	case r.State == agon.RunScored:
		s := ", score " + runScore(*r)
		if r.Fault != agon.FaultNone {
			s += ", fault " + string(r.Fault)
		}
		return s
	case r.Reason != "":
		return ", " + faultText(r.Fault) + ": " + r.Reason
	}
	return ""
}

// eventPrinter prints events as they come.
type eventPrinter struct {
	a       *App
	content bool
}

func (p eventPrinter) print(ctx context.Context, e agon.Event) error {
	if !p.content {
		e = withhold(e)
	}
	if p.a.Printer.Format == output.Table {
		on := p.a.IO.OutColour()
		at := iostreams.Paint(on, iostreams.Dim, e.At.UTC().Format("15:04:05.000"))
		line := fmt.Sprintf("%-6s %-12s ", client.CursorOf(e), plain.Line(e.Type)) + EventLine(e)
		if p.a.IO.OutTTY() {
			line = plain.Cut(line, max(30, p.a.IO.Width()-14))
		}
		if _, err := fmt.Fprintln(p.a.IO.Out, at, line); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	if p.a.Printer.Format == output.JSON {
		// A stream has no end to wait for: json means one document a line here.
		q := *p.a.Printer
		q.Format = output.JSONL
		return q.Print(ctx, output.Result{Value: e, IDs: []string{client.CursorOf(e).String()}})
	}
	return p.a.Printer.Print(ctx, output.Result{Value: e, IDs: []string{client.CursorOf(e).String()}})
}

// outputData is the data of an output event.
type outputData struct {
	Stream    string `json:"stream"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}

// withhold replaces what an agent or a model wrote by its size, so that who
// watches (a person, or a program that reads for one) is not talked to by a contestant.
func withhold(e agon.Event) agon.Event {
	var kept any
	switch e.Type {
	case agon.EventOutput:
		var d outputData
		if err := json.Unmarshal(e.Data, &d); err == nil {
			kept = map[string]any{"stream": d.Stream, "bytes": len(d.Text), "withheld": true}
		}
	case agon.EventModel, agon.EventTool:
		var d struct {
			Receipt json.RawMessage `json:"receipt"`
		}
		if err := json.Unmarshal(e.Data, &d); err == nil && d.Receipt != nil {
			kept = map[string]any{"receipt": d.Receipt, "bytes": len(e.Data), "withheld": true}
		}
	default:
		return e
	}
	b, err := json.Marshal(kept)
	if err != nil {
		b = nil
	}
	e.Data = b
	return e
}

// EventLine says in one clean line what an event is.
func EventLine(e agon.Event) string {
	var m map[string]any
	if err := json.Unmarshal(e.Data, &m); err != nil {
		return ""
	}
	get := func(path ...string) string {
		var v any = m
		for _, k := range path {
			o, ok := v.(map[string]any)
			if !ok {
				return ""
			}
			v = o[k]
		}
		switch v := v.(type) {
		case nil:
			return ""
		case string:
			return plain.Line(v)
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		case bool:
			return strconv.FormatBool(v)
		}
		return ""
	}
	join := func(parts ...string) string {
		var out []string
		for _, p := range parts {
			if p != "" {
				out = append(out, p)
			}
		}
		return strings.Join(out, " ")
	}
	with := func(name, v string) string {
		if v == "" {
			return ""
		}
		return name + "=" + v
	}
	switch e.Type {
	case agon.EventPhase:
		return join(get("phase"), get("detail"))
	case agon.EventBox:
		return join(get("role"), get("action"), get("driver"), with("code", get("exit", "code")), with("cause", get("exit", "cause")), with("ms", get("ms")))
	case agon.EventTool:
		if said := toolLine(e.Data); said != "" {
			return said
		}
		fallthrough
	case agon.EventModel:
		return join(get("receipt", "model"), get("receipt", "outcome"), with("prompt", get("receipt", "prompt_tokens")),
			with("completion", get("receipt", "completion_tokens")), with("micros", get("receipt", "cost_micros")), with("status", get("receipt", "status")))
	case agon.EventRefused:
		return join(get("route"), get("status"), get("code"), get("message"))
	case agon.EventOutput:
		if get("withheld") == "true" {
			return join(get("stream"), get("bytes"), "bytes withheld (--content shows them)")
		}
		return join(get("stream"), get("text"))
	case agon.EventScore:
		return join(get("task"), get("value"), with("solved", get("solved")), get("detail"))
	case agon.EventNote:
		return get("text")
	}
	return ""
}

// toolLine says what a script asked of a tool and what came: of what is of the
// engine's own tools (tools.Receipt), not of calls that a gateway relayed.
func toolLine(data json.RawMessage) string {
	var d struct {
		Tool *struct {
			Tool    string `json:"tool"`
			Outcome string `json:"outcome"`
			Request struct {
				Args   []any          `json:"args"`
				Kwargs map[string]any `json:"kwargs"`
			} `json:"request"`
			Results []json.RawMessage `json:"results"`
			Error   string            `json:"error"`
			Cost    agon.Micros       `json:"cost_micros"`
		} `json:"tool"`
	}
	if json.Unmarshal(data, &d) != nil || d.Tool == nil || d.Tool.Tool == "" {
		return ""
	}
	t := d.Tool
	parts := []string{plain.Line(t.Tool)}
	for _, x := range t.Request.Args {
		parts = append(parts, strconv.Quote(plain.Cut(plain.Line(fmt.Sprint(x)), 60)))
	}
	for _, k := range slices.Sorted(maps.Keys(t.Request.Kwargs)) {
		if s, ok := t.Request.Kwargs[k].(string); ok {
			parts = append(parts, strconv.Quote(plain.Cut(plain.Line(s), 60)))
		}
	}
	parts = append(parts, plain.Line(t.Outcome))
	if n := len(t.Results); n == 1 {
		parts = append(parts, "1 result")
	} else if n > 1 {
		parts = append(parts, strconv.Itoa(n)+" results")
	}
	if t.Error != "" {
		parts = append(parts, plain.Line(t.Error))
	}
	if t.Cost > 0 {
		parts = append(parts, money(t.Cost))
	}
	return strings.Join(parts, " ")
}
