package rpc

import (
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/scale"
)

// What a second mechanism has of its own stands at its storage index, and its
// metagraph shows it; items of the subnet have no such key.
func TestMechanismItems(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	owner := ledgertest.Key(t, "owner")
	do := func(call string, args scale.Map) error {
		t.Helper()
		v := scale.Value{Name: "SubtensorModule", Of: scale.Value{Name: call, Of: args}}
		events, err := s.apply(ctx, caller{signer: owner}, v)
		for _, e := range events {
			if _, err := scale.Encode(nil, s.meta.EventType, e); err != nil {
				t.Errorf("%s: event: %v", call, err)
			}
		}
		return err
	}
	m, err := l.Metagraph(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SetRule(ctx, 1, m.OwnerColdkey, "mechanism_count", 2); err != nil {
		t.Fatal(err)
	}
	if err := l.SetMechanismSplit(ctx, 1, m.OwnerColdkey, []uint16{65534, 1}); err != nil {
		t.Fatal(err)
	}
	if err := do("set_mechanism_weights", scale.Map{"netuid": uint64(1), "mecid": uint64(1), "dests": []any{uint64(0)}, "weights": []any{uint64(9)}, "version_key": uint64(0)}); err != nil {
		t.Fatal(err)
	}
	for _, mecid := range []uint64{2, 16, 255} {
		if err := do("set_mechanism_weights", scale.Map{"netuid": uint64(1), "mecid": mecid}); err == nil || err.(*ledger.Error).Name != "MechanismDoesNotExist" {
			t.Errorf("mechanism %d: %v", mecid, err)
		}
	}
	n, err := s.newest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.reading(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		item string
		keys []any
		is   bool
	}{
		{"Weights", []any{uint64(4097), uint64(0)}, true},
		{"Weights", []any{uint64(1), uint64(0)}, false},
		{"Weights", []any{uint64(8193), uint64(0)}, false},
		{"LastUpdate", []any{uint64(4097)}, true},
		{"Incentive", []any{uint64(4097)}, true},
		{"Incentive", []any{uint64(1)}, true},
		{"Tempo", []any{uint64(1)}, true},
		{"Tempo", []any{uint64(4097)}, false},
		{"MechanismCountCurrent", []any{uint64(1)}, true},
		{"MechanismEmissionSplit", []any{uint64(1)}, true},
	} {
		key, err := s.meta.StorageKey("SubtensorModule", c.item, c.keys...)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := r.stored(key); err != nil || (b != nil) != c.is {
			t.Errorf("%s%v is %x: %v", c.item, c.keys, b, err)
		}
	}
	prefix, err := s.meta.StorageKey("SubtensorModule", "LastUpdate")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := r.list(prefix); err != nil || len(keys) != 2 {
		t.Errorf("%d keys of LastUpdate: %v", len(keys), err)
	}
	for id, is := range []bool{true, true, false} {
		x, err := s.meta.Method("SubnetInfoRuntimeApi", "get_mechagraph")
		if err != nil {
			t.Fatal(err)
		}
		v, err := r.api("SubnetInfoRuntimeApi_get_mechagraph", x, []any{uint64(1), uint64(id)})
		if m, ok := v.(scale.Map); err != nil || (ok && m != nil) != is {
			t.Errorf("mechanism %d: %v %v", id, v, err)
		}
	}
}
