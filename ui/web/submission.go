package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// runRow is one run in a list.
type runRow struct {
	client.Run
	Task  string // its only task, or how many
	Value *float64
	Took  int64 // ms, of runs that ended
}

func rowOf(r client.Run) runRow {
	out := runRow{Run: r, Task: plain.Count(len(r.Tasks), "task")}
	if len(r.Tasks) == 1 {
		out.Task = r.Tasks[0].Key
	}
	if len(r.Scores) > 0 {
		sum := 0.0
		for _, s := range r.Scores {
			sum += s.Value
		}
		v := sum / float64(len(r.Scores))
		out.Value = &v
	}
	if !r.EndedAt.IsZero() {
		from := r.CreatedAt
		if n := len(r.List); n > 0 { // what it waited in the queue is not its time
			from = r.List[n-1].LeasedAt
		}
		out.Took = r.EndedAt.Sub(from).Milliseconds()
	}
	return out
}

// fileView is one file of a submission, cut to what a page can hold.
type fileView struct {
	Path   string
	Size   int
	Text   string
	Binary bool
	Patch  bool // shown as one
	More   bool
}

// diffView is what changed against another submission.
type diffView struct {
	Against string // its id
	Name    string
	What    string // "the champion", "its predecessor"
	Lines   []diffLine
	More    bool
	Shared  float64 // part of this submission's lines that stand in the other, 0..1
	Paired  *versus // nil: it has not been played
}

// findingView is a finding; Other is the submission that it is about, with its name.
type findingView struct {
	agon.Finding
	Other, Name string
}

type diffLine struct {
	Class string // add, del, at, ""
	Text  string
}

const (
	maxDiffLines = 2000
	maxDiffInput = 512 << 10
	runsPage     = 200
)

func (s *server) submission(q *request) error {
	ctx := q.Context()
	sub, err := s.cfg.Platform.Submission(ctx, q.caller, q.PathValue("id"))
	if err != nil {
		return err
	}
	a, err := s.cfg.Platform.Arena(ctx, sub.Arena)
	if err != nil {
		return err
	}
	data := struct {
		base
		Sub      *client.Submission
		Arena    *client.Arena
		Findings []findingView
		Files    []fileView
		Withheld string // why there are no files
		Diffs    []diffView
		// Incumbent is the name of whom it was decided against; Champion: it sits itself.
		Incumbent string
		Champion  bool
		Runs      []runRow
		MoreRuns  string
		Band      *score.Band
		Public    *float64
		Reward    string
		Waits     string          // why the arena decides nothing yet
		Ousted    string          // that it took a seat and sits no more
		Zeros     []client.Reason // why tasks scored 0, most frequent first
		Faults    map[agon.Fault]int
		Measured  string    // its metric, where a replay measured one
		Next      *nextStep // where it could gain; nil: nowhere, or it is the champion
		Matrix    *Matrix   // of it and those that it is compared with
		Start     string    // the command that begins an entry, where no template does
	}{base: q.base(sub.Name, sub.Arena), Sub: sub, Arena: a, Reward: rewardOf(a.Seats, sub.ID), Waits: a.Withholds(sub), Start: s.cfg.start(a.Arena), Faults: map[agon.Fault]int{}}
	if sub.State == agon.SubmissionQueued || sub.State == agon.SubmissionPlaying {
		data.Live = "/live?arena=" + a.ID
	}
	page, err := s.cfg.Platform.Runs(ctx, q.caller, "", sub.ID, "", q.URL.Query().Get("runs"), runsPage)
	if err != nil {
		return err
	}
	data.MoreRuns = page.Next
	for _, r := range page.Items {
		data.Runs = append(data.Runs, rowOf(r))
		if r.Fault != agon.FaultNone {
			data.Faults[r.Fault]++
		}
	}
	if data.Findings, err = s.findings(ctx, sub.Findings); err != nil {
		return err
	}
	data.Zeros, data.Measured = client.Zeros(page.Items), ledIn(sub)
	data.Champion = a.Champion != nil && a.Champion.Submission == sub.ID
	if data.Ousted, err = s.ousted(ctx, q, sub, *a); err != nil {
		return err
	}
	if d := sub.Decision; d != nil && d.Incumbent != "" {
		if in, err := s.cfg.Platform.Submission(ctx, q.caller, d.Incumbent); err == nil {
			data.Incumbent = in.Name
		}
	}
	others := []struct{ id, what string }{}
	if a.Champion != nil && a.Champion.Submission != sub.ID {
		others = append(others, struct{ id, what string }{a.Champion.Submission, "the champion"})
	}
	if before, err := s.predecessor(ctx, q, sub); err != nil {
		return err
	} else if before != "" && (len(others) == 0 || before != others[0].id) {
		others = append(others, struct{ id, what string }{before, "its predecessor"})
	}
	ids := []string{sub.ID}
	for _, o := range others {
		ids = append(ids, o.id)
	}
	values, err := s.cfg.Platform.Values(ctx, ids)
	if err != nil {
		return err
	}
	if sub.Score != nil {
		data.Band, data.Public = platform.BandOf(a.Arena, sub.Score, sub.Total, values[sub.ID])
	}
	if sub.Score != nil && !data.Champion {
		champion := ""
		if a.Champion != nil {
			champion = a.Champion.Submission
		}
		data.Next = nextOf(a.Arena, sub, values[sub.ID], values[champion], page.Items)
	}
	files, err := s.cfg.Platform.SubmissionFiles(ctx, q.caller, sub.ID)
	if refused := denied(err); refused != nil {
		data.Withheld = unpublished(sub.State)
	} else if err != nil {
		if ctx.Err() != nil {
			return err
		}
		// What was decided is told all the same.
		s.cfg.Log.ErrorContext(ctx, "files of a submission cannot be read", "submission", sub.ID, "err", err)
		data.Withheld = "its files cannot be read at the moment"
	}
	for _, f := range files {
		data.Files = append(data.Files, viewFile(f))
	}
	rows := []boardRow{{Submission: *sub, Champion: data.Champion}}
	for _, o := range others {
		d := diffView{Against: o.id, What: o.what}
		other, err := s.cfg.Platform.Submission(ctx, q.caller, o.id)
		if err != nil {
			return err
		}
		d.Name = other.Name
		rows = append(rows, boardRow{Submission: *other, Champion: a.Champion != nil && a.Champion.Submission == o.id})
		if len(values[sub.ID]) > 0 {
			v := versusOf(a.Arena, sub, other, values)
			d.Paired = &v
		}
		theirs, err := s.cfg.Platform.SubmissionFiles(ctx, q.caller, o.id)
		if denied(err) == nil && err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.cfg.Log.ErrorContext(ctx, "files of a submission cannot be read", "submission", o.id, "err", err)
		}
		if len(files) > 0 && err == nil {
			d.Lines, d.More = diffFiles(theirs, files)
			d.Shared = sharedLines(files, theirs)
		}
		data.Diffs = append(data.Diffs, d)
	}
	data.Matrix = matrixOf(rows, values, 1)
	return s.render(q, http.StatusOK, "submission", data)
}

// unpublished says why there are no files.
func unpublished(s agon.SubmissionState) string {
	switch s {
	case agon.SubmissionRefused, agon.SubmissionExcluded:
		return fmt.Sprintf("Files of %s submissions are not published.", s)
	}
	return "Its files are not public while it is " + string(s) + "."
}

// submissionID is the id of a submission, as findings name one.
var submissionID = lazyregexp.New(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)

// findings name the submissions that they are about by their names.
func (s *server) findings(ctx context.Context, list []agon.Finding) ([]findingView, error) {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.Message
	}
	texts, names, err := s.named(ctx, texts)
	out := make([]findingView, len(list))
	for i, f := range list {
		out[i] = findingView{Finding: f}
		out[i].Message = texts[i]
		if name := names[f.Field]; name != "" {
			out[i].Other, out[i].Name = f.Field, name
		}
	}
	return out, err
}

// named puts names in place of the ids of submissions in texts.
func (s *server) named(ctx context.Context, texts []string) ([]string, map[string]string, error) {
	var ids []string
	for _, t := range texts {
		ids = append(ids, submissionID().FindAllString(t, -1)...)
	}
	if len(ids) == 0 {
		return texts, nil, nil
	}
	names, err := s.cfg.Platform.Names(ctx, ids)
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = submissionID().ReplaceAllStringFunc(t, func(id string) string { return cmp.Or(names[id], id) })
	}
	return out, names, err
}

// denied returns err if it is a refusal to show something.
func denied(err error) *agon.Error {
	var e *agon.Error
	if errors.As(err, &e) && (e.Status == http.StatusForbidden || e.Status == http.StatusNotFound) {
		return e
	}
	return nil
}

// predecessor finds the miner's last submission before this one.
func (s *server) predecessor(ctx context.Context, q *request, sub *client.Submission) (string, error) {
	page, err := s.cfg.Platform.Submissions(ctx, q.caller, sub.Arena, sub.Miner, strconv.FormatInt(sub.Seq, 36), 1)
	if err != nil || len(page.Items) == 0 {
		return "", err
	}
	return page.Items[0].ID, nil
}

const maxShownFile = 64 << 10

func viewFile(f client.File) fileView {
	v := fileView{Path: f.Path, Size: len(f.Content), Patch: strings.HasSuffix(f.Path, ".diff") || strings.HasSuffix(f.Path, ".patch")}
	if !utf8.Valid(f.Content) {
		v.Binary = true
		return v
	}
	v.Text, v.More = text(string(f.Content), maxShownFile)
	return v
}

// lineClass colours a line of a unified difference.
func lineClass(l string) string {
	switch {
	case strings.HasPrefix(l, "diff "), strings.HasPrefix(l, "--- "), strings.HasPrefix(l, "+++ "), strings.HasPrefix(l, "@@"):
		return "at"
	case strings.HasPrefix(l, "+"):
		return "add"
	case strings.HasPrefix(l, "-"):
		return "del"
	}
	return ""
}

// patchLines are the lines of a patch as a page shows them.
func patchLines(patch string) (out []diffLine) {
	t, more := text(patch, maxShownFile)
	for l := range strings.Lines(t) {
		if len(out) >= maxDiffLines {
			more = true
			break
		}
		l = strings.TrimSuffix(l, "\n")
		out = append(out, diffLine{lineClass(l), l})
	}
	if more {
		out = append(out, diffLine{"at", "the rest is left out"})
	}
	return out
}

// diffFiles is the unified difference of two sets of files, old to new.
func diffFiles(old, now []client.File) (out []diffLine, more bool) {
	was := map[string][]byte{}
	for _, f := range old {
		was[f.Path] = f.Content
	}
	budget := maxDiffInput
	one := func(path string, a, b []byte) {
		if string(a) == string(b) || more {
			return
		}
		if budget -= len(a) + len(b); budget < 0 {
			more = true
			return
		}
		if !utf8.Valid(a) || !utf8.Valid(b) {
			out = append(out, diffLine{"at", path + ": not text, and different"})
			return
		}
		for l := range strings.Lines(string(diff.Diff(path, a, path, b))) {
			if len(out) >= maxDiffLines {
				more = true
				return
			}
			d := diffLine{Class: lineClass(l)}
			d.Text, _ = text(strings.TrimSuffix(l, "\n"), maxLine)
			out = append(out, d)
		}
	}
	for _, f := range now {
		one(f.Path, was[f.Path], f.Content)
		delete(was, f.Path)
	}
	for _, f := range old { // in the order given, not the map's
		if gone, ok := was[f.Path]; ok {
			one(f.Path, gone, nil)
		}
	}
	return out, more
}

// sharedLines is the part of the lines of a, blanks aside, that stand in b.
func sharedLines(a, b []client.File) float64 {
	have := map[string]bool{}
	for _, f := range b {
		for l := range strings.Lines(string(f.Content)) {
			have[strings.TrimSpace(l)] = true
		}
	}
	n, same := 0, 0
	for _, f := range a {
		for l := range strings.Lines(string(f.Content)) {
			if l = strings.TrimSpace(l); l == "" {
				continue
			}
			n++
			if have[l] {
				same++
			}
		}
	}
	if n == 0 {
		return 0
	}
	return float64(same) / float64(n)
}

// file hands one file over as a download: never as something to show.
func (s *server) file(q *request) error {
	path := q.URL.Query().Get("path")
	files, err := s.cfg.Platform.SubmissionFiles(q.Context(), q.caller, q.PathValue("id"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Path != path {
			continue
		}
		q.w.Header().Set("Content-Type", "application/octet-stream")
		q.w.Header().Set("Content-Disposition", `attachment; filename="`+safeName(path)+`"`)
		q.w.Header().Set("Content-Length", strconv.Itoa(len(f.Content)))
		_, _ = q.w.Write(f.Content) // the client is gone if this fails
		return nil
	}
	return &agon.Error{Code: "not_found", Status: 404, Field: "path", Message: "This submission has no such file."}
}

func safeName(path string) string {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, base)
}
