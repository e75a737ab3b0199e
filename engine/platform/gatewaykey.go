package platform

import (
	"context"
	"fmt"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/gateway"
)

// maxGatewayKeys bounds how often an arena's gateway changes its key.
const maxGatewayKeys = 100

// GatewayKey puts another key of the arena's gateway in force: one that the key
// before has named, or, where that one is revoked, one that the operator names.
// From now on statements need the new key; what was taken before is checked
// with the key of its time.
func (p *Platform) GatewayKey(ctx context.Context, c Caller, arena string, r client.GatewayKey) error {
	if err := operatorOnly(c); err != nil {
		return err
	}
	if err := needReason(r.Reason); err != nil {
		return err
	}
	bad := func(field, format string, args ...any) error {
		e := refuse(422, "bad_gateway_key", format, args...)
		e.Field = field
		return e
	}
	old := agon.RetiredKey{Until: p.now(), Next: r.Key, Revoked: r.Revoke}
	switch {
	case r.Revoke == (r.Succession != nil):
		return bad("succession", "give the old key's succession, or revoke it and name the new key")
	case r.Revoke:
		if _, err := auth.ParseSS58(r.Key); err != nil {
			return bad("key", "%.60q is not the address of a key", r.Key)
		}
	default:
		if err := gateway.CheckSuccession(*r.Succession); err != nil {
			return bad("succession", "%v", err)
		}
		if r.Key != "" && r.Key != r.Succession.New {
			return bad("key", "the succession names %s", r.Succession.New)
		}
		old.Next, old.Succession = r.Succession.New, r.Succession
	}
	return p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(arena)
		if err != nil {
			return found(err, "arena", arena)
		}
		if old.Key = a.Policy.GatewayKey; old.Key == "" {
			return bad("key", "arena %s names no gateway", arena)
		}
		if r.Succession != nil && r.Succession.Old != old.Key {
			return bad("succession", "it is of %s, the arena's key is %s", r.Succession.Old, old.Key)
		}
		if old.Next == old.Key || slices.ContainsFunc(a.GatewayKeys, func(k agon.RetiredKey) bool { return k.Key == old.Next }) {
			return bad("key", "%s was retired: it does not come back", old.Next)
		}
		if len(a.GatewayKeys) == maxGatewayKeys {
			return bad("key", "it has changed %d times, which is the most", maxGatewayKeys)
		}
		a.GatewayKeys = append(slices.Clone(a.GatewayKeys), old)
		a.Policy.GatewayKey = old.Next
		if err := tx.PutArena(a); err != nil {
			return err
		}
		what := "rotate_gateway_key"
		if r.Revoke {
			what = "revoke_gateway_key"
		}
		return p.logAction(tx, c, what, arena, r.Reason, fmt.Sprintf("gateway_key %s to %s", old.Key, old.Next))
	})
}

// keepGatewayKeys carries what an arena's gateway has been over a start: an
// arena file that still names a key of before means the one that followed it.
func keepGatewayKeys(now *agon.Arena, old agon.Arena) {
	now.GatewayKeys = old.GatewayKeys
	if slices.ContainsFunc(old.GatewayKeys, func(k agon.RetiredKey) bool { return k.Key == now.Policy.GatewayKey }) {
		now.Policy.GatewayKey = old.Policy.GatewayKey
	}
}
