package platform

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
)

// BenchmarkClaimAndComplete is a lease and its result: without calls, with the
// closing statement of the arena's gateway that there were none, with the
// receipts of two calls, which nobody checks, and with the statement over them,
// where each receipt's signature is checked too. What the gateway does for them
// is not counted. The four take turns, so that what else the machine does falls
// on all alike, and what counts is the median of the processor time.
func BenchmarkClaimAndComplete(b *testing.B) {
	ways := []string{"plain", "silent", "receipts", "statement"}
	var fs []*fixture
	books, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(b, err)
	for _, what := range ways {
		fs = append(fs, newFixture(b, 1, func(_ *Config, a *agon.Arena) {
			if a.SubmissionsPerColdkey = 0; what == "silent" || what == "statement" {
				a.Policy.GatewayKey = books.Signer()
			}
		}))
	}
	var took [4][]time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range fs {
			way := (n + i) % len(fs)
			f := fs[way]
			f.submit(miner1, fmt.Sprintf("code %d", n))
			var l *client.Lease
			used := processor(b, func() { l = f.claim(val1) })
			r := scored(l, 1)
			switch run := l.Run.Run; ways[way] {
			case "silent":
				_, r.Statement = called(b, books, run, l.Attempt, 0)
				r.Cost = 0
			case "receipts":
				r.Receipts, _ = called(b, books, run, l.Attempt, 2)
			case "statement":
				r.Receipts, r.Statement = called(b, books, run, l.Attempt, 2)
			}
			took[way] = append(took[way], used+processor(b, func() { f.result(val1, l, r) }))
		}
	}
	median := func(way int) float64 {
		slices.Sort(took[way])
		return float64(took[way][len(took[way])/2].Nanoseconds()) / 1000
	}
	more := func(with, without int) float64 { return 100 * (median(with)/median(without) - 1) }
	b.ReportMetric(median(0), "cpu-µs/pair")
	b.ReportMetric(more(1, 0), "%-more-alone")
	b.ReportMetric(more(3, 2), "%-more-with-2-calls")
}

// processor is the processor time of this process while f runs.
func processor(b *testing.B, f func()) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}

// BenchmarkCheckStatement is what a platform does for a statement over ten calls.
func BenchmarkCheckStatement(b *testing.B) {
	books, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(b, err)
	receipts, s := called(b, books, "run", 1, 10)
	var k gateway.Checker
	for b.Loop() {
		must(b, k.Statement(s, "run", 1, receipts, []string{books.Signer()}))
	}
}
