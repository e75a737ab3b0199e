package audit

import (
	"slices"
	"time"

	"github.com/agon-arena/agon/gateway"
)

// gateways are the keys that may have signed a run's attempt that ended then:
// those asked for, else the arena's when the run was planned, or today's; and
// whatever signed successions join to one of these. The server's word alone
// adds no key. A key that was revoked counts until then.
func (k *checker) gateways(r *Run, ended time.Time) []string {
	keys := slices.Clone(k.current(r))
	if len(keys) == 0 {
		return nil
	}
	retired := k.b.Arena.GatewayKeys
	for range retired { // each pass joins at least one, or the last has
		for _, old := range retired {
			s := old.Succession
			if s == nil || s.Old != old.Key || gateway.CheckSuccession(*s) != nil {
				continue
			}
			if slices.Contains(keys, s.Old) != slices.Contains(keys, s.New) {
				keys = append(keys, s.Old, s.New)
			}
		}
	}
	for _, old := range retired {
		if old.Revoked && ended.After(old.Until) {
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == old.Key })
		}
	}
	if len(keys) == 0 {
		return []string{""} // none is left: no signer matches
	}
	return keys
}

func (k *checker) current(r *Run) []string {
	switch {
	case len(k.o.Gateways) > 0:
		return k.o.Gateways
	case r.Run.Policy.GatewayKey != "" && k.b.Arena.Policy.GatewayKey != "":
		return []string{r.Run.Policy.GatewayKey, k.b.Arena.Policy.GatewayKey}
	case r.Run.Policy.GatewayKey != "":
		return []string{r.Run.Policy.GatewayKey}
	case k.b.Arena.Policy.GatewayKey != "":
		return []string{k.b.Arena.Policy.GatewayKey}
	}
	return nil
}
