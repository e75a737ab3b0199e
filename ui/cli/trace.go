package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/corpus/trajectory"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/ui/cli/output"
)

func (a *App) logsCmd() *cobra.Command {
	var follow bool
	var attempt int
	var stream string
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Show what the agent wrote to stdout and stderr",
		Long: `Show what the agent wrote to stdout and stderr: text of a contestant, cleaned of
terminal controls. With -o json or jsonl: its output events.`,
		Example:           "  agon run logs …9f59ecbd\n  agon run logs …9f59ecbd --follow --stream stderr",
		Args:              Args(1, 1, "a run"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if stream != "" && stream != "stdout" && stream != "stderr" {
				return output.Usage("stream", "use stdout or stderr", "--stream %q: no such stream", stream)
			}
			want := func(e agon.Event) bool {
				return e.Type == agon.EventOutput && (attempt == 0 || e.Attempt == attempt) && streamIs(e, stream)
			}
			id, err := a.wholeRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !a.Printer.Explicit {
				a.Printer.Format = output.Table // text is the data here, in a pipe too
			}
			if a.Printer.Format == output.Table {
				return a.logText(cmd.Context(), id, follow, want)
			}
			return a.events(cmd.Context(), id, follow, want)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "stay until the run ends")
	f.IntVar(&attempt, "attempt", 0, "only of this attempt (`number`)")
	f.StringVar(&stream, "stream", "", "only `stdout` or stderr")
	Register(cmd, "stream", "stdout", "stderr")
	return cmd
}

func streamIs(e agon.Event, stream string) bool {
	if stream == "" {
		return true
	}
	var d outputData
	return json.Unmarshal(e.Data, &d) == nil && d.Stream == stream
}

// logText writes the text of output events, clean, stdout and stderr alike as data.
func (a *App) logText(ctx context.Context, run string, follow bool, want func(agon.Event) bool) error {
	endsLine, any := true, false
	err := a.eachEvent(ctx, run, follow, func(e agon.Event) error {
		if !want(e) {
			return nil
		}
		var d outputData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return nil // an event of a newer server
		}
		text := plain.Clean(d.Text)
		if d.Truncated {
			text = strings.TrimSuffix(text, "\n") + "\n[cut at the limit]\n"
		}
		if text == "" {
			return nil
		}
		endsLine, any = strings.HasSuffix(text, "\n"), true
		if _, err := io.WriteString(a.IO.Out, text); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	})
	if !endsLine {
		_, _ = io.WriteString(a.IO.Out, "\n") // only the last line's end
	}
	if err == nil && !any {
		a.IO.Notef("the agent wrote nothing")
	}
	return err
}

// Forms of a trajectory.
const (
	formEvents = "events"
	formATIF   = "atif"
	formOpenAI = "openai"
)

func (a *App) traceCmd(s Corpora) *cobra.Command {
	var format, task string
	var follow bool
	var attempt int
	cmd := &cobra.Command{
		Use:   "trace ID",
		Short: "Show a run's trajectory: every event in order",
		Long: `Show a run's trajectory: every event in order, as the engine and the gateway wrote
it (docs/events.md). With --format events, or in a pipe: one event a line; atif: one
document in the Agent Trajectory Interchange Format for each task, a line each where
there are several; openai: one conversation a line, as chat messages. What agents and models wrote is in all of them: hostile text.`,
		Example:           "  agon run trace …9f59ecbd\n  agon run trace …9f59ecbd --format events > run.jsonl\n  agon run trace …9f59ecbd --format atif > trajectory.json",
		Args:              Args(1, 1, "a run"),
		ValidArgsFunction: a.Complete(runIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := a.wholeRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch format {
			case "":
			case formEvents:
				if !a.Printer.Explicit {
					a.Printer.Format = output.JSONL
				}
			case formATIF, formOpenAI:
				if follow {
					return output.Usage("follow", "leave --follow out: the form is made of the whole run", "--follow with --format %s", format)
				}
				return a.export(cmd.Context(), id, format, task, attempt, s)
			default:
				return output.Usage("format", "use events, atif or openai", "--format %q: no such format", format)
			}
			if a.Printer.Format == output.JSON && !a.Printer.Explicit {
				a.Printer.Format = output.JSONL
			}
			return a.events(cmd.Context(), id, follow, func(e agon.Event) bool { return attempt == 0 || e.Attempt == attempt })
		},
	}
	f := cmd.Flags()
	f.StringVar(&format, "format", "", "`form` of the trajectory: events, atif or openai")
	f.IntVar(&attempt, "attempt", 0, "of this attempt (`number`); atif and openai show one, by default the last")
	f.StringVar(&task, "task", "", "only this task of the run, in atif and openai (`key`)")
	f.BoolVarP(&follow, "follow", "f", false, "stay until the run ends")
	Register(cmd, "format", formEvents, formATIF, formOpenAI)
	return cmd
}

// export writes a run in the form of others.
func (a *App) export(ctx context.Context, run, form, task string, attempt int, s Corpora) error {
	c, err := a.Reader()
	if err != nil {
		return err
	}
	r, err := c.Run(ctx, run)
	if err != nil {
		return err
	}
	if task != "" && !slices.ContainsFunc(r.Tasks, func(t agon.TaskRef) bool { return t.Key == task }) {
		return &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: fmt.Sprintf("run %s has no task %s", run, task), Mend: "agon run view " + run + " lists its tasks"}
	}
	var events []agon.Event
	if err := a.eachEvent(ctx, run, false, func(e agon.Event) error { events = append(events, e); return nil }); err != nil {
		return err
	}
	m := trajectory.Meta{Run: run, Arena: r.Arena, Submission: r.Submission, Agent: r.Submission, Version: "unknown", Task: task}
	if s, err := c.Submission(ctx, r.Submission); err == nil {
		m.Agent, m.Version = s.Name, string(s.Digest)
	}
	if arena, err := c.Arena(ctx, r.Arena); err == nil {
		if f := s.Finals[arena.Kind]; f != nil { // others say nothing of how their agents end
			m.Kind, m.Rules = arena.Kind, f.Credit
		}
	}
	if form == formATIF {
		tasks := []string{task}
		if task == "" && len(r.Tasks) > 1 {
			tasks = nil
			for _, t := range r.Tasks {
				tasks = append(tasks, t.Key)
			}
		}
		docs, lines := []*trajectory.Document{}, []any{}
		for _, m.Task = range tasks {
			d, err := trajectory.ATIF(events, attempt, m)
			if err != nil {
				return err
			}
			docs, lines = append(docs, d), append(lines, d)
		}
		if len(docs) == 1 {
			if !a.Printer.Explicit {
				a.Printer.Format = output.JSON
			}
			return a.Printer.Print(ctx, output.Result{Value: docs[0]})
		}
		if !a.Printer.Explicit {
			a.Printer.Format = output.JSONL
		}
		return a.Printer.Print(ctx, output.Result{Value: docs, Rows: lines})
	}
	lines, err := trajectory.OpenAI(events, attempt, m)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(a.IO.Out, "%s\n", l); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// events prints the wanted events: an array for -o json, else as they come.
func (a *App) events(ctx context.Context, run string, follow bool, want func(agon.Event) bool) error {
	p := eventPrinter{a, true}
	list := []agon.Event{}
	err := a.eachEvent(ctx, run, follow, func(e agon.Event) error {
		switch {
		case !want(e):
			return nil
		case a.Printer.Format == output.JSON && !follow:
			list = append(list, e)
			return nil
		}
		return p.print(ctx, e)
	})
	if err != nil {
		return err
	}
	if a.Printer.Format == output.JSON && !follow {
		return a.Printer.Print(ctx, output.Result{Value: list})
	}
	return nil
}

// eventPage is how many events are asked for at once: one may hold a whole model reply.
const eventPage = 100

// eachEvent calls on for every event in order; with follow, until the run ends.
func (a *App) eachEvent(ctx context.Context, run string, follow bool, on func(agon.Event) error) error {
	c, err := a.Reader()
	if err != nil {
		return err
	}
	if follow {
		_, err := c.Stream(ctx, run, client.Cursor{}, on)
		return err
	}
	var at client.Cursor
	for {
		page, err := c.Events(ctx, run, at, eventPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for _, e := range page {
			if err := on(e); err != nil {
				return err
			}
		}
		next := client.CursorOf(page[len(page)-1])
		if !at.Before(next) {
			return errors.New("read events: the server repeats itself")
		}
		at = next
	}
}
