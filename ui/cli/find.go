package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
)

// maxFind bounds how many rows are read to find one by its ending.
const maxFind = 5000

// minEnding is the least of an identifier that is looked for.
const minEnding = 4

// fullID is the length of a whole identifier of a run or submission.
const fullID = 36

// found is a row that an ending may mean.
type found struct{ id, what string }

// oneOf returns the id that name begins or ends, among rows (newest first). kind
// is what they are, for the error.
func oneOf(kind, name string, rows []found) (string, error) {
	want := strings.TrimPrefix(name, "…")
	var fits []found
	for _, r := range rows {
		if r.id == want {
			return r.id, nil
		}
		if len(want) >= minEnding && (strings.HasSuffix(r.id, want) || strings.HasPrefix(r.id, want)) {
			fits = append(fits, r)
		}
	}
	switch len(fits) {
	case 1:
		return fits[0].id, nil
	case 0:
		return "", &agon.Error{Code: "not_found", Status: 404, Field: kind, Message: fmt.Sprintf("no %s %q", kind, plain.Line(name)), Mend: "agon " + kind + " list shows what there is; its ending (…8f3a61c2) is enough"}
	}
	newest := fits[0]
	return "", &agon.Error{
		Code: "ambiguous", Status: 422, Field: kind, Message: fmt.Sprintf("%q fits %d %ss; newest: …%s %s", plain.Line(name), len(fits), kind, newest.id[max(0, len(newest.id)-8):], newest.what),
		Mend: "give more of the id; its last eight characters are enough",
	}
}

// orAsItIs is oneOf; a name that nothing fits is left as it is, and the server
// says that it has no such thing.
func orAsItIs(kind, name string, rows []found) (string, error) {
	id, err := oneOf(kind, name, rows)
	if notFound(err) {
		return name, nil
	}
	return id, err
}

// runID finds the run that name means: its id, or the beginning or ending of it.
func (a *App) runID(ctx context.Context, c *client.Client, name string) (string, error) {
	if len(name) >= fullID && !strings.Contains(name, "/") {
		return name, nil
	}
	if strings.Contains(name, "/") {
		return a.runOf(ctx, c, name)
	}
	_, err := c.Run(ctx, name)
	if !notFound(err) {
		return name, nil // it is there, or the next read says what is wrong
	}
	runs, err := All(maxFind, func(o client.ListOptions) (*client.Page[client.Run], error) { return c.Runs(ctx, "", "", "", o) })
	if err != nil {
		return "", err
	}
	rows := make([]found, len(runs))
	for i, r := range runs {
		rows[i] = found{r.Run.Run, taskNames(r.Tasks)}
	}
	return orAsItIs("run", name, rows)
}

// runOf finds the only run of the submission ARENA/NAME; of several it says how to
// list them.
func (a *App) runOf(ctx context.Context, c *client.Client, name string) (string, error) {
	sub, err := a.submissionID(ctx, c, name)
	if err != nil {
		return "", err
	}
	runs, err := All(maxFind, func(o client.ListOptions) (*client.Page[client.Run], error) { return c.Runs(ctx, "", sub, "", o) })
	if err != nil {
		return "", err
	}
	switch len(runs) {
	case 1:
		return runs[0].Run.Run, nil
	case 0:
		return "", &agon.Error{Code: "not_found", Status: 404, Field: "run", Message: fmt.Sprintf("no run of a submission %q", plain.Line(name)), Mend: "`agon submission list` shows what there is"}
	}
	return "", &agon.Error{
		Code: "ambiguous", Status: 422, Field: "run", Message: fmt.Sprintf("submission %q has %d runs; newest: …%s", plain.Line(name), len(runs), runs[0].Run.Run[max(0, len(runs[0].Run.Run)-8):]),
		Mend: "choose one of `agon run list --submission " + sub + "`",
	}
}

// submissionID finds the submission that name means: its id, the beginning or
// ending of it, ARENA/NAME, whose newest is meant, or NAME where one arena has it.
func (a *App) submissionID(ctx context.Context, c *client.Client, name string) (string, error) {
	if len(name) >= fullID && !strings.Contains(name, "/") {
		return name, nil
	}
	arena, own, named := strings.Cut(name, "/")
	if !named {
		arena = ""
		if _, err := c.Submission(ctx, name); !notFound(err) {
			return name, nil
		}
	}
	subs, err := All(maxFind, func(o client.ListOptions) (*client.Page[client.Submission], error) {
		return c.Submissions(ctx, arena, "", o)
	})
	if err != nil {
		return "", err
	}
	rows := make([]found, len(subs))
	var newest, in []string // ids and arenas of those with the bare name
	for i, s := range subs {
		if named && s.Name == own {
			return s.ID, nil
		}
		if s.Name == name && !slices.Contains(in, s.Arena+"/"+name) {
			newest, in = append(newest, s.ID), append(in, s.Arena+"/"+name)
		}
		rows[i] = found{s.ID, s.Arena + "/" + s.Name}
	}
	id, err := orAsItIs("submission", name, rows)
	switch {
	case err != nil || id != name || len(in) == 0:
		return id, err
	case len(in) > 1:
		return "", &agon.Error{Code: "ambiguous", Status: 422, Field: "submission", Message: fmt.Sprintf("%d arenas have a submission %q", len(in), plain.Line(name)), Mend: "say which: " + plain.Line(strings.Join(in, ", "))}
	}
	return newest[0], nil
}

func notFound(err error) bool {
	var e *agon.Error
	return errors.As(err, &e) && e.Status == 404
}

// knownArena is nil where the server has the arena, or none was named: an empty
// list of an arena that is not there is a mistake, not an answer.
func knownArena(ctx context.Context, c *client.Client, arena string) error {
	if arena == "" {
		return nil
	}
	_, err := c.Arena(ctx, arena)
	return err
}

// wholeRun is runID with a client of its own.
func (a *App) wholeRun(ctx context.Context, name string) (string, error) {
	if len(name) >= fullID && !strings.Contains(name, "/") {
		return name, nil
	}
	c, err := a.Reader()
	if err != nil {
		return "", err
	}
	return a.runID(ctx, c, name)
}
