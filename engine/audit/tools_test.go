package audit

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
)

// TestVerifyTools: the chains of tool sessions are followed, and whatever is
// changed in them is told.
func TestVerifyTools(t *testing.T) {
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "g.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	books, err := gateway.NewBooks(t.Context(), gateway.BooksConfig{Journal: st})
	if err != nil {
		t.Fatal(err)
	}
	write := func() (list []tools.Receipt) {
		p, err := books.Purse(t.Context(), uuid.NewString(), 1, "tools", agon.Budget{Micros: 100, Calls: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i, tool := range []string{tools.SearchWeb, tools.LLMChat} {
			r := tools.Receipt{ReceiptID: fmt.Sprint("r", i), Tool: tool, Outcome: tools.OutcomeOK, RequestHash: agon.Sum(nil).Hex(), Reserved: 10, Cost: 7}
			if err := p.Reserve(r.ReceiptID, gateway.Amount{Micros: 10, Calls: 1}); err != nil {
				t.Fatal(err)
			}
			r.Signed = &agon.Receipt{ID: r.ReceiptID, Model: tool, RequestHash: agon.Sum(nil), Reserved: 10}
			if _, err := p.Settle(t.Context(), r.ReceiptID, gateway.Amount{Micros: 7, Calls: 1}, r.Signed); err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		return list
	}
	for _, c := range []struct {
		name   string
		change func([]tools.Receipt) []tools.Receipt
		status string
		cost   agon.Micros
	}{
		{"as written", func(l []tools.Receipt) []tools.Receipt { return l }, "ok", 7},
		{"two sessions", func(l []tools.Receipt) []tools.Receipt { return append(l, write()...) }, "ok", 14},
		{"another cost", func(l []tools.Receipt) []tools.Receipt { l[0].Cost = 1; return l }, "fail", 1},
		{"another tool", func(l []tools.Receipt) []tools.Receipt { l[0].Tool = tools.SearchX; return l }, "fail", 7},
		{"a signed one changed", func(l []tools.Receipt) []tools.Receipt { l[0].Signed.Reserved = 8; return l }, "fail", 7},
		{"one left out", func(l []tools.Receipt) []tools.Receipt { return l[1:] }, "fail", 0},
		{"signature taken off", func(l []tools.Receipt) []tools.Receipt { l[0].Signed, l[1].Signed = nil, nil; return l }, "warn", 7},
	} {
		k := &checker{o: Options{Gateways: []string{books.Signer()}}}
		cost := k.tools(c.change(write()))
		got := k.Checks[0]
		if got.Name != "tools" || got.Status != c.status || cost != c.cost {
			t.Errorf("%s: %+v, cost %d; want %s, %d", c.name, got, cost, c.status, c.cost)
		}
	}
	k := &checker{o: Options{Gateways: []string{"5Other"}}}
	if k.tools(write()); k.Checks[0].Status != "fail" || !strings.Contains(k.Checks[0].Detail, "not a gateway") {
		t.Errorf("another signer: %+v", k.Checks)
	}
}
