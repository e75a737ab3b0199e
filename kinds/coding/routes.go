package coding

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/coding/play"
	"github.com/agon-arena/agon/kinds/coding/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// Settings of Ridges' routes, in the environment of the server.
const (
	envAdmin    = "AGON_RIDGES_ADMIN_KEY"
	envScreener = "AGON_RIDGES_SCREENER_PASSWORD"
	envJudge    = "AGON_RIDGES_JUDGE_KEY"
	envFrozen   = "AGON_RIDGES_FROZEN"
	envCooldown = "AGON_RIDGES_COOLDOWN"
	envPrice    = "AGON_RIDGES_PRICE_RAO"
	envProvider = "AGON_RIDGES_PROVIDER_URL"
	envKeys     = "AGON_RIDGES_KEYS"
	envSalt     = "AGON_RIDGES_ALIAS_SALT"
	envA0       = "AGON_RIDGES_A0"
)

// cooldown is how long a hotkey waits between uploads where nothing else is set.
const cooldown = 24 * time.Hour

// ridgesRoutes are Ridges' routes over a coding arena.
func ridgesRoutes(s *kit.Server, arena agon.Arena) (http.Handler, error) {
	get := s.Options.Getenv
	wrong := func(name, want string) error {
		return &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: name, Message: fmt.Sprintf("%s is %q: want %s", name, get(name), want), Mend: "correct it, or leave it out"}
	}
	docs, err := s.Platform.Documents(context.Background(), "ridges", s.Data.Path("ridges"), wire.SecretName)
	if err != nil {
		return nil, err
	}
	c := wire.Config{
		Platform: s.Platform, Arena: arena.ID, Dir: s.Data.Path("ridges"), Documents: docs, Log: s.Options.Log, Cooldown: cooldown,
		Verifier: &dialect.Verifier{
			Now: time.Now, Replay: s.Replay(), Members: s.Members(arena.ID), Strict: get("AGON_STRICT_SIGNATURES") != "",
		},
		Tree:     (&validator.TreeCache{Dir: s.Data.Path("ridges-trees"), Source: s.Blobs}).Tree,
		Owner:    s.Operator.Hotkey.SS58(),
		AdminKey: get(envAdmin), ScreenerPassword: get(envScreener), JudgeKey: get(envJudge), Frozen: get(envFrozen), Salt: get(envSalt), A0: get(envA0),
	}
	if c.A0 != "" && c.A0 != wire.A0Signed && c.A0 != wire.A0Unsigned {
		return nil, wrong(envA0, "signed or unsigned")
	}
	if entries, seats := (&play.Kind{}).Vets(&arena); (entries || seats) && c.JudgeKey == "" {
		return nil, wrong(envJudge, "the key of the judges that arena "+arena.ID+" asks (options.vetting)")
	}
	if v := get(envCooldown); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return nil, wrong(envCooldown, "a time such as 24h, or 0s")
		}
		c.Cooldown = d
	}
	if v := get(envPrice); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return nil, wrong(envPrice, "rao of alpha, from 0")
		}
		if c.Price = n; n > 0 {
			c.Chain = s.Burns(arena)
		}
	}
	if url := get(envProvider); url != "" {
		keys, err := sealerKeys(s)
		if err != nil {
			return nil, err
		}
		sealer, err := wire.NewSealer(keys)
		if err != nil {
			return nil, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: envKeys, Message: envKeys + ": " + err.Error(), Mend: "make one: openssl rand -base64 32"}
		}
		c.Keys = &wire.Keys{URL: url, Sealer: sealer}
	}
	b, err := wire.New(c)
	if err != nil {
		return nil, err
	}
	s.Background(b.Run)
	return b.Handler(), nil
}

// sealerKeys are the keys under which the provider's keys of miners lie on disk:
// those that are set, or one that is made in the data directory.
func sealerKeys(s *kit.Server) (string, error) {
	if v := s.Options.Getenv(envKeys); v != "" {
		return v, nil
	}
	path := s.Data.Path("ridges-seal.key")
	b, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !os.IsNotExist(err) {
		return "", fmt.Errorf("read the key of secrets: %w", err)
	}
	key, err := wire.NewKey()
	if err != nil {
		return "", err
	}
	text := base64.StdEncoding.EncodeToString(key)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the key of secrets: %w", err)
	}
	return text, nil
}
