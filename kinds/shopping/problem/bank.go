package problem

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// State is where a problem of a bank stands.
type State string

// A problem is public from the start, or goes hidden → racing → hidden, again
// and again, until it is retired. Only public and retired ones may be shown.
const (
	StatePublic  State = "public"
	StateHidden  State = "hidden"
	StateRacing  State = "racing"
	StateRetired State = "retired"
)

// ErrHidden is returned for a problem, or a race's list of problems, that may
// not be seen yet.
var ErrHidden = errors.New("hidden until its race has closed")

// Policy says when hidden problems are used up.
type Policy struct {
	// MaxExposures retires a problem after so many submissions have played it.
	MaxExposures int `json:"max_exposures"`
	// MaxRaces retires it after so many races.
	MaxRaces int `json:"max_races"`
	// Publish retires every problem of a race when it closes, so that everybody
	// can check its scores; such a bank needs new problems for every race.
	Publish bool `json:"publish"`
}

// Entry is one problem of a bank with its history.
type Entry struct {
	Problem   shop.Problem `json:"problem"`
	State     State        `json:"state"`
	Exposures int          `json:"exposures"` // submissions that have played it in races
	Races     []string     `json:"races,omitempty"`
	Retired   string       `json:"retired,omitempty"` // why
}

// Race is one race's draw.
type Race struct {
	ID       string   `json:"id"`
	Problems []string `json:"problems"` // ids
	Open     bool     `json:"open"`
	// Opened and Closes are set for races that a clock opened (see Turn).
	Opened time.Time `json:"opened,omitzero"`
	Closes time.Time `json:"closes,omitzero"`
	// Played lists, for each submission, how many of the problems it has seen.
	Played map[string][]string `json:"played,omitempty"`
}

// Bank holds the problems of an arena: the public suite, and hidden problems
// that races draw from in turns. It is not safe for concurrent use; Save makes
// it durable. Whoever can read its file can read the answers.
type Bank struct {
	Version int              `json:"version"`
	Policy  Policy           `json:"policy"`
	Entries map[string]Entry `json:"entries"` // by problem_id
	Races   []Race           `json:"races"`
}

const (
	bankVersion = 1
	maxRaces    = 100_000
	maxBank     = 512 << 20
)

// NewBank makes a bank. No problem of one set may share its query or a ground
// truth with one of the other: whoever learnt the public answers by heart
// would gain from it.
func NewBank(policy Policy, public, hidden []shop.Problem) (*Bank, error) {
	b := &Bank{Version: bankVersion, Policy: policy, Entries: map[string]Entry{}, Races: []Race{}}
	if policy.MaxExposures < 0 || policy.MaxRaces < 0 {
		return nil, invalid("policy", "at least 0", "policy: bounds may not be negative")
	}
	if err := b.Add(StatePublic, public); err != nil {
		return nil, err
	}
	return b, b.Add(StateHidden, hidden)
}

// Add puts further problems into the bank: hidden ones for coming races, or
// public ones. All or none are taken.
func (b *Bank) Add(state State, problems []shop.Problem) error {
	if state != StatePublic && state != StateHidden {
		return invalid("state", "public, hidden", "state %q is none of a new problem", state)
	}
	queries, answers := map[string]State{}, map[string]State{}
	for _, e := range b.Entries {
		side := StateHidden
		if e.State == StatePublic || e.State == StateRetired { // the answers of both are shown
			side = StatePublic
		}
		queries[e.Problem.Query] = side
		for _, it := range e.Problem.Reward.Items {
			answers[it.ProductID] = side
		}
	}
	fresh := map[string]Entry{}
	for i := range problems {
		p := problems[i]
		if err := Check(&p); err != nil {
			return err
		}
		if p.ProblemID == "" {
			return invalid("problem_id", "", "problem %d has no problem_id", i+1)
		}
		if _, ok := b.Entries[p.ProblemID]; ok || fresh[p.ProblemID].State != "" {
			return invalid("problem_id", "", "problem_id %s is in the bank already", p.ProblemID)
		}
		if _, ok := queries[p.Query]; ok {
			return invalid("query", "", "problem %s has the query of another one", p.ProblemID)
		}
		for _, it := range p.Reward.Items {
			if side, ok := answers[it.ProductID]; ok && side != state {
				return invalid("reward", "", "problem %s: product %s is an answer of a %s problem", p.ProblemID, it.ProductID, side)
			}
		}
		queries[p.Query] = state
		fresh[p.ProblemID] = Entry{Problem: p, State: state}
	}
	if len(b.Entries)+len(fresh) > MaxProblems {
		return invalid("problems", fmt.Sprintf("%d problems", MaxProblems), "too many problems")
	}
	maps.Copy(b.Entries, fresh)
	return nil
}

// inState lists problems by id.
func (b *Bank) inState(states ...State) []shop.Problem {
	var out []shop.Problem
	for _, id := range slices.Sorted(maps.Keys(b.Entries)) {
		if e := b.Entries[id]; slices.Contains(states, e.State) {
			out = append(out, e.Problem)
		}
	}
	return out
}

// Public lists what anybody may see with its answers: the public suite and
// what has been retired.
func (b *Bank) Public() []shop.Problem { return b.inState(StatePublic, StateRetired) }

// Suite lists the public suite, on which submissions qualify.
func (b *Bank) Suite() []shop.Problem { return b.inState(StatePublic) }

// Left is how many problems the next race could draw.
func (b *Bank) Left() int { return len(b.inState(StateHidden)) }

// Draw opens a race with n hidden problems: those that fewest submissions have
// seen, of equal ones by a draw that depends on the race and on what only the
// bank's owner knows. Categories are kept as even as the bank allows.
func (b *Bank) Draw(race string, n int) ([]shop.Problem, error) {
	if race == "" || len(race) > 100 {
		return nil, invalid("race", "1 to 100 bytes", "race: name it")
	}
	if b.race(race) != nil {
		return nil, &agon.Error{Code: "conflict", Status: 409, Field: "race", Message: fmt.Sprintf("race %q was drawn already", race), Mend: "name another race"}
	}
	if len(b.Races) == maxRaces {
		return nil, invalid("races", fmt.Sprintf("%d races", maxRaces), "too many races")
	}
	if left := b.Left(); n < 1 || n > left {
		return nil, &agon.Error{
			Code: "bank_exhausted", Status: 409, Field: "count", Limit: fmt.Sprintf("%d hidden problems", left),
			Message: fmt.Sprintf("%d problems are wanted, %d hidden ones are left", n, left), Mend: "generate more hidden problems and add them",
		}
	}
	by := map[string][]shop.Problem{}
	for _, p := range b.inState(StateHidden) {
		by[p.Category] = append(by[p.Category], p)
	}
	lot := func(p shop.Problem) int64 { return seeds.Derive("shop-draw", race, p.ProblemID) } // hidden ids are secret
	for _, list := range by {
		slices.SortFunc(list, func(x, y shop.Problem) int {
			return cmp.Or(cmp.Compare(b.Entries[x.ProblemID].Exposures, b.Entries[y.ProblemID].Exposures),
				cmp.Compare(len(b.Entries[x.ProblemID].Races), len(b.Entries[y.ProblemID].Races)), cmp.Compare(lot(x), lot(y)))
		})
	}
	var drawn []shop.Problem
	for len(drawn) < n {
		for _, category := range slices.Sorted(maps.Keys(by)) {
			if list := by[category]; len(list) > 0 && len(drawn) < n {
				drawn, by[category] = append(drawn, list[0]), list[1:]
			}
		}
	}
	r := Race{ID: race, Open: true, Played: map[string][]string{}}
	for _, p := range drawn {
		e := b.Entries[p.ProblemID]
		e.State, e.Races = StateRacing, append(e.Races, race)
		b.Entries[p.ProblemID] = e
		r.Problems = append(r.Problems, p.ProblemID)
	}
	b.Races = append(b.Races, r)
	return drawn, nil
}

func (b *Bank) race(id string) *Race {
	for i := range b.Races {
		if b.Races[i].ID == id {
			return &b.Races[i]
		}
	}
	return nil
}

func noRace(id string) error {
	return &agon.Error{Code: "not_found", Status: 404, Field: "race", Message: fmt.Sprintf("there is no race %.100q", id), Mend: "see the list of races"}
}

// Expose notes that a submission plays a problem of an open race; noting it
// again changes nothing.
func (b *Bank) Expose(race, problem, submission string) error {
	r := b.race(race)
	if r == nil {
		return noRace(race)
	}
	if !r.Open || !slices.Contains(r.Problems, problem) {
		return &agon.Error{Code: "conflict", Status: 409, Field: "problem", Message: fmt.Sprintf("problem %.60q is none of the open race %q", problem, race)}
	}
	if slices.Contains(r.Played[submission], problem) {
		return nil
	}
	if r.Played == nil {
		r.Played = map[string][]string{}
	}
	r.Played[submission] = append(r.Played[submission], problem)
	e := b.Entries[problem]
	e.Exposures++
	b.Entries[problem] = e
	return nil
}

// Close ends a race: its problems go back to the hidden ones, or retire by the
// policy. It returns the ids that retired. Closing again changes nothing.
func (b *Bank) Close(race string) (retired []string, err error) {
	r := b.race(race)
	if r == nil {
		return nil, noRace(race)
	}
	if !r.Open {
		return nil, nil
	}
	r.Open = false
	for _, id := range r.Problems {
		e := b.Entries[id]
		e.State = StateHidden
		switch {
		case b.Policy.Publish:
			e.Retired = "published with race " + race
		case b.Policy.MaxExposures > 0 && e.Exposures >= b.Policy.MaxExposures:
			e.Retired = fmt.Sprintf("played by %d submissions", e.Exposures)
		case b.Policy.MaxRaces > 0 && len(e.Races) >= b.Policy.MaxRaces:
			e.Retired = fmt.Sprintf("used in %d races", len(e.Races))
		}
		if e.Retired != "" {
			e.State = StateRetired
			retired = append(retired, id)
		}
		b.Entries[id] = e
	}
	return append(retired, b.retireShown()...), nil
}

// Unshown leaves out the problems one of whose answers is shown with a retired problem.
func (b *Bank) Unshown(list []shop.Problem) (fresh []shop.Problem) {
	shown := map[string]bool{}
	for _, e := range b.Entries {
		for _, it := range e.Problem.Reward.Items {
			shown[it.ProductID] = shown[it.ProductID] || e.State == StateRetired
		}
	}
	for _, p := range list {
		if !slices.ContainsFunc(p.Reward.Items, func(it shop.Item) bool { return shown[it.ProductID] }) {
			fresh = append(fresh, p)
		}
	}
	return fresh
}

// retireShown retires the hidden problems one of whose answers is shown with a retired
// problem: it could be had out of a list of those. What it retires is shown too.
func (b *Bank) retireShown() (retired []string) {
	shown := map[string]string{}
	note := func(e Entry) {
		for _, it := range e.Problem.Reward.Items {
			if it.ProductID != "" {
				shown[it.ProductID] = e.Problem.ProblemID
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.Entries)) {
		if e := b.Entries[id]; e.State == StateRetired {
			note(e)
		}
	}
	for more := true; more; {
		more = false
		for _, id := range slices.Sorted(maps.Keys(b.Entries)) {
			e := b.Entries[id]
			i := slices.IndexFunc(e.Problem.Reward.Items, func(it shop.Item) bool { return shown[it.ProductID] != "" })
			if e.State != StateHidden || i < 0 {
				continue
			}
			e.State, e.Retired = StateRetired, "shares an answer with problem "+shown[e.Problem.Reward.Items[i].ProductID]+", which is shown"
			b.Entries[id] = e
			note(e)
			retired, more = append(retired, id), true
		}
	}
	return retired
}

// Shown returns a problem with its answers if anybody may see it, else
// ErrHidden: while it waits or races, and also for ids that do not exist, so
// that asking tells nothing.
func (b *Bank) Shown(id string) (*shop.Problem, error) {
	e, ok := b.Entries[id]
	if !ok || (e.State != StatePublic && e.State != StateRetired) {
		return nil, fmt.Errorf("problem %.60q: %w", id, ErrHidden)
	}
	return &e.Problem, nil
}

// Racing lists the problems of an open race, for its validators alone.
func (b *Bank) Racing(race string) ([]shop.Problem, error) {
	r := b.race(race)
	if r == nil {
		return nil, noRace(race)
	}
	var out []shop.Problem
	for _, id := range r.Problems {
		out = append(out, b.Entries[id].Problem)
	}
	return out, nil
}

// check reports what does not fit together in a bank that was read.
func (b *Bank) check() error {
	if b.Version != bankVersion {
		return invalid("version", "", "bank of version %d, want %d", b.Version, bankVersion)
	}
	if len(b.Entries) > MaxProblems || len(b.Races) > maxRaces {
		return invalid("bank", "", "too many problems or races")
	}
	racing := map[string]bool{}
	names := map[string]bool{}
	for _, r := range b.Races {
		if names[r.ID] {
			return invalid("races", "", "race %.60q stands twice", r.ID)
		}
		names[r.ID] = true
		for _, id := range r.Problems {
			e, ok := b.Entries[id]
			if !ok || (r.Open && (racing[id] || e.State != StateRacing)) {
				return invalid("races", "", "race %.60q: problem %.60q is not its own", r.ID, id)
			}
			racing[id] = racing[id] || r.Open
		}
	}
	for id, e := range b.Entries {
		if id != e.Problem.ProblemID {
			return invalid("entries", "", "entry %.60q holds another problem", id)
		}
		if (e.State == StateRacing) != racing[id] || e.Exposures < 0 {
			return invalid("entries", "", "problem %.60q: its state and its races differ", id)
		}
		if e.State != StatePublic && e.State != StateHidden && e.State != StateRacing && e.State != StateRetired {
			return invalid("entries", "", "problem %.60q: state %.20q is unknown", id, e.State)
		}
		if err := Check(&e.Problem); err != nil {
			return err
		}
	}
	return nil
}

// ReadBank reads a bank and checks it.
func ReadBank(in io.Reader) (*Bank, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxBank+1))
	if err != nil {
		return nil, fmt.Errorf("read bank: %w", err)
	}
	if len(raw) > maxBank {
		return nil, invalid("bank", fmt.Sprintf("%d bytes", maxBank), "the bank is too large")
	}
	b := new(Bank)
	if err := json.Unmarshal(raw, b); err != nil {
		return nil, invalid("bank", "", "not a bank: %v", err)
	}
	return b, b.check()
}

// LoadBank reads the bank at path.
func LoadBank(path string) (*Bank, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read bank: %w", err)
	}
	defer func() { _ = f.Close() }()
	return ReadBank(f)
}

// Save writes the bank, readable by its owner only: a temporary file, synced,
// then renamed. It is durable when Save returns.
func (b *Bank) Save(path string) error {
	raw, err := marshal(b)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".bank-*") // 0600
	if err != nil {
		return fmt.Errorf("save bank: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone by then where all went well
	if _, err := f.Write(raw); err != nil {
		_ = f.Close()
		return fmt.Errorf("save bank: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("save bank: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("save bank: %w", err)
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("save bank: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
