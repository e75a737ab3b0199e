package wire

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon/internal/sealed"
	"github.com/agon-arena/agon/kinds/claim/query"
	"github.com/agon-arena/agon/kinds/claim/roster"
)

// Who sits in the query era, and what that earns: one champion, decided by the cascade
// over the medians of a batch.

const champName = "champion"

// champ is who sits.
type champ struct {
	ArtifactID string  `json:"artifact_id"`
	Hotkey     string  `json:"hotkey"`
	Score      float64 `json:"score"` // mean over the tasks of the last batch
	Count      int     `json:"count"` // successive decisions that it holds
	BatchID    string  `json:"batch_id"`
	// Pay is what the others of that batch earn of what is left, by hotkey.
	Pay []query.Share `json:"pay,omitempty"`
	// None says that the last batch left the seat empty.
	None bool `json:"none,omitempty"`
	// Former are those who sat before, the newest first.
	Former []place `json:"former,omitempty"`
}

// openWork makes the routes and the state of the query era.
func (p *Platform) openWork(m *http.ServeMux) error {
	p.work.ended = make(chan struct{})
	p.work.news = make(chan struct{})
	p.work.boards, p.work.grants, p.work.of = map[string]*board{}, map[[32]byte]*grant{}, map[attemptOf]*grant{}
	if !p.pulls() {
		return nil
	}
	p.cfg.Work.defaults()
	p.voters = p.cfg.Driver.client()
	p.voters.Timeout = voteTime
	var err error
	if p.work.secret, err = sealed.Open(p.cfg.Dir); err != nil {
		return err
	}
	m.HandleFunc("POST /v2/miner-task-work/tasks", p.workTasks)
	m.HandleFunc("POST /v2/miner-task-work/executions", p.workExecutions)
	m.HandleFunc("POST /v2/miner-task-work/scoreable-executions", p.workScoreable)
	m.HandleFunc("POST /v2/miner-task-work/results", p.workResults)
	m.HandleFunc("POST /v1/platform-tool-proxy/grants", p.createGrant)
	m.HandleFunc("POST /v1/platform-tool-proxy/tools/execute", p.executeTool)
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		m.HandleFunc(method+" /v1/miner-config", p.minerConfig)
	}
	return nil
}

// maxScript bounds a script of the era, in bytes.
func (p *Platform) maxScript() int {
	if p.pulls() {
		return maxQueryScript
	}
	return MaxScript
}

const maxQueryScript = 1_000_000

// dress adds what only the query era tells of a script.
func (p *Platform) dress(c *Candidate, hotkey string) error {
	if !p.pulls() {
		return nil
	}
	c.Hotkey = hotkey
	var err error
	c.Retries, err = p.retries(hotkey)
	return err
}

// since is what scripts of a batch must be newer than: in the query era a script is
// played once, in the batch after it came.
func (p *Platform) since(earlier []Batch) time.Time {
	if !p.pulls() {
		return time.Time{}
	}
	i := slices.IndexFunc(earlier, func(b Batch) bool { return b.Status == "completed" })
	if i < 0 {
		return time.Time{}
	}
	return earlier[i].CutoffAt
}

// champion is who sits; nil before the first batch and where the seat is empty.
func (p *Platform) champion() (*champ, error) {
	c, err := p.lastCrown()
	if err != nil || c == nil || c.None {
		return nil, err
	}
	return c, nil
}

func (p *Platform) lastCrown() (*champ, error) {
	var c champ
	if ok, err := p.dir.Get(champName, &c); err != nil || !ok {
		return nil, err
	}
	return &c, nil
}

// former are the champions so far, the present one too, the newest first.
func (p *Platform) former() ([]place, error) {
	c, err := p.lastCrown()
	if err != nil || c == nil {
		return nil, err
	}
	out := c.Former
	if !c.None {
		out = append([]place{{ArtifactID: c.ArtifactID, Hotkey: c.Hotkey, Score: c.Score, BatchID: c.BatchID}}, out...)
	}
	return out[:min(len(out), maxFormer)], nil
}

// crown decides a batch: the cascade over its medians, and what everybody earns.
func (p *Platform) crown(b Batch, d *drive, grid *roster.Grid) error {
	was, err := p.lastCrown()
	if err != nil {
		return err
	}
	if was != nil && was.BatchID == b.BatchID {
		return nil // the platform was stopped between the two files
	}
	var sits *query.Standing
	var list []query.Standing
	at := map[string]Candidate{}
	for _, c := range b.Candidates {
		at[c.ArtifactID] = c
	}
	for _, r := range grid.Rows {
		c := at[r.Artifact]
		s, err := p.cfg.Arenas.Submission(context.Background(), operator, r.Artifact)
		if err != nil {
			return err
		}
		x := query.Standing{ID: r.Artifact, Hotkey: c.Hotkey, UID: c.UID, SubmittedAt: s.CreatedAt.UTC().Format("2006-01-02T15:04:05.000000000Z"), Total: r.Total, Cost: &r.Cost, ElapsedMS: r.ElapsedMS}
		if was != nil && !was.None && r.Artifact == was.ArtifactID {
			sits = &x
		} else if !slices.Contains(d.Late, r.Artifact) {
			list = append(list, x)
		}
	}
	out, err := query.Rulebook{}.Champion(len(grid.Tasks), sits, list)
	if err != nil {
		return err
	}
	d.Outcome = &out
	next := champ{BatchID: b.BatchID, None: out.Champion == nil, Score: out.Score, Count: 1, Pay: p.pay(b, d, was, len(grid.Tasks), grid)}
	if was != nil {
		next.Former = was.Former
	}
	if out.Champion != nil {
		next.ArtifactID, next.Hotkey = *out.Champion, at[*out.Champion].Hotkey
	}
	same := was != nil && !was.None && was.ArtifactID == next.ArtifactID
	switch {
	case same:
		next.Count = was.Count + 1
	case was != nil && !was.None:
		next.Former = append([]place{{ArtifactID: was.ArtifactID, Hotkey: was.Hotkey, Score: was.Score, BatchID: was.BatchID}}, next.Former...)
		next.Former = next.Former[:min(len(next.Former), maxFormer)]
	}
	if !same {
		d.Entered = next.ArtifactID
	}
	return p.dir.Put(champName, next)
}

// pay is what the scripts of a batch weigh in what the champion leaves.
func (p *Platform) pay(b Batch, d *drive, was *champ, tasks int, grid *roster.Grid) []query.Share {
	var list []query.Scored
	for _, r := range grid.Rows {
		if slices.Contains(d.Late, r.Artifact) {
			continue
		}
		i := slices.IndexFunc(b.Candidates, func(c Candidate) bool { return c.ArtifactID == r.Artifact })
		s := query.Scored{ID: r.Artifact, Hotkey: b.Candidates[i].Hotkey, Score: r.Total / float64(tasks)}
		if x := d.Votes[r.Artifact]; x != nil {
			s.Class = x.Class
		}
		s.Incumbent = was != nil && was.ArtifactID == r.Artifact
		list = append(list, s)
	}
	return query.StageWeights(list, 0)
}

// crownWeights are the weights of the query era: the champion's part, the split of the
// rest over the last batch, and what nobody has, which uid 0 burns. ok is false before
// any batch was decided.
func (p *Platform) crownWeights(ctx context.Context) (out map[string]float64, uid *int, ok bool, err error) {
	c, err := p.lastCrown()
	if err != nil || c == nil {
		return nil, nil, false, err
	}
	parts := []query.Weights{}
	left := 1.0
	if !c.None {
		most, err := query.MaxFraction(c.Count, p.cfg.Work.Ceiling, 0)
		if err != nil {
			return nil, nil, false, err
		}
		// The champion's part is its own even where its key has left: then it burns.
		left -= min(max(c.Score, 0), 1) * most
		if n, here, err := p.uid(ctx, c.Hotkey); err != nil {
			return nil, nil, false, err
		} else if here {
			uid = &n
			parts = append(parts, query.Weights{strconv.Itoa(n): 1 - left})
		}
	}
	if len(c.Pay) > 0 {
		weights := make([]float64, len(c.Pay))
		for i, s := range c.Pay {
			weights[i] = s.Weight
		}
		split, err := query.Split(left, weights)
		if err != nil {
			return nil, nil, false, err
		}
		for i, s := range c.Pay {
			n, here, err := p.uid(ctx, s.Hotkey)
			if err != nil {
				return nil, nil, false, err
			}
			if here {
				parts = append(parts, query.Weights{strconv.Itoa(n): split[i]})
			}
		}
	}
	w, err := query.Compose(parts...)
	return w, uid, err == nil, err
}

// begun opens a batch that was just frozen: where nothing is to be compared, its work is
// there at once.
func (p *Platform) begun(b Batch, d *drive) error {
	if !d.Compared {
		return nil // the next step asks the validators
	}
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	_, err := p.openBoard(b, d)
	return err
}
