package roles

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

// maxReinforced bounds the validators of one process.
const maxReinforced = 9

// reinforced are validators of this process besides its first.
type reinforced struct {
	loops   []*validator.Loop
	players []*kit.Player
}

func (r *reinforced) close() {
	for _, p := range r.players {
		p.Close()
	}
}

// share is how many of the boxes each validator of the process may have.
func (r *reinforced) share(parallel int) int { return max(1, parallel/(1+len(r.loops))) }

// validatorsFor is how many validators must play before an arena decides.
func validatorsFor(a *client.Arena, rules map[string]incentive.Rule) int {
	n := a.Played()
	if a.Contest != nil {
		n = max(n, a.Contest.Agree)
	}
	if r, ok := rules[a.Incentive]; ok && r.Pairing != nil {
		n = max(n, int(r.Of(a.IncentiveNumbers)[incentive.NumValidators]))
	}
	return n
}

// reinforce makes the validators that arenas need besides the first: by their
// rules one alone never decides. They are of one owner, which proves nothing to
// anybody else: it is a way to see an arena play. Where they cannot be
// registered, it says what is missing.
func (s *server) reinforce(ctx context.Context, files []kit.ArenaFile, d sandbox.Driver, root string, ks map[string]kind.Kind, parallel int) (*reinforced, error) {
	out := &reinforced{}
	need := map[int][]string{} // the arenas that ask for the nth validator
	most := 1
	for _, f := range files {
		a, err := s.Platform.Arena(ctx, f.ID)
		if err != nil {
			return nil, err
		}
		n := validatorsFor(a, s.Options.Kits.Incentives())
		switch {
		case n < 2:
			continue
		case f.Ledger != "":
			s.Options.Sayf("arena %s: its rules need %d validators, and one is here: until others play (agon validator --url %s) nothing is decided", f.ID, n, s.URL())
			continue
		case n > maxReinforced:
			s.Options.Sayf("arena %s: its rules need %d validators, and %d are here: until others play (agon validator --url %s) nothing is decided", f.ID, n, maxReinforced, s.URL())
			n = maxReinforced
		}
		most = max(most, n)
		for i := 2; i <= n; i++ {
			need[i] = append(need[i], f.ID)
		}
	}
	each, spoken := max(1, parallel/most), client.Spoken()
	var names []string
	for i := 2; i <= most; i++ {
		name := fmt.Sprintf("validator-%d", i)
		party, err := kit.LoadParty(s.Data.Path("wallets"), name)
		if err != nil {
			return out, err
		}
		for _, f := range files {
			if !slices.Contains(need[i], f.ID) {
				continue
			}
			if err := s.EnsureSubnet(ctx, f.Arena(), party); err != nil {
				return out, err
			}
		}
		if _, err := s.Platform.Abandon(ctx, party.Hotkey.SS58(), "restart"); err != nil {
			return out, err
		}
		c, err := client.New(s.Near(), party.Hotkey)
		if err != nil {
			return out, err
		}
		source, err := kit.RemoteSource(c, s.Data.Path(name))
		if err != nil {
			return out, err
		}
		p, err := kit.NewPlayer(ctx, s.Options, d, root, ks, source, s.Data.Path(name, "trees"))
		if err != nil {
			return out, err
		}
		p.Gateway = &gateways{own: p.Own, key: party.Hotkey, over: s.Options.Over}
		out.players = append(out.players, p)
		out.loops = append(out.loops, newValidator(s.Options, p, c, &spoken, need[i], each, "", nil, nil))
		names = append(names, name)
	}
	if len(names) > 0 {
		s.Options.Sayf("rules of these arenas need more than one validator, so this machine plays as %d: validator, %s", most, strings.Join(names, ", "))
	}
	return out, nil
}
