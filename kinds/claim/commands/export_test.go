package commands

import (
	"context"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// PlayPairs plays pairs as agon claim validator does.
func PlayPairs(p *kit.Player, blobs blob.Store) func(context.Context, wire.Pair) (wire.Result, error) {
	return (&seedPlayer{player: p, blobs: blobs}).play
}
