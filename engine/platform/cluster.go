package platform

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/copycat"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
)

// Copies whose bytes differ are not refused: they are charged. All submissions
// of a cluster count as attempts of one, whoever enters them, so that ten
// rewrites of one agent have no more luck together than one.

// FindingCluster tells a miner that a submission is charged with others.
const FindingCluster = "copy_cluster"

// Bounds of the behavioural measure: on how many of at least so many tasks two
// submissions made the same requests.
const (
	sameBehaviour = 0.8
	leastTasks    = 5
)

// clusters are the sketches of the arenas that charge copies as one.
type clusters struct {
	mu   sync.Mutex // guards the maps; an index is used by who holds its arena (Platform.entering)
	of   map[string]*copycat.Index
	free map[string][]copycat.Sketch // by kind: what everybody is given
}

// sketched is a submission on its way into its arena's index.
type sketched struct {
	index  *copycat.Index
	sketch copycat.Sketch
	match  *copycat.Match
	all    []copycat.Match // in the order in which they were entered
	text   string
}

// sketch compares files with the arena's earlier submissions. The caller holds
// p.entering until the submission is stored.
func (p *Platform) sketch(tx *store.Tx, a agon.Arena, files []blob.File) (*sketched, error) {
	x, err := p.indexOf(tx, a)
	if err != nil {
		return nil, err
	}
	work := blob.FS(files)
	if k, ok := p.cfg.Kinds[a.Kind].(kind.Worked); ok {
		work = k.Work(work)
	}
	s, err := copycat.SketchOf(work)
	if err != nil {
		return nil, fmt.Errorf("sketch submission: %w", err)
	}
	b, err := s.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("sketch submission: %w", err)
	}
	out := &sketched{index: x, sketch: s, text: base64.StdEncoding.EncodeToString(b)}
	if m, ok := x.Nearest(s); ok {
		out.match = &m
	}
	if nearCopies(a) {
		out.all = x.Matches(s)
	}
	return out, nil
}

// indexOf returns an arena's index; the first time it is read from the store.
func (p *Platform) indexOf(tx *store.Tx, a agon.Arena) (*copycat.Index, error) {
	p.clusters.mu.Lock()
	defer p.clusters.mu.Unlock()
	if x := p.clusters.of[a.ID]; x != nil {
		return x, nil
	}
	free, ok := p.clusters.free[a.Kind]
	if !ok {
		for _, files := range p.cfg.Commons[a.Kind] {
			s, err := copycat.SketchOf(files)
			if err != nil {
				return nil, fmt.Errorf("sketch what the kind gives away: %w", err)
			}
			free = append(free, s)
		}
		if p.clusters.free == nil {
			p.clusters.free = map[string][]copycat.Sketch{}
		}
		p.clusters.free[a.Kind] = free
	}
	x := copycat.NewIndex(free...)
	list, err := tx.Clusters(a.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		b, err := base64.StdEncoding.DecodeString(c.Sketch)
		if err != nil {
			return nil, fmt.Errorf("sketch of submission %s: %w", c.Submission, err)
		}
		var s copycat.Sketch
		if err := s.UnmarshalBinary(b); err != nil {
			return nil, fmt.Errorf("sketch of submission %s: %w", c.Submission, err)
		}
		x.Add(c.Submission, s)
	}
	if p.clusters.of == nil {
		p.clusters.of = map[string]*copycat.Index{}
	}
	p.clusters.of[a.ID] = x
	return x, nil
}

// Findings on near-copies of another coldkey's public work.
const (
	FindingNearCopy = "near_copy"   // it is excluded
	FindingShared   = "near_shared" // it shares what it earns
)

// nearCopies reports whether an arena treats near-copies of public work apart.
func nearCopies(a agon.Arena) bool {
	return a.NearCopies == agon.NearCopiesExclude || a.NearCopies == agon.NearCopiesShare
}

// nearCopy keeps a near-copy of another coldkey's public work out of the
// contest, or has it share what it earns, where the arena says so. What counts is
// the earliest work that it is like: an edit of one's own copy is as near to
// what was copied, and an author whose work was copied keeps it.
func (p *Platform) nearCopy(tx *store.Tx, a agon.Arena, e *store.Entry, s *sketched) error {
	if !nearCopies(a) || e.State != agon.SubmissionQueued {
		return nil
	}
	for _, m := range s.all {
		first, err := tx.Entry(m.ID)
		if err != nil {
			return err
		}
		if first.Coldkey == e.Coldkey && !slices.ContainsFunc(first.Findings, isCopyOfAnother) {
			return nil
		}
		if first.Coldkey == e.Coldkey || slices.ContainsFunc(first.Findings, isCopyOfAnother) {
			continue // a copy, one's own or a third one's, counts as no one's work
		}
		if public, err := p.isPublic(tx, first.Submission); err != nil {
			return err
		} else if !public {
			continue // what nobody could read is charged, not accused
		}
		like := fmt.Sprintf("it is nearly submission %s, which is public (%s %.2f): ", first.ID, m.Measure, m.Similarity)
		if a.NearCopies == agon.NearCopiesShare {
			e.Findings = append(e.Findings, agon.Finding{Code: FindingShared, Field: first.ID, Warning: true, Message: like + "half of what it earns goes to that one's miner"})
			return nil
		}
		e.State = agon.SubmissionExcluded
		e.Findings = append(e.Findings, agon.Finding{Code: FindingNearCopy, Field: first.ID, Message: like + "the arena takes no near-copies of another's work"})
		return nil
	}
	return nil
}

func isCopyOfAnother(f agon.Finding) bool {
	return f.Code == FindingNearCopy || f.Code == FindingShared
}

// sharedWith is the work of another that a near-copy shares its reward with.
func sharedWith(tx *store.Tx, a agon.Arena, submission string) (*store.Entry, error) {
	if a.NearCopies != agon.NearCopiesShare {
		return nil, nil
	}
	e, err := tx.Entry(submission)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingShared })
	if i < 0 {
		return nil, nil
	}
	parent, err := tx.Entry(e.Findings[i].Field)
	return &parent, err
}

// join puts a new submission into its cluster.
func (p *Platform) join(tx *store.Tx, a agon.Arena, e *store.Entry, s *sketched) error {
	cluster := e.ID
	if s.match != nil {
		of, err := tx.ClusterOf(s.match.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			cluster = of
			first, err := tx.Entry(s.match.ID)
			if err != nil {
				return err
			}
			public, err := p.isPublic(tx, first.Submission)
			if err != nil {
				return err
			}
			e.Findings = append(e.Findings, clusterFinding(public, *s.match))
			if err := p.setState(tx, e.ID, e.State, e.Findings); err != nil {
				return err
			}
		}
	}
	return tx.PutCluster(store.Clustered{Submission: e.ID, Arena: a.ID, Cluster: cluster, Sketch: s.text})
}

// clusterFinding says why a submission is charged with others. It names an
// earlier one only where everybody may read it.
func clusterFinding(public bool, m copycat.Match) agon.Finding {
	f := agon.Finding{Code: FindingCluster, Warning: true}
	name := "an earlier submission"
	if public {
		name, f.Field = "submission "+m.ID, m.ID
	}
	f.Message = fmt.Sprintf("counts as one with %s (%s %.2f): the attempts of all that are alike are charged together", name, m.Measure, m.Similarity)
	return f
}

// behave joins a challenger with the champion's cluster if both asked the same on the
// same tasks, as the gateway wrote it down, or did the same, as the evidence says.
func (p *Platform) behave(tx *store.Tx, a agon.Arena, e *store.Entry, champion string) error {
	if champion == "" || slices.ContainsFunc(e.Findings, func(f agon.Finding) bool { return f.Code == FindingCluster }) {
		return nil
	}
	mine, err := requestsOf(tx, e.ID)
	if err != nil {
		return err
	}
	theirs, err := requestsOf(tx, champion)
	if err != nil {
		return err
	}
	same, tasks := copycat.Behaviour(mine, theirs)
	if tasks < leastTasks || same < sameBehaviour {
		var alike bool
		if same, alike, err = p.sameDeeds(tx, a, e.ID, champion); err != nil || !alike {
			return err
		}
	}
	cluster, err := tx.ClusterOf(champion)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	first, err := tx.Entry(champion)
	if err != nil {
		return err
	}
	public, err := p.isPublic(tx, first.Submission)
	if err != nil {
		return err
	}
	e.Findings = append(e.Findings, clusterFinding(public, copycat.Match{ID: champion, Measure: copycat.MeasureBehaviour, Similarity: same}))
	if err := p.setState(tx, e.ID, e.State, e.Findings); err != nil {
		return err
	}
	return tx.PutCluster(store.Clustered{Submission: e.ID, Arena: a.ID, Cluster: cluster})
}

// requestsOf are the hashes of what a submission asked models and tools, by task
// in order, over its own plays.
func requestsOf(tx *store.Tx, submission string) (map[string][]string, error) {
	runs, err := tx.RunsOf(submission)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, r := range runs {
		if r.State != agon.RunScored || r.Rival != nil {
			continue
		}
		own, err := requestsOfRun(tx, r)
		if err != nil {
			return nil, err
		}
		for task, list := range own {
			out[task] = append(out[task], list...)
		}
	}
	return out, nil
}

// requestsOfRun are those of one run's counted attempt.
func requestsOfRun(tx *store.Tx, r store.Run) (map[string][]string, error) {
	out := map[string][]string{}
	attempts, err := tx.Attempts(r.RunSpec.Run)
	if err != nil {
		return nil, err
	}
	for _, at := range attempts {
		if !at.Counted {
			continue
		}
		list, err := tx.Receipts(at.Run, at.N)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			task := x.Task
			if task == "" && len(r.Tasks) == 1 {
				task = r.Tasks[0].Key
			}
			if task != "" && x.RequestHash != "" {
				out[task] = append(out[task], string(x.RequestHash))
			}
		}
	}
	return out, nil
}

// Commons are files that everybody is given, by kind (Config.Commons).
type Commons map[string][]fs.FS
