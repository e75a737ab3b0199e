package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	"github.com/agon-arena/agon/kinds/research/wire"
)

// BenchmarkClaimSubmit is claims and submissions, each a signed request over
// HTTP by 64 miners at once, against SQLite with every acknowledged row on disk.
func BenchmarkClaimSubmit(b *testing.B) {
	f := open(b, func(c *coordinator.Config, w *wire.Config) {
		c.MaxActive = 1 << 20
		w.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	})
	task := f.task()
	const miners = 64
	tr := &http.Transport{MaxIdleConnsPerHost: miners}
	var clients []*miner.Client
	for i := range miners {
		c := f.miner(fmt.Sprintf("m%d", i))
		c.HTTP = &http.Client{Transport: tr}
		clients = append(clients, c)
	}
	ctx := context.Background()
	var n atomic.Int64
	var failed sync.Map
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				if err := claimSubmit(ctx, c, task.ID, i); err != nil {
					failed.Store(i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	failed.Range(func(_, err any) bool { b.Fatal(err); return false })
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

func claimSubmit(ctx context.Context, c *miner.Client, task string, i int64) error {
	cl, _, err := c.Claim(ctx, task, "", "a try")
	if err != nil {
		return err
	}
	s := &miner.Submission{ClaimID: cl.ID, BaseRef: "main", Patch: patch(fmt.Sprint(i + 10)), Sidecar: miner.Sidecar{Summary: "a try", ClaimedMetrics: json.RawMessage(`{"size": 1}`)}}
	_, err = c.Submit(ctx, s)
	var ae *miner.APIError
	if errors.As(err, &ae) {
		return fmt.Errorf("submit: %w", ae)
	}
	return err
}
