package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/keeper"
)

// weightsEvery is how often a validator asks its platform for weights. The keeper
// sets them once a tempo, whatever is asked.
const weightsEvery = 30 * time.Second

// setWeights gives a platform's weights on the ledger.
type setWeights struct {
	up     *seedPlatform
	ledger keeper.Ledger
	conf   keeper.Config
	kept   *keeper.Keeper // nil until the ledger has answered

	mu   sync.Mutex
	at   time.Time // of the last submission; guarded by mu
	last string    // the last error, empty when all is well; guarded by mu
}

// newSetWeights gives them on the ledger of AGON_LEDGER, or on that of the server at --url.
func newSetWeights(o kit.Options, v validatorOptions, up *seedPlatform, dir string) (*setWeights, error) {
	p, err := dial.Parse(o.Getenv("AGON_LEDGER"))
	if err == nil && p.Own() {
		p, err = dial.Parse(v.client.URL())
	}
	if err != nil {
		return nil, err
	}
	l := dial.NewLazy(p, dial.Config{Over: o.Over, Relays: strings.Fields(o.Getenv("AGON_DRAND_RELAYS")), Signer: func(address string) (auth.Signer, error) {
		if address != v.key.SS58() {
			return nil, fmt.Errorf("no key of %s is here", address)
		}
		return v.key, nil
	}})
	return &setWeights{up: up, ledger: l, conf: keeper.Config{
		Ledger: l, Netuid: v.netuid, Hotkey: v.key.SS58(), VersionKey: agon.DefaultWeightsVersion, Path: filepath.Join(dir, fmt.Sprintf("weights-%d.json", v.netuid)),
	}}, nil
}

// run gives weights until ctx ends.
func (s *setWeights) run(ctx context.Context, every time.Duration, failed func(error)) {
	t := time.NewTicker(every)
	defer t.Stop()
	for ctx.Err() == nil {
		set, err := s.tick(ctx)
		s.mu.Lock()
		word := ""
		if err != nil {
			word = err.Error()
		}
		if news := word != "" && word != s.last; news && ctx.Err() == nil {
			failed(err)
		}
		if s.last = word; set {
			s.at = time.Now().UTC() //nolint:forbidigo // when it was said, for people
		}
		s.mu.Unlock()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// state implements wire.ValidatorConfig.Weights.
func (s *setWeights) state() (time.Time, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at, s.last
}

// tick asks the platform and gives what is due; set: weights, or their promise, went out.
func (s *setWeights) tick(ctx context.Context) (set bool, err error) {
	want, err := s.want(ctx)
	if err != nil {
		return false, err
	}
	if s.kept == nil {
		if err := s.open(ctx); err != nil {
			return false, err
		}
	}
	rep, err := s.kept.Tick(ctx, func(m *ledger.Metagraph) ([]uint16, []uint16, error) {
		list := make([]float64, len(m.Neurons))
		for uid, w := range want {
			if uid >= len(list) {
				return nil, nil, fmt.Errorf("the platform names uid %d, and the subnet has %d", uid, len(list))
			}
			list[uid] = w
		}
		return ledger.NormalizeWeights(list)
	})
	for _, a := range rep.Actions {
		set = set || a == keeper.ActionSet || a == keeper.ActionCommitted
	}
	return set, err
}

func (s *setWeights) open(ctx context.Context) error {
	if g, ok := s.ledger.(interface {
		Genesis(ctx context.Context) (string, error)
	}); ok {
		switch hash, err := g.Genesis(ctx); {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return fmt.Errorf("ask which chain subnet %d is on: %w", s.conf.Netuid, err)
		default:
			s.conf.Genesis, s.conf.Path = hash, filepath.Join(filepath.Dir(s.conf.Path), keeper.File(hash, s.conf.Netuid, 0, s.conf.Hotkey))
		}
	}
	k, err := keeper.Open(s.conf)
	s.kept = k
	return err
}

// maxWeights bounds the platform's answer.
const maxWeights = 1 << 20

// want are the platform's weights by uid.
func (s *setWeights) want(ctx context.Context) (map[int]float64, error) {
	b, err := s.up.send(ctx, "GET", "/v1/weights", nil, maxWeights)
	if err != nil {
		return nil, fmt.Errorf("ask for weights: %w", err)
	}
	return readWeights(b)
}

func readWeights(b []byte) (map[int]float64, error) {
	var in struct {
		Weights map[string]float64 `json:"weights"`
	}
	if len(b) > maxWeights || json.Unmarshal(b, &in) != nil || len(in.Weights) == 0 {
		return nil, errors.New("ask for weights: the answer is not what it should be")
	}
	out := make(map[int]float64, len(in.Weights))
	for k, w := range in.Weights {
		uid, err := strconv.Atoi(k)
		if err != nil || uid < 0 || uid > math.MaxUint16 || !(w >= 0) || math.IsInf(w, 0) {
			return nil, errors.New("ask for weights: one of them is not a weight")
		}
		out[uid] = w
	}
	return out, nil
}
