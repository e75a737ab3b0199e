package validator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
)

// wants are the targets of arenas, by id.
type wants map[string]map[uint16]uint16

func (w wants) Arenas(context.Context) (list []client.Arena, err error) {
	for id := range w {
		list = append(list, client.Arena{Arena: agon.Arena{ID: id, Netuid: 1}})
	}
	return list, nil
}

func (w wants) Target(_ context.Context, arena string) (*client.Target, error) {
	t := &client.Target{Netuid: 1}
	for uid := range uint16(16) {
		if v, ok := w[arena][uid]; ok {
			t.UIDs, t.Values = append(t.UIDs, uid), append(t.Values, v)
		}
	}
	return t, nil
}

// Arenas that share a subnet have equal parts of it, and a part that must be
// burned is never anybody else's.
func TestWantJoinsArenas(t *testing.T) {
	owned := &ledger.Metagraph{Netuid: 1, OwnerHotkey: "owner", Neurons: []ledger.Neuron{{UID: 0, Hotkey: "a"}, {UID: 1, Hotkey: "b"}, {UID: 2, Hotkey: "owner"}}}
	left := &ledger.Metagraph{Netuid: 1, OwnerHotkey: "gone", Neurons: owned.Neurons}
	for _, c := range []struct {
		name   string
		m      *ledger.Metagraph
		wants  wants
		uids   []uint16
		values []uint16
		held   string
	}{
		{"one arena's vector stays as it is", left, wants{"a": {3: 7, 4: 9}}, []uint16{3, 4}, []uint16{7, 9}, ""},
		{"one arena that burns without an owner", left, wants{"a": {}}, nil, nil, ""},
		{"two arenas have equal parts", owned, wants{"a": {1: 65535, 2: 65535}, "b": {3: 65535}}, []uint16{1, 2, 3}, []uint16{32768, 32768, 65535}, ""},
		{"large numbers give no larger part", owned, wants{"a": {1: 65535}, "b": {3: 1}}, []uint16{1, 3}, []uint16{65535, 65535}, ""},
		{"the same miner in both", owned, wants{"a": {1: 10, 3: 10}, "b": {3: 20}}, []uint16{1, 3}, []uint16{21845, 65535}, ""},
		{"a burned part goes to the owner", owned, wants{"a": {}, "b": {3: 65535, 4: 65535}}, []uint16{2, 3, 4}, []uint16{65535, 32768, 32768}, ""},
		{"zeros are a burned part", owned, wants{"a": {1: 0}, "b": {3: 65535}}, []uint16{2, 3}, []uint16{65535, 65535}, ""},
		{"a burned part without an owner", left, wants{"a": {}, "b": {3: 65535, 4: 65535}}, nil, nil, "arena a must be burned"},
		{"the last arena's part is burned", left, wants{"a": {3: 65535}, "b": {}}, nil, nil, "arena b must be burned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ids []string
			for id := range c.wants {
				ids = append(ids, id)
			}
			w := &Weights{Targets: c.wants}
			uids, values, held, err := w.want(t.Context(), c.m, ids)
			if err != nil || !slices.Equal(uids, c.uids) || !slices.Equal(values, c.values) {
				t.Errorf("got %v %v %v, want %v %v", uids, values, err, c.uids, c.values)
			}
			if (held == "") != (c.held == "") || !strings.Contains(held, c.held) {
				t.Errorf("held %q, want %q", held, c.held)
			}
		})
	}
}

// A ledger that cannot be opened is logged once for each error, and forgotten
// with its arena.
func TestUnopenedLedgers(t *testing.T) {
	var log bytes.Buffer
	n := 0
	targets := wants{"a": {}}
	w := &Weights{
		Targets: targets, Log: slog.New(slog.NewTextHandler(&log, nil)), Dir: t.TempDir(),
		Ledgers: func(string) (keeper.Ledger, error) { return nil, fmt.Errorf("error %d", n) },
		nets:    map[place]*net{}, unopened: map[place]string{},
	}
	var wg sync.WaitGroup
	for _, c := range []struct {
		error int
		said  bool
	}{{1, true}, {1, false}, {2, true}, {2, false}, {1, true}} {
		n = c.error
		if err := w.look(t.Context(), &wg); (err != nil) != c.said {
			t.Errorf("error %d: %v", n, err)
		}
		if len(w.unopened) != 1 {
			t.Errorf("kept %v", w.unopened)
		}
	}
	delete(targets, "a")
	if err := w.look(t.Context(), &wg); err != nil || len(w.unopened) != 0 {
		t.Errorf("%v, kept %v", err, w.unopened)
	}
}

// keyed are arenas of one subnet that name version keys.
type keyed map[string]uint64

func (k keyed) Arenas(context.Context) (list []client.Arena, err error) {
	for id, key := range k {
		list = append(list, client.Arena{Arena: agon.Arena{ID: id, Netuid: 1, WeightsVersion: key}})
	}
	return append(list, client.Arena{Arena: agon.Arena{ID: "elsewhere", Netuid: 2, WeightsVersion: 99}}), nil
}

func (k keyed) Target(context.Context, string) (*client.Target, error) {
	return &client.Target{Netuid: 1, UIDs: []uint16{0}, Values: []uint16{65535}}, nil
}

// A subnet whose owner demands a version key takes the weights of arenas that
// name it, and of two arenas the higher one holds.
func TestWeightsVersion(t *testing.T) {
	for _, c := range []struct {
		name   string
		demand uint64
		arenas keyed
		given  bool
	}{
		{"no demand", 0, keyed{"a": 0}, true},
		{"the default is 1", 1, keyed{"a": 0}, true},
		{"the default is not 2", 2, keyed{"a": 0}, false},
		{"named", 7, keyed{"a": 7}, true},
		{"too low", 8, keyed{"a": 7}, false},
		{"the highest of two", 7, keyed{"a": 7, "b": 3, "c": 0}, true},
		{"another subnet's key is not this one's", 50, keyed{"a": 7}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Stepped: true})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			h, err := local.Hyperparameters(local.PresetDemo)
			if err != nil {
				t.Fatal(err)
			}
			h.WeightsVersionKey = c.demand
			owner := ledgertest.Key(t, "owner")
			if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: owner, OwnerColdkey: ledgertest.Key(t, "cold"), Hyper: &h}); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Step(t.Context(), 30); err != nil {
				t.Fatal(err)
			}
			w := &Weights{
				Targets: c.arenas, Log: slog.New(slog.DiscardHandler), Dir: t.TempDir(), Hotkey: owner,
				Ledgers: func(string) (keeper.Ledger, error) { return l, nil },
				nets:    map[place]*net{}, unopened: map[place]string{},
			}
			var wg sync.WaitGroup
			err = w.look(t.Context(), &wg)
			wg.Wait()
			if err != nil {
				t.Fatal(err)
			}
			m, err := l.Metagraph(t.Context(), 1)
			if err != nil || (len(m.Weights) > 0) != c.given {
				t.Errorf("weights %v, %v", m.Weights, err)
			}
		})
	}
}
