package tools_test

import (
	"path/filepath"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/gateway"
)

// TestOneSetOfBooks: calls of tools are reserved, settled and signed in the
// gateway's books: durable before the answer, a chain for each session.
func TestOneSetOfBooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gateway.db")
	st, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	books, err := gateway.NewBooks(t.Context(), gateway.BooksConfig{Journal: st})
	if err != nil {
		t.Fatal(err)
	}
	back := &stub{}
	h := tools.New(tools.Config{Search: back, Books: books})
	s := open(t, h, tools.SessionConfig{UID: 1, Budget: 6000, Run: "run-1", Attempt: 2, Task: "claims/a"})
	for i, want := range []int{200, 200, 400} { // the third is beyond the budget
		if status, out := call(t, h, s, web("q")); status != want {
			t.Fatalf("call %d: %d %v", i, status, out)
		}
	}
	back.err = &tools.Failure{Class: "server"}
	if status, _ := call(t, h, s, `{"tool":"test_tool","args":["x"],"kwargs":{}}`); status != 200 {
		t.Fatal("a free call failed")
	}
	var chain []agon.Receipt
	for _, r := range s.Log() {
		if r.Signed == nil {
			if r.Outcome != tools.OutcomeBudget {
				t.Errorf("%s, %s: not signed", r.Tool, r.Outcome)
			}
			continue
		}
		if r.Signed.ID != r.ReceiptID || r.Signed.Cost != r.Cost || r.Signed.Model != r.Tool || r.Signed.Task != "claims/a" || r.Signed.RequestHash.Hex() != r.RequestHash {
			t.Errorf("receipt %+v, signed %+v", r, r.Signed)
		}
		chain = append(chain, *r.Signed)
	}
	c := gateway.VerifyChain(chain, []string{books.Signer()})
	if len(c.Problems) > 0 || c.Receipts != 3 || c.Cost != 5000 {
		t.Errorf("chain %+v", c)
	}
	key := "run-1/tools/" + s.ID()
	kept, err := st.RunBooks(t.Context(), key, 2)
	if err != nil || len(kept.Accounts) != 1 || kept.Accounts[0].Spent.Micros != 5000 || len(kept.Accounts[0].Holds) != 0 || kept.Last == nil || kept.Last.N != 3 {
		t.Errorf("journal %+v, %v", kept, err)
	}

	// Books that cannot be written: no answer is given, and the fault is ours.
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if status, out := call(t, h, s, `{"tool":"test_tool","args":["x"],"kwargs":{}}`); status != 400 || out["detail"] != tools.TextFailed {
		t.Errorf("without books: %d %v", status, out)
	}
	if e := s.Evidence(); !e.CanaryFailed || e.LastError != "books" || e.Recovered {
		t.Errorf("evidence %+v", e)
	}

	// A crash: what is left open is closed, what was spent stays spent.
	st, err = sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := gateway.NewBooks(t.Context(), gateway.BooksConfig{Journal: st}); err != nil {
		t.Fatal(err)
	}
	if open, err := st.OpenBooks(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open after a restart: %+v, %v", open, err)
	}
	if kept, err := st.RunBooks(t.Context(), key, 2); err != nil || kept.Accounts[0].Spent.Micros != 5000 || len(kept.Accounts[0].Holds) != 0 {
		t.Errorf("after a restart %+v, %v", kept, err)
	}
}
