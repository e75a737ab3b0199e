package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// BenchmarkClaimAndComplete is a lease and its result, with and without the
// closing statement of the arena's gateway over two calls; what the gateway
// does for it is not counted.
func BenchmarkClaimAndComplete(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(map[bool]string{false: "plain", true: "statement"}[with], func(b *testing.B) {
			books, err := gateway.NewBooks(bg, gateway.BooksConfig{})
			must(b, err)
			f := newFixture(b, 1, func(_ *Config, a *agon.Arena) {
				if a.SubmissionsPerColdkey = 0; with {
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
				if with {
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
