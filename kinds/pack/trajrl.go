package pack

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/kinds/pack/wire"
	"github.com/agon-arena/agon/ledger"
)

// envFee is what an entry by the field's clients costs, in rao of alpha.
const envFee = "AGON_TRAJRL_FEE_RAO"

// trajrlRoutes are TrajectoryRL's public routes over a policy-pack arena.
func trajrlRoutes(ctx context.Context, s *kit.Server, a agon.Arena) (http.Handler, error) {
	model := s.Options.Getenv("AGON_LLM_MODEL")
	if s.Options.Getenv("AGON_LLM_BASE_URL") == "" {
		model = scripted.Name
	}
	fee := int64(0)
	if v := s.Options.Getenv(envFee); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return nil, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: envFee, Message: envFee + ": want rao of alpha, from 0"}
		}
		fee = n
	}
	var chain ledger.Burns
	if fee > 0 {
		chain = s.Burns(a)
	}
	dir := s.Data.Path("trajrl")
	kept, err := s.Platform.Documents(ctx, "trajrl", dir, wire.KeyDocument)
	if err != nil {
		return nil, err
	}
	return wire.New(ctx, wire.Config{
		Platform: s.Platform, Arena: a.ID, BlockTime: s.Ledger.BlockTime(), Documents: kept, Dir: dir, Model: model, Now: time.Now, Log: s.Options.Log,
		Fee: fee, Chain: chain,
		Epochs:    a.Options[play.OptionEpochs] == "on",
		Metagraph: func(ctx context.Context) (*ledger.Metagraph, error) { return s.Graphs(a).Metagraph(ctx, a.Netuid) },
		Verifier: &dialect.Verifier{
			Now: time.Now, Replay: s.Replay(), Members: s.Members(a.ID), Strict: s.Options.Getenv("AGON_STRICT_SIGNATURES") != "",
		},
	})
}
