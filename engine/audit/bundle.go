// Package audit checks what a platform says of a run, a submission or a
// decision, from the seat to the scores to the statements to the bytes, with
// public keys only: from a server, or offline from a bundle.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/translog"
)

// Format names this form of a bundle.
const Format = "agon-bundle-1"

// Bundle is all that a stranger needs to check a submission or one of its runs.
type Bundle struct {
	Format     string                      `json:"format"`
	Server     client.Server               `json:"server"`
	Arena      client.Arena                `json:"arena"`
	Submission client.Submission           `json:"submission"`
	Runs       []Run                       `json:"runs"`
	Proofs     map[string]*client.LogProof `json:"proofs"` // by TYPE/ID
	Blobs      map[agon.Digest][]byte      `json:"blobs"`  // evidence: trees and their files
	Missing    []string                    `json:"missing,omitempty"`
	// Seeds is the set period of the submission; nil: the server shows none.
	Seeds *client.SeedPeriod `json:"seeds,omitempty"`
	// Later are the periods on whose sets the submission was played as one that sits.
	Later []client.SeedPeriod `json:"later,omitempty"`
	// Rivals are the incumbent's halves of the submission's pairs.
	Rivals []client.Run `json:"rivals,omitempty"`
}

// Run is a run with one attempt's evidence.
type Run struct {
	Run      client.Run     `json:"run"`
	Attempt  int            `json:"attempt"`
	Events   []agon.Event   `json:"events"`
	Receipts []agon.Receipt `json:"receipts"`
}

// Of returns the attempt that was bundled; nil: the run has none.
func (r *Run) Of() *agon.Attempt {
	for i := range r.Run.List {
		if r.Run.List[i].N == r.Attempt {
			return &r.Run.List[i]
		}
	}
	return nil
}

// Bounds of a bundle.
const (
	MaxBundle   = 1 << 30 // bytes of JSON
	maxRuns     = 2000
	maxFiles    = 1000      // of evidence, a run
	maxEvidence = 256 << 20 // bytes, a run
	eventPage   = 500
)

// Want says what to collect.
type Want struct {
	Submission string
	Run        string // this run alone; empty: all of the submission's
	Attempt    int    // 0: the counted one, else the last
	Evidence   bool   // files that a play left, too
}

// Collect reads a bundle from a server, as far as its reader may read. What it
// may not read is in Missing, and will be unchecked.
func Collect(ctx context.Context, c *client.Client, w Want) (*Bundle, error) {
	b := &Bundle{Format: Format, Proofs: map[string]*client.LogProof{}, Blobs: map[agon.Digest][]byte{}}
	s, err := c.Server(ctx)
	if err != nil {
		return nil, err
	}
	b.Server = *s
	var runs []client.Run
	if w.Run != "" {
		r, err := c.Run(ctx, w.Run)
		if err != nil {
			return nil, err
		}
		runs, w.Submission = []client.Run{*r}, r.Submission
	}
	sub, err := c.Submission(ctx, w.Submission)
	if err != nil {
		return nil, err
	}
	b.Submission = *sub
	a, err := c.Arena(ctx, sub.Arena)
	if err != nil {
		return nil, err
	}
	b.Arena = *a
	for at := ""; w.Run == ""; {
		page, err := c.Runs(ctx, sub.Arena, sub.ID, "", client.ListOptions{Cursor: at, Limit: 200})
		if err != nil {
			return nil, err
		}
		for _, r := range page.Items {
			full, err := c.Run(ctx, r.RunSpec.Run)
			if err != nil {
				return nil, err
			}
			runs = append(runs, *full)
		}
		if len(runs) > maxRuns {
			return nil, fmt.Errorf("collect bundle: over %d runs", maxRuns)
		}
		if at = page.Next; at == "" {
			break
		}
	}
	if err := b.prove(ctx, c, translog.TypeSubmission, sub.ID); err != nil {
		return nil, err
	}
	if sub.Decision != nil {
		if err := b.prove(ctx, c, translog.TypeDecision, sub.ID); err != nil {
			return nil, err
		}
	}
	if err := b.collectSeeds(ctx, c); err != nil {
		return nil, err
	}
	if d := sub.Decision; w.Run == "" && d != nil && d.Rule == incentive.PairedRule && d.Incumbent != "" {
		if err := b.collectRivals(ctx, c, d.Incumbent); err != nil {
			return nil, err
		}
	}
	for _, r := range runs {
		x := Run{Run: r, Attempt: attemptOf(r, w.Attempt)}
		if x.Attempt == 0 {
			if w.Attempt > 0 {
				return nil, &agon.Error{Code: "not_found", Status: 404, Field: "attempt", Message: "the run has no such attempt", Mend: "agon run view " + r.RunSpec.Run + " lists them"}
			}
			if r.State == agon.RunScored {
				b.Runs = append(b.Runs, x) // which the check names: a score without an attempt
			}
			continue // never leased
		}
		if err := b.collectRun(ctx, c, &x, w.Evidence); err != nil {
			return nil, err
		}
		b.Runs = append(b.Runs, x)
	}
	if err := b.collectLater(ctx, c); err != nil {
		return nil, err
	}
	return b, b.collectHidden(ctx, c)
}

// collectSeeds reads what is known of the seeds of the submission's runs.
func (b *Bundle) collectSeeds(ctx context.Context, c *client.Client) error {
	if b.Submission.Beacon == nil {
		return nil
	}
	list, err := c.Seeds(ctx, b.Arena.ID)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == 404 {
		return nil // a server of before
	}
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Period != b.Submission.Beacon.Period {
			continue
		}
		b.Seeds = &p
		if err := b.prove(ctx, c, translog.TypeSeeds, translog.SeedsID(translog.TypeSeeds, p.Arena, p.Period)); err != nil || p.Secret == "" {
			return err
		}
		return b.prove(ctx, c, translog.TypeReveal, translog.SeedsID(translog.TypeReveal, p.Arena, p.Period))
	}
	return nil
}

// collectLater reads what is known of the periods on whose sets the submission was
// played after it had taken a seat.
func (b *Bundle) collectLater(ctx context.Context, c *client.Client) error {
	want := map[int64]bool{}
	for _, r := range b.Runs {
		if t := r.Run.Title; t != nil {
			want[t.Period] = true
		}
	}
	if len(want) == 0 {
		return nil
	}
	list, err := c.Seeds(ctx, b.Arena.ID)
	if err != nil {
		return err
	}
	for _, p := range list {
		if !want[p.Period] {
			continue
		}
		b.Later = append(b.Later, p)
		if err := b.prove(ctx, c, translog.TypeSeeds, translog.SeedsID(translog.TypeSeeds, p.Arena, p.Period)); err != nil {
			return err
		}
		if p.Secret == "" {
			continue
		}
		if err := b.prove(ctx, c, translog.TypeReveal, translog.SeedsID(translog.TypeReveal, p.Arena, p.Period)); err != nil {
			return err
		}
	}
	return nil
}

// collectRivals reads the incumbent's halves of the submission's pairs.
func (b *Bundle) collectRivals(ctx context.Context, c *client.Client, incumbent string) error {
	for at := ""; ; {
		page, err := c.Runs(ctx, b.Arena.ID, incumbent, "", client.ListOptions{Cursor: at, Limit: 200})
		if err != nil {
			return err
		}
		for _, r := range page.Items {
			if r.Rival == nil || r.Rival.Submission != b.Submission.ID {
				continue
			}
			full, err := c.Run(ctx, r.RunSpec.Run)
			if err != nil {
				return err
			}
			b.Rivals = append(b.Rivals, *full)
		}
		if len(b.Rivals) > maxRuns {
			return fmt.Errorf("collect bundle: over %d runs of the incumbent", maxRuns)
		}
		if at = page.Next; at == "" {
			return nil
		}
	}
}

// attemptOf finds the attempt to look at: the one named, the counted one, the last.
func attemptOf(r client.Run, n int) (out int) {
	counted := false
	for _, t := range r.List {
		if n == t.N {
			return n
		}
		if n == 0 && !counted {
			out, counted = t.N, t.Counted
		}
	}
	return out
}

// prove fetches a proof. A fact that the log does not have is missing, as on a
// server without a log.
func (b *Bundle) prove(ctx context.Context, c *client.Client, typ, id string) error {
	p, err := c.LogProof(ctx, typ, id)
	if err == nil {
		b.Proofs[typ+"/"+id] = p
		return nil
	}
	var e *agon.Error
	if errors.As(err, &e) && e.Status == 404 {
		b.Missing = append(b.Missing, "proof of "+typ+" "+id)
		return nil
	}
	return err
}

func (b *Bundle) collectRun(ctx context.Context, c *client.Client, x *Run, evidence bool) error {
	id := x.Run.RunSpec.Run
	for at := (client.Cursor{Attempt: x.Attempt - 1, Seq: 1 << 60}); ; {
		page, err := c.Events(ctx, id, at, eventPage)
		if err != nil {
			return err
		}
		for _, e := range page {
			at = client.Cursor{Attempt: e.Attempt, Seq: e.Seq}
			if e.Attempt == x.Attempt {
				x.Events = append(x.Events, e)
			}
		}
		if len(page) == 0 || at.Attempt > x.Attempt {
			break
		}
	}
	var denied *agon.Error
	var err error
	if x.Receipts, err = c.Receipts(ctx, id, x.Attempt); errors.As(err, &denied) && (denied.Status == 403 || denied.Status == 404) {
		b.Missing = append(b.Missing, "receipts of run "+id)
	} else if err != nil {
		return err
	}
	if err := b.prove(ctx, c, translog.TypeResult, id+"/"+strconv.Itoa(x.Attempt)); err != nil {
		return err
	}
	t := x.Of()
	if !evidence || t == nil || t.Evidence == "" {
		return nil
	}
	printed, err := b.collectTree(ctx, c, t.Evidence, slices.Contains(x.Run.Gone, agon.GoneOutput))
	if printed > 0 {
		b.Missing = append(b.Missing, fmt.Sprintf("%d files that boxes of run %s printed, which the server has removed since their time was over", printed, id))
	}
	if errors.As(err, &denied) && (denied.Status == 403 || denied.Status == 404) {
		b.Missing = append(b.Missing, "evidence of run "+id)
		return nil
	}
	return err
}

// collectTree fetches a tree and its files, each compared with its digest. Files may be
// missing where spare says so; it returns how many are.
func (b *Bundle) collectTree(ctx context.Context, c *client.Client, d agon.Digest, spare bool) (missing int, err error) {
	get := func(d agon.Digest) ([]byte, error) {
		if x, ok := b.Blobs[d]; ok {
			return x, nil
		}
		x, err := c.Blob(ctx, d)
		if err == nil {
			b.Blobs[d] = x
		}
		return x, err
	}
	raw, err := get(d)
	if err != nil {
		return 0, err
	}
	m, err := manifest(raw)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, f := range m.Files {
		if f.Mode == "link" {
			continue
		}
		x, err := get(f.Digest)
		var denied *agon.Error
		if spare && errors.As(err, &denied) && denied.Status == 404 {
			missing++
			continue
		}
		if err != nil {
			return missing, err
		}
		if total += len(x); total > maxEvidence {
			return missing, fmt.Errorf("read evidence: larger than %d bytes", maxEvidence)
		}
	}
	return missing, nil
}

func manifest(raw []byte) (blob.Manifest, error) {
	var m blob.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("read evidence: %w", err)
	}
	if len(m.Files) > maxFiles {
		return m, fmt.Errorf("read evidence: more than %d files", maxFiles)
	}
	return m, nil
}

// Evidence returns the files that a run's attempt left, each compared with its digest. Those
// that boxes printed may be missing, where the run says that they are gone.
func (b *Bundle) Evidence(r *Run) (map[string][]byte, error) {
	spare := slices.Contains(r.Run.Gone, agon.GoneOutput)
	get := func(d agon.Digest) ([]byte, error) {
		x, ok := b.Blobs[d]
		if !ok {
			return nil, fmt.Errorf("read evidence: %s is not in the bundle", d)
		}
		if agon.Sum(x) != d {
			return nil, fmt.Errorf("read evidence: %s does not have its digest", d)
		}
		return x, nil
	}
	raw, err := get(r.Of().Evidence)
	if err != nil {
		return nil, err
	}
	m, err := manifest(raw)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(m.Files))
	for _, f := range m.Files {
		if f.Mode == "link" {
			continue
		}
		if _, ok := b.Blobs[f.Digest]; !ok && spare {
			continue
		}
		if out[f.Path], err = get(f.Digest); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Read reads a bundle of at most MaxBundle bytes that somebody has sent.
func Read(r io.Reader) (*Bundle, error) {
	l := &io.LimitedReader{R: r, N: MaxBundle + 1}
	var b Bundle
	d := json.NewDecoder(l)
	if err := d.Decode(&b); err != nil {
		if l.N <= 0 {
			return nil, &agon.Error{Code: "too_large", Status: 422, Field: "bundle", Limit: "1 GiB", Message: "the bundle is larger than 1 GiB"}
		}
		return nil, &agon.Error{Code: "bad_bundle", Status: 422, Field: "bundle", Message: "the file is not a bundle: " + err.Error(), Mend: "agon export RUN --bundle FILE writes one"}
	}
	if b.Format != Format {
		return nil, &agon.Error{Code: "bad_bundle", Status: 422, Field: "format", Message: fmt.Sprintf("the bundle's format is %.40q, this program reads %q", b.Format, Format)}
	}
	if len(b.Rivals) > maxRuns {
		return nil, &agon.Error{Code: "too_large", Status: 422, Field: "rivals", Limit: strconv.Itoa(maxRuns), Message: fmt.Sprintf("the bundle has %d runs of the incumbent", len(b.Rivals))}
	}
	if len(b.Runs) > maxRuns {
		return nil, &agon.Error{Code: "too_large", Status: 422, Field: "runs", Limit: strconv.Itoa(maxRuns), Message: fmt.Sprintf("the bundle has %d runs", len(b.Runs))}
	}
	for k, p := range b.Proofs {
		if p == nil {
			delete(b.Proofs, k)
		}
	}
	return &b, nil
}
