package consensus

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// fat is a store whose payloads are as large as they may be.
type fat map[string][]byte

func (f fat) Put(context.Context, []byte) (string, error) { return "", errors.New("it takes nothing") }

func (f fat) Get(_ context.Context, address string) ([]byte, string, error) {
	b, ok := f[address]
	if !ok {
		return nil, "", ErrNotHere
	}
	return b, "fat", nil
}

// Liars fill every payload of every window that a validator catches up on: it holds no
// more of them than it may, asks for the others again later, and blames no store for that.
func TestAheadIsBounded(t *testing.T) {
	store := fat{}
	var list []spoken
	for i := range 4 * aheadBytes / MaxPayload {
		b := append(bytes.Repeat([]byte("\n"), i), sound().Canonical()...) // all differ
		b = append(b, bytes.Repeat([]byte(" "), MaxPayload-len(b))...)
		at := string(agon.Sum(b))
		store[at] = b
		list = append(list, spoken{words: words{first: &pointer{at: packfile.Pointer{Address: at}}}})
	}
	n := &Node{cfg: NodeConfig{Store: store}, unread: silences[string]{}}
	got, errs := n.readAll(t.Context(), 1, list, readers*aheadWindows, aheadBytes)
	kept, full := 0, 0
	for i := range list {
		switch {
		case errs[i] == nil && got[i].Intact:
			kept += len(store[list[i].first.at.Address])
		case errors.Is(errs[i], errFull) && got[i].Payload.Costs == nil:
			full++
		default:
			t.Fatalf("payload %d: %v", i, errs[i])
		}
	}
	if kept > aheadBytes || kept < aheadBytes/2 || full == 0 || len(n.unread) != 0 {
		t.Errorf("%d bytes are kept, %d payloads wait, %d servers are muted", kept, full, len(n.unread))
	}
}
