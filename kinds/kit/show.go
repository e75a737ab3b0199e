package kit

import "context"

// Show is what `agon up` goes on to play beside its demos, once all of them are decided, where
// no arena is named and no model configured: it takes nothing from the first minutes.
type Show struct {
	// Script (JSON) answers its models' calls.
	Script func() []byte
	// Run opens arenas by open and ends by itself.
	Run func(ctx context.Context, s *Server, open func(context.Context, ArenaFile) error) error
}

// scripts are those of its samples and of what it shows.
func (k Kit) scripts() (out []func() []byte) {
	if k.Script != nil {
		out = append(out, k.Script)
	}
	if k.Show != nil {
		out = append(out, k.Show.Script)
	}
	return out
}
