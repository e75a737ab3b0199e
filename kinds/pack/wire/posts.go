package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/folder"
)

// posts is what validators posted: heartbeats, reports and archives. All of it
// is on disk before it is answered, and read again at the start.
type posts struct {
	mu     sync.Mutex // guards below
	beats  map[string]beat
	scores map[string]*posted // by document
	logs   []*upload          // oldest first
	held   int64              // bytes of logs
}

// Bounds of what is kept of posts.
const (
	maxScores    = 20_000
	maxLogs      = 20_000
	maxOf        = 2_000 // reports of one validator, and archives
	beatEvery    = time.Minute
	uploadPrefix = "upload."
	archiveExt   = ".tar.gz"
)

// beat is a validator's last heartbeat.
type beat struct {
	Hotkey   string    `json:"hotkey"`
	Version  string    `json:"version"`
	Model    string    `json:"llm_model"`
	Bench    string    `json:"bench_version"`
	Seen     time.Time `json:"seen"`
	LastEval time.Time `json:"last_eval,omitzero"`
	written  time.Time
}

// posted is a report that a validator posted.
type posted struct {
	Validator string           `json:"validator"`
	Miner     string           `json:"miner"`
	Hash      string           `json:"pack_hash"`
	Block     int64            `json:"block"`
	Score     float64          `json:"score"`
	Cost      *float64         `json:"cost"`
	Weight    float64          `json:"weight"`
	Qualified bool             `json:"qualified"`
	Rejected  bool             `json:"rejected"`
	Stage     string           `json:"stage"`
	Detail    string           `json:"detail"`
	Model     string           `json:"model"`
	At        time.Time        `json:"at"`
	Signed    int64            `json:"signed"` // the second that its signature names
	Scenarios []postedScenario `json:"scenarios"`
}

type postedScenario struct {
	Name      string   `json:"name"`
	Score     float64  `json:"score"`
	Weight    float64  `json:"weight"`
	Qualified bool     `json:"qualified"`
	Cost      *float64 `json:"cost"`
}

// upload is an archive that a validator uploaded.
type upload struct {
	ID        string    `json:"id"`
	Validator string    `json:"validator"`
	EvalID    string    `json:"eval_id"`
	Type      string    `json:"type"`
	Miner     string    `json:"miner"`
	Hash      string    `json:"pack_hash"`
	Block     int64     `json:"block"`
	Size      int64     `json:"size"`
	At        time.Time `json:"at"`
	// Digest names its bytes; "": there are none any more.
	Digest agon.Digest `json:"digest,omitempty"`
}

// load reads what was posted before this start.
func (p *posts) load(ctx context.Context, b *Backend) error {
	p.beats, p.scores = map[string]beat{}, map[string]*posted{}
	if err := errors.Join(
		folder.Load(b.dir, "beat-", func(_ string, x beat) { p.beats[x.Hotkey] = x }),
		folder.Load(b.dir, "score-", func(name string, x *posted) { p.scores[name] = x }),
		folder.Load(b.dir, uploadPrefix, func(_ string, x *upload) { p.logs, p.held = append(p.logs, x), p.held+x.Size }),
	); err != nil {
		return err
	}
	slices.SortFunc(p.logs, func(x, y *upload) int { return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.ID, y.ID)) })
	return p.takeOver(ctx, b)
}

// takeOver brings archives that an older program kept as files to the other bytes, and drops
// files that no document names.
func (p *posts) takeOver(ctx context.Context, b *Backend) error {
	list, err := filepath.Glob(filepath.Join(b.cfg.Dir, uploadPrefix+"*"+archiveExt))
	if err != nil {
		return fmt.Errorf("list archives: %w", err)
	}
	for _, path := range list {
		name := strings.TrimSuffix(filepath.Base(path), archiveExt)
		if i := slices.IndexFunc(p.logs, func(u *upload) bool { return u.ID == name }); i >= 0 && p.logs[i].Digest == "" {
			content, err := os.ReadFile(path)
			if err == nil {
				err = b.store(ctx, p.logs[i], operator, content)
			}
			if err != nil {
				return fmt.Errorf("take over archive %s: %w", name, err)
			}
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("drop archive %s: %w", name, err)
		}
	}
	return nil
}

func (p *posts) beatsNow() map[string]beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]beat, len(p.beats))
	for k, v := range p.beats {
		out[k] = v
	}
	return out
}

func (p *posts) reports() []*posted {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*posted, 0, len(p.scores))
	for _, x := range p.scores {
		out = append(out, x)
	}
	slices.SortFunc(out, func(x, y *posted) int {
		return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Validator, y.Validator), cmp.Compare(x.Miner, y.Miner))
	})
	return out
}

// name makes the name of a document of what it is about.
func docName(prefix string, about ...any) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q", about))
	return prefix + hex.EncodeToString(h[:16])
}

// putBeat keeps a heartbeat. It goes to disk once a minute: more often it tells nothing.
func (p *posts) putBeat(b *Backend, x beat) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, known := p.beats[x.Hotkey]
	x.written = old.written
	if !known || x.Seen.Sub(old.written) >= beatEvery {
		if err := b.dir.Put(docName("beat-", x.Hotkey), x); err != nil {
			return err
		}
		x.written = x.Seen
	}
	p.beats[x.Hotkey] = x
	return nil
}

// putScore keeps a report: one per validator, miner and block, that with the newest
// signature. Of too many the validator's own oldest goes, then anybody's.
func (p *posts) putScore(b *Backend, x *posted) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := docName("score-", x.Validator, x.Miner, x.Block)
	if old := p.scores[name]; old != nil && old.Signed >= x.Signed {
		return &agon.Error{Status: 409, Code: "stale_report", Field: "timestamp", Message: "a report of this validator, miner and block that was signed then or later is stored: sign anew"}
	}
	if err := b.dir.Put(name, x); err != nil {
		return err
	}
	p.scores[name] = x
	own, oldest, ownOldest := 0, "", ""
	for n, s := range p.scores {
		if oldest == "" || s.At.Before(p.scores[oldest].At) {
			oldest = n
		}
		if s.Validator != x.Validator {
			continue
		}
		if own++; ownOldest == "" || s.At.Before(p.scores[ownOldest].At) {
			ownOldest = n
		}
	}
	switch {
	case own > maxOf:
		return p.drop(b, ownOldest)
	case len(p.scores) > maxScores:
		return p.drop(b, oldest)
	}
	return nil
}

func (p *posts) drop(b *Backend, name string) error {
	delete(p.scores, name)
	return b.dir.Remove(name)
}

// reported says whether a validator reported on a miner at a block.
func (p *posts) reported(validator, miner string, block int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.scores[docName("score-", validator, miner, block)]
	return ok
}

// mergePosted adds a posted report to the pack that it is about, if the arena has that.
func (b *Backend) mergePosted(s *snapshot, x *posted) {
	r := &report{
		validator: x.Validator, miner: x.Miner, hash: x.Hash, qualified: x.Qualified, cost: x.Cost, score: x.Score, weight: x.Weight, rejected: x.Rejected,
		stage: text(x.Stage), detail: text(x.Detail), at: x.At, block: x.Block, model: text(x.Model), posted: true,
	}
	for _, sc := range x.Scenarios {
		r.scenarios = append(r.scenarios, scenario{Name: sc.Name, Cost: sc.Cost, Score: sc.Score, Qualified: sc.Qualified, weight: sc.Weight})
	}
	e := s.find(x.Miner, x.Hash)
	if e == nil {
		s.reports = append(s.reports, r)
		return
	}
	r.seq = e.Seq
	for i, old := range e.reports { // what the arena saw itself stands; of reports the newest
		if old.validator == r.validator {
			if old.posted {
				e.reports[i] = r
			}
			return
		}
	}
	e.reports = append(e.reports, r)
}

func byStake(s *snapshot, list []*report) []*report {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(x, y *report) int {
		return cmp.Or(cmp.Compare(s.stake(y.validator), s.stake(x.validator)), cmp.Compare(x.validator, y.validator))
	})
	return out
}

// uploaded lists the archives that validators uploaded.
func (b *Backend) uploaded(s *snapshot) []*logEntry {
	b.posts.mu.Lock()
	defer b.posts.mu.Unlock()
	out := make([]*logEntry, 0, len(b.posts.logs))
	for _, u := range b.posts.logs {
		l := &logEntry{
			ID: u.ID, Validator: u.Validator, EvalID: u.EvalID, Type: u.Type, Miner: text(u.Miner), PackHash: text(u.Hash), Block: u.Block, Size: &u.Size,
			Created: stamp(u.At), at: u.At,
		}
		if u.Miner != "" {
			l.MinerUID = s.uid(u.Miner)
		}
		out = append(out, l)
	}
	return out
}
