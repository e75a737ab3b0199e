package pack

import (
	"context"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/wire"
	"github.com/agon-arena/agon/ledger"
)

// trajrlRoutes are TrajectoryRL's public routes over a policy-pack arena.
func trajrlRoutes(s *kit.Server, a agon.Arena) (http.Handler, error) {
	model := s.Options.Getenv("AGON_LLM_MODEL")
	if s.Options.Getenv("AGON_LLM_BASE_URL") == "" {
		model = scripted.Name
	}
	return wire.New(wire.Config{
		Platform: s.Platform, Arena: a.ID, BlockTime: s.Ledger.BlockTime(), Dir: s.Data.Path("trajrl"), Model: model, Now: time.Now, Log: s.Options.Log,
		Epochs:    a.Options[play.OptionEpochs] == "on",
		Metagraph: func(ctx context.Context) (*ledger.Metagraph, error) { return s.Graphs(a).Metagraph(ctx, a.Netuid) },
		Verifier: &dialect.Verifier{
			Now: time.Now, Replay: s.Replay(), Members: s.Members(a.ID), Strict: s.Options.Getenv("AGON_STRICT_SIGNATURES") != "",
		},
	})
}
