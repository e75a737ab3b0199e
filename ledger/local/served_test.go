package local

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
)

// Registrations that cost nothing evict nobody; what the coldkey pays for does.
func TestFreeRegistrationsEvictNobody(t *testing.T) {
	address := func() string {
		k, err := auth.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		return k.SS58()
	}
	ctx := t.Context()
	l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := Hyperparameters(PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.MaxUIDs = 3
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: address(), OwnerColdkey: address(), Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	free := &Served{Ledger: l, Mode: RegistrationColdkey, Operator: address()}
	victim := address()
	for _, hotkey := range []string{victim, address()} {
		if _, err := free.Register(ctx, 1, hotkey, address()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := free.Register(ctx, 1, address(), address()); !errors.Is(err, ledger.ErrSubnetFull) {
		t.Fatalf("a full subnet took a free registration: %v", err)
	}
	if m, err := l.Metagraph(ctx, 1); err != nil || len(m.Neurons) != 3 {
		t.Fatal(m, err)
	} else if _, ok := m.Neuron(victim); !ok {
		t.Error("a free registration evicted a miner")
	}
	rich, poor := address(), address()
	if err := l.EndFaucet(ctx); err != nil {
		t.Fatal(err)
	}
	h.MinBurn, h.MaxBurn = 10, 1000
	if err := l.SetHyperparameters(ctx, 1, h); err != nil {
		t.Fatal(err)
	}
	if err := l.Fund(ctx, rich, 10); err != nil {
		t.Fatal(err)
	}
	paid := &Served{Ledger: l, Mode: RegistrationBurn}
	if _, err := paid.Register(ctx, 1, address(), poor); !errors.Is(err, ledger.ErrNotEnoughBalance) {
		t.Errorf("a coldkey without money: %v", err)
	}
	if _, err := paid.RegisterSigned(ctx, 1, address(), rich, poor); !errors.Is(err, ledger.ErrBadOrigin) {
		t.Errorf("another's money: %v", err)
	}
	if _, err := paid.Register(ctx, 1, address(), rich); err != nil {
		t.Errorf("a registration that is paid for: %v", err)
	}
}
