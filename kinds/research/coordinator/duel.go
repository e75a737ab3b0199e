package coordinator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// The wire has no word for a duel: its validators replay one submission a job.
// So a duel is one lease with two jobs a pair, one for either side, on one seed
// and for one validator, whose numbers together are the result of the run. The
// jobs look like any other.

// Sides of a pair.
const (
	sideChallenger = "c"
	sideIncumbent  = "i"
)

// duelJob is what a job of a duel knows besides a job.
type duelJob struct {
	Lease string `json:"lease"`
	Pairs int    `json:"pairs"`
	Pair  int    `json:"pair"`
	Side  string `json:"side"`
	Seed  int64  `json:"seed"`
	// Files is the tree that this side replays; empty: the base.
	Files string `json:"files"`
}

// duelJobID names the job of one side of a pair. Who plays it learns nothing of
// the side: the lease's token, which no foreign validator gets, is in the hash.
func duelJobID(lease, token string, pair int, side string) string {
	h := sha256.Sum256([]byte(strings.Join([]string{"agon duel job", token, lease, strconv.Itoa(pair), side}, "\x00")))
	return lease + "." + hex.EncodeToString(h[:10])
}

// duelJobs makes the jobs of a leased duel, in the order in which they should
// be done: which side goes first is as good as drawn.
func duelJobs(t *task, l *client.Lease) []store.Doc {
	var out []store.Doc
	pairs := max(1, l.Run.Rival.Pairs)
	for i := range pairs {
		sides := []string{sideChallenger, sideIncumbent}
		slices.SortFunc(sides, func(a, b string) int {
			return strings.Compare(duelJobID(l.ID, l.Token, i, a), duelJobID(l.ID, l.Token, i, b))
		})
		for _, side := range sides {
			j := storedJob{Token: l.Token, Run: l.Run.Run, Expires: Time{l.Until}, Duel: &duelJob{
				Lease: l.ID, Pairs: pairs, Pair: i, Side: side, Seed: kr.DuelSeed(t.digest, l.Run, i), Files: string(l.Submission.Digest),
			}}
			of := l.Submission.ID
			if side == sideIncumbent {
				j.Duel.Files = string(l.Run.Rival.Digest)
				if l.Run.Rival.Submission != "" {
					of = l.Run.Rival.Submission
				}
			}
			body, err := encode(j)
			if err != nil {
				return nil // texts and numbers only
			}
			out = append(out, store.Doc{ID: duelJobID(l.ID, l.Token, i, side), Ref: of, Body: body})
		}
	}
	return out
}

// settleDuel reports a duel to the engine when all of its jobs are answered.
// Doing it again changes nothing.
func (c *Coordinator) settleDuel(ctx context.Context, t *task, hotkey string, one storedJob) error {
	d := one.Duel
	var run store.Run
	jobs := map[string]storedJob{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if run, err = tx.Run(one.Run); err != nil {
			return err
		}
		for i := range d.Pairs {
			for _, side := range []string{sideChallenger, sideIncumbent} {
				id := duelJobID(d.Lease, one.Token, i, side)
				row, err := tx.Doc(tableJobs, id)
				if err != nil {
					return err
				}
				if jobs[id], err = decode[storedJob](row); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.Status == "" {
			return nil
		}
	}
	_, err = c.cfg.Platform.Result(ctx, platform.Caller{Hotkey: hotkey, Wire: "bitsota"}, d.Lease, duelResult(t, one.Token, run.Tasks[0].Key, d, jobs))
	return err
}

// duelResult is a duel's result in the engine's words. A challenger that gave
// no number once has no pairs; a pair whose incumbent gave none is left out.
func duelResult(t *task, token, key string, d *duelJob, jobs map[string]storedJob) client.Result {
	status, observed := kr.StatusAccepted, map[string]float64{}
	var pairs []quorum.Pair
	for i := range d.Pairs {
		ch, in := jobs[duelJobID(d.Lease, token, i, sideChallenger)], jobs[duelJobID(d.Lease, token, i, sideIncumbent)]
		if ch.Status != kr.StatusAccepted {
			return engineResult(t, token, key, ch.Status, nil)
		}
		if i == 0 {
			observed = ch.Observed
		}
		if in.Status == kr.StatusAccepted {
			name, second := t.pub.MetricName, t.pub.SecondaryMetricName
			pairs = append(pairs, quorum.Pair{Challenger: ch.Observed[name], Incumbent: in.Observed[name], Challenger2: ch.Observed[second], Incumbent2: in.Observed[second]})
		}
	}
	r := engineResult(t, token, key, status, observed)
	maps.Copy(r.Scores[0].Metrics, kr.PairMetrics(pairs))
	return r
}

// duelRows lists the answered jobs of duels in which a submission was a side.
func duelRows(tx *store.Tx, t *task, submission string) ([]Verification, error) {
	rows, err := tx.Docs(tableJobs, store.DocFilter{Ref: submission, Oldest: true, Limit: MaxLimit})
	if err != nil {
		return nil, err
	}
	var out []Verification
	for _, r := range rows {
		j, err := decode[storedJob](r)
		if err != nil {
			return nil, err
		}
		if j.Duel == nil {
			continue
		}
		at, err := tx.AttemptByLease(j.Duel.Lease)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v := Verification{
			ID: r.ID, Submission: submission, TaskID: t.id, Validator: r.Owner, Duel: true, Counted: at.Counted, Late: at.Late, Trust: 1, Run: j.Run, Driver: at.Driver.Name,
			CreatedAt: Time{r.At}, ExpiresAt: j.Expires, Status: VerificationPending, Observed: map[string]float64{}, Notes: j.Notes,
		}
		switch {
		case j.Status != "":
			v.Status, v.Observed, v.EndedAt = j.Status, j.Observed, j.Ended
		case !at.Live():
			v.Status = VerificationExpired
		}
		out = append(out, v)
	}
	return out, nil
}

// basePatch is a patch that changes nothing of a base: it replaces the first
// line of a text that may be changed by itself. The wire's validators refuse
// an empty patch, so this is how they replay the base. Empty where no text
// fits: then duels with the base are for agon's own validators.
func basePatch(base *surface.Tree, rule surface.Rule) string {
	if base == nil {
		return ""
	}
	for _, name := range base.Names() {
		f, ok := base.File(name)
		if !ok || f.Mode != surface.ModeFile || f.Size > 1<<20 || !plainName(name) || !surface.Match(rule.Style, rule.Allowed, name) {
			continue
		}
		data, err := f.Read()
		if err != nil || len(data) == 0 || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			continue
		}
		if p := samePatch(name, string(data)); len(p) <= rule.MaxBytes {
			return p
		}
	}
	return ""
}

// plainName reports whether git writes a name as it is.
func plainName(name string) bool {
	for _, r := range name {
		if r <= ' ' || r > '~' || r == '"' || r == '\\' {
			return false
		}
	}
	return true
}

// samePatch replaces the first line of a text by itself, with the context that
// git wants behind it.
func samePatch(name, text string) string {
	const context = 3
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	lines = lines[:min(len(lines), 1+context)]
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1,%[2]d +1,%[2]d @@\n", name, len(lines))
	put := func(sign, line string) {
		b.WriteString(sign + line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
	put("-", lines[0])
	put("+", lines[0])
	for _, l := range lines[1:] {
		put(" ", l)
	}
	return b.String()
}

// wireArenas are the arenas whose tasks the wire's validators can replay, by
// whether they can make their duels too. Hidden data and programs in boxes of
// their own need agon's own validators.
func (c *Coordinator) wireArenas(ctx context.Context, only string) (withDuels, without []string, err error) {
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		for _, t := range c.list() {
			if only != "" && t.id != only || t.ownOnly || t.pub.CompetitionMode == kr.ModePeer || t.pub.CompetitionMode == kr.ModeSelfValidation {
				continue
			}
			best, err := lastRecord(tx, t.id)
			if err != nil {
				return err
			}
			if t.same != "" || best != nil {
				withDuels = append(withDuels, t.arena)
			} else {
				without = append(without, t.arena)
			}
		}
		return nil
	})
	slices.Sort(withDuels)
	slices.Sort(without)
	return withDuels, without, err
}

// hideOutcome makes a decided submission look like one that waits, for who replays it again.
func hideOutcome(s *Submission) {
	s.Status, s.Reason, s.Observed, s.Best, s.OverClaim, s.Replays, s.DuplicateOf = kr.StatusPending, "", nil, nil, nil, nil, nil
}
