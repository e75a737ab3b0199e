package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// BenchmarkClaimAndComplete is a lease and its result: without calls, with the
// closing statement of the arena's gateway that there were none, with the
// receipts of two calls, which nobody checks, and with the statement over them,
// where each receipt's signature is checked too. What the gateway does for them
// is not counted.
func BenchmarkClaimAndComplete(b *testing.B) {
	for _, what := range []string{"plain", "silent", "receipts", "statement"} {
		b.Run(what, func(b *testing.B) {
			books, err := gateway.NewBooks(bg, gateway.BooksConfig{})
			must(b, err)
			f := newFixture(b, 1, func(_ *Config, a *agon.Arena) {
				if a.SubmissionsPerColdkey = 0; what == "silent" || what == "statement" {
					a.Policy.GatewayKey = books.Signer()
				}
			})
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				f.submit(miner1, "code "+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)))
				b.StartTimer()
				l := f.claim(val1)
				b.StopTimer()
				r := scored(l, 1)
				switch what {
				case "silent":
					_, r.Statement = called(b, books, l.Run.Run, l.Attempt, 0)
					r.Cost = 0
				case "receipts":
					r.Receipts, _ = called(b, books, l.Run.Run, l.Attempt, 2)
				case "statement":
					r.Receipts, r.Statement = called(b, books, l.Run.Run, l.Attempt, 2)
				}
				b.StartTimer()
				f.result(val1, l, r)
			}
		})
	}
}

// BenchmarkCheckStatement is what a platform does for a statement over ten calls.
func BenchmarkCheckStatement(b *testing.B) {
	books, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(b, err)
	receipts, s := called(b, books, "run", 1, 10)
	for b.Loop() {
		must(b, gateway.CheckStatement(s, "run", 1, receipts, []string{books.Signer()}))
	}
}
