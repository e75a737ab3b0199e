package wire

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/pack/epochs"
)

// book is the epochs of an arena that leads its validators (option epochs =
// "on"): one submission after the other is open for scores. No timer
// runs: each request moves it on to the ledger's block.
type book struct {
	mu     sync.Mutex     // guards below
	past   []epochs.Epoch // ended, in the order of their ends
	ended  map[int64]int  // place in past, by id
	open   *epochs.Epoch
	secret []byte                                  // names packs that are not public
	doing  map[int64]map[string]map[string]*doings // by epoch, validator and scenario
}

// doings is how far a validator is with a scenario. It is shown and not kept.
type doings struct {
	State   string   `json:"state"`
	Quality *float64 `json:"quality"`
	Seen    []string `json:"states"` // each state once, as they came
	Index   int64    `json:"scenario_index"`
	Total   int64    `json:"total_scenarios"`
	Cost    *float64 `json:"cost_usd"`
	At      *string  `json:"updated_at"`
}

const epochPrefix = "epoch-"

// KeyDocument is the document that stays in Config.Dir: it names packs that are not public.
const KeyDocument = "epochs-secret"

// loadBook reads what ended and what is open.
func loadBook(b *Backend) (*book, error) {
	k := &book{ended: map[int64]int{}, doing: map[int64]map[string]map[string]*doings{}}
	var secret struct {
		Hex string `json:"secret"`
	}
	keys := folder.Folder(b.cfg.Dir)
	ok, err := keys.Get(KeyDocument, &secret)
	if err != nil {
		return nil, err
	}
	if k.secret, err = hex.DecodeString(secret.Hex); !ok || err != nil || len(k.secret) != 32 {
		k.secret = make([]byte, 32)
		if _, err := rand.Read(k.secret); err != nil {
			return nil, fmt.Errorf("make a secret: %w", err)
		}
		secret.Hex = hex.EncodeToString(k.secret)
		if err := keys.Put(KeyDocument, secret); err != nil {
			return nil, err
		}
	}
	if err := folder.Load(b.dir, epochPrefix, func(_ string, e epochs.Epoch) {
		if e.Outcome == "" {
			k.open = &e
		} else {
			k.past = append(k.past, e)
		}
	}); err != nil {
		return nil, err
	}
	slices.SortStableFunc(k.past, func(x, y epochs.Epoch) int {
		return cmp.Or(cmp.Compare(x.Ended, y.Ended), cmp.Compare(x.Start, y.Start), x.Finalized.Compare(y.Finalized))
	})
	for i, e := range k.past {
		k.ended[e.ID] = i
	}
	return k, nil
}

func (k *book) put(b *Backend, e *epochs.Epoch) error {
	return b.dir.Put(fmt.Sprintf("%s%d", epochPrefix, e.ID), e)
}

// seat is who sits after the last epoch. The caller holds mu.
func (k *book) seat() *epochs.Seat {
	if len(k.past) == 0 {
		return nil
	}
	return k.past[len(k.past)-1].After
}

// of finds an epoch. The caller holds mu.
func (k *book) of(id int64) *epochs.Epoch {
	if k.open != nil && k.open.ID == id {
		return k.open
	}
	if i, ok := k.ended[id]; ok {
		return &k.past[i]
	}
	return nil
}

// live finds the epoch that is open under an id, or answers why there is none. The
// caller holds mu.
func (k *book) live(w http.ResponseWriter, id int64) *epochs.Epoch {
	e := k.of(id)
	switch {
	case e == nil:
		refuse(w, http.StatusNotFound, "not_found", "id", "epoch not found")
	case e.Outcome != "":
		refuse(w, http.StatusConflict, "finalized", "id", "epoch is finalized")
	default:
		return e
	}
	return nil
}

// epochID is the id in a request's path, or the refusal of it.
func epochID(w http.ResponseWriter, r *http.Request) (int64, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		refuse(w, http.StatusBadRequest, "bad_field", "id", "challenge_epoch_id must be a positive integer")
		return 0, false
	}
	return id, true
}

// rows are the submissions as they queue, oldest first. The caller holds mu.
func (k *book) rows(s *snapshot) ([]epochs.Row, []*entry) {
	var out []epochs.Row
	var list []*entry
	for _, e := range slices.Backward(s.entries) {
		open := e.pack.Hash != "" && (e.State == agon.SubmissionQueued || e.State == agon.SubmissionPlaying || e.State == agon.SubmissionScored)
		out = append(out, epochs.Row{ID: e.ID, Miner: e.Miner, Seq: e.Seq, Open: open, Done: k.of(e.Seq) != nil})
		list = append(list, e)
	}
	return out, list
}

// members are the validators with enough stake to count.
func members(s *snapshot, r epochs.Rule) map[string]uint64 {
	out := map[string]uint64{}
	for _, n := range s.graph.Neurons {
		if n.Permit && n.Stake >= r.MinStake && n.Stake > 0 {
			out[n.Hotkey] = n.Stake
		}
	}
	return out
}

// move ends what is due and opens what is next. The caller holds mu.
func (k *book) move(b *Backend, s *snapshot) error {
	block := s.graph.Block
	if k.open != nil {
		if err := k.hear(b, s); err != nil {
			return err
		}
		if !k.open.Due(block) {
			return nil
		}
		e := epochs.Finalise(*k.open)
		e.Ended, e.Finalized = min(block, e.End), b.cfg.Now().UTC()
		if err := k.put(b, &e); err != nil {
			return err
		}
		delete(k.doing, e.ID)
		k.ended[e.ID] = len(k.past)
		k.past, k.open = append(k.past, e), nil
		if e.Outcome == epochs.Replaced {
			b.cfg.Log.Info("an epoch seats another winner", "epoch", e.ID, "miner", e.Miner, "score", e.Score)
		}
	}
	rows, list := k.rows(s)
	for i, may := range epochs.Next(rows) {
		if !may {
			continue
		}
		rule := epochs.Default(len(s.arena.Tasks))
		if len(members(s, rule)) == 0 { // a subnet of small stakes
			rule.MinStake = 0
		}
		e := &epochs.Epoch{
			ID: list[i].Seq, Submission: list[i].ID, Miner: list[i].Miner, Hash: list[i].pack.Hash, Start: block, End: block + uint64(rule.Length), Opened: b.cfg.Now().UTC(),
			Rule: rule, Before: k.seat(), Members: members(s, rule),
		}
		e.Inactive = epochs.Inactive(e.Members, k.past, rule)
		if err := k.put(b, e); err != nil {
			return err
		}
		k.open = e
		return nil
	}
	return nil
}

// hear takes as votes what the platform saw itself: once a submission is
// decided, the reports of the validators that played all of it. The caller holds mu.
func (k *book) hear(b *Backend, s *snapshot) error {
	e := s.byID[k.open.Submission]
	if e == nil || e.State != agon.SubmissionScored {
		return nil
	}
	played := map[string]bool{}
	for i := range e.plays {
		if sc, ok := e.plays[i].result(); ok {
			played[sc.Name] = true
		}
	}
	next := *k.open
	for _, rep := range e.reports {
		if rep.posted || len(rep.scenarios) < len(played) || k.open.Voted(rep.validator) {
			continue
		}
		v := epochs.Vote{
			Validator: rep.validator, Stake: s.neurons[rep.validator].Stake, Block: s.graph.Block, Qualified: rep.qualified, Model: or(b.modelOf(rep)), Version: agon.Version,
			At: b.cfg.Now().UTC(), Played: true, Scenarios: map[string]epochs.Scenario{},
		}
		for _, sc := range rep.scenarios {
			v.Score += sc.Score
			v.Scenarios[sc.Name] = epochs.Scenario{Score: sc.Score, Qualified: sc.Qualified}
		}
		next.Votes = append(slices.Clone(next.Votes), v)
	}
	if len(next.Votes) == len(k.open.Votes) {
		return nil
	}
	if err := k.put(b, &next); err != nil {
		return err
	}
	k.open = &next
	return nil
}

// moved looks at the arena and moves the book on. It returns with the book
// locked; done unlocks it.
func (b *Backend) moved(ctx context.Context) (s *snapshot, done func(), err error) {
	if s, err = b.look(ctx); err != nil {
		return nil, nil, err
	}
	b.book.mu.Lock()
	if err := b.book.move(b, s); err != nil {
		b.book.mu.Unlock()
		return nil, nil, err
	}
	return s, b.book.mu.Unlock, nil
}

// token names a pack that only validators may fetch.
func (k *book) token(hash string) string {
	m := hmac.New(sha256.New, k.secret)
	m.Write([]byte(hash))
	return hex.EncodeToString(m.Sum(nil)[:20])
}
