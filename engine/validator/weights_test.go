package validator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
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
