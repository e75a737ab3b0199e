package run

import (
	"context"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/wire/trajrl"
)

// trajrlRoutes are TrajectoryRL's public routes over a policy-pack arena.
func (s *server) trajrlRoutes(a agon.Arena) (http.Handler, error) {
	model := s.o.Getenv("AGON_LLM_MODEL")
	if s.o.Getenv("AGON_LLM_BASE_URL") == "" {
		model = scripted.Name
	}
	return trajrl.New(trajrl.Config{
		API: s.platform, Views: s.platform, Arena: a.ID, BlockTime: s.ledger.BlockTime(), Dir: s.data.Path("trajrl"), Model: model, Now: time.Now, Log: s.o.Log,
		Metagraph: func(ctx context.Context) (*ledger.Metagraph, error) { return s.graphsOf(a).Metagraph(ctx, a.Netuid) },
		Verifier: &dialect.Verifier{
			Now: time.Now, Replay: replay{s.platform}, Members: members{s, a.ID}, Strict: s.o.Getenv("AGON_STRICT_SIGNATURES") != "",
		},
	})
}
