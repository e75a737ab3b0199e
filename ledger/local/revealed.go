package local

import (
	"context"
	"maps"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/timelock"
)

// keepRevealed is how many opened commitments of a hotkey are kept, as on the chain.
const keepRevealed = 10

// Revealed lists what a hotkey's timelocked commitments held that are opened, oldest first, the last ten.
func (l *Ledger) Revealed(ctx context.Context, netuid uint16, hotkey string) (out []ledger.Revealed, err error) {
	err = l.view(ctx, func(s *state) error {
		sub, err := s.subnet(netuid)
		if err != nil {
			return err
		}
		out = slices.Clone(sub.Revealed[hotkey])
		return nil
	})
	return out, err
}

// openCommitments opens the timelocked fields whose round is out. As on the chain
// the field is gone then, with the commitment where nothing else is in it, and
// what cannot be opened is gone without a trace.
func (s *state) openCommitments(sub *subnet) {
	for _, hotkey := range slices.Sorted(maps.Keys(sub.Commitments)) {
		s.openCommitment(sub, hotkey, sub.Commitments[hotkey])
	}
}

func (s *state) openCommitment(sub *subnet, hotkey string, c *commitment) {
	out := func(f ledger.Field) bool { return f.Type == ledger.FieldTimelock && s.Rounds[f.Round] != nil }
	if !slices.ContainsFunc(c.Fields, out) {
		return
	}
	left := []ledger.Field{}
	for _, f := range c.Fields {
		if !out(f) {
			left = append(left, f)
			continue
		}
		plain, err := timelock.Decrypt(f.Data, s.Rounds[f.Round])
		if err != nil {
			continue
		}
		if sub.Revealed == nil {
			sub.Revealed = map[string][]ledger.Revealed{}
		}
		all := append(slices.Clone(sub.Revealed[hotkey]), ledger.Revealed{Data: plain, Block: s.Block})
		sub.Revealed[hotkey] = all[max(0, len(all)-keepRevealed):]
	}
	c.Fields, c.Opened = left, len(left) == 0
}
