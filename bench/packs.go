package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"time"

	"github.com/agon-arena/agon/kinds/pack/ncd"
)

// loop is the straightforward way: every pair compressed with Python's zlib.
const loop = `
import json, sys, time, zlib
texts = [t.encode() for t in json.load(sys.stdin)]
start = time.perf_counter()
n = copies = 0
for i, a in enumerate(texts):
    for b in texts[i + 1:]:
        ca, cb, cab = len(zlib.compress(a, 9)), len(zlib.compress(b, 9)), len(zlib.compress(a + b, 9))
        n += 1
        copies += 1 - (cab - min(ca, cb)) / max(ca, cb) >= 0.8
print(json.dumps({"seconds": time.perf_counter() - start, "pairs": n, "copies": copies}))
`

// policies makes texts of 8 KB out of a vocabulary, the last one a near copy of the first.
func policies(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 2000)
	for i := range vocabulary {
		b := make([]byte, 3+r.IntN(7))
		for j := range b {
			b[j] = "etaoinshrdlucmfwypvbgk"[min(r.IntN(22), r.IntN(22))]
		}
		vocabulary[i] = string(b)
	}
	out := make([]string, n)
	for i := range out {
		var b strings.Builder
		for b.Len() < 8192 {
			b.WriteString(vocabulary[min(r.IntN(2000), r.IntN(2000))] + " ")
		}
		out[i] = b.String()[:8191] + "."
	}
	out[n-1] = strings.Replace(out[0], out[0][100:140], "something of its own to say here today", 1)
	return out
}

// packPairs compares 256 policies of 8 KB all against all, and an eighth of
// them with the Python loop, whose time is scaled by the number of pairs.
func packPairs(ctx context.Context) (string, error) {
	texts := policies(256)
	sample := append(append([]string(nil), texts[:31]...), texts[255])
	in, err := json.Marshal(sample)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "python3", "-c", loop)
	cmd.Stdin = bytes.NewReader(in)
	raw, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run the Python loop: %w", err)
	}
	var py struct {
		Seconds float64
		Pairs   int
		Copies  int
	}
	if err := json.Unmarshal(raw, &py); err != nil {
		return "", err
	}
	entries := make([]ncd.Entry, len(texts))
	for i, t := range texts {
		entries[i] = ncd.Entry{Key: fmt.Sprint(i), Hash: fmt.Sprint(i), Block: uint64(i), Text: t}
	}
	start := time.Now()
	k := ncd.NewComparer()
	defer k.Close()
	copies := k.Exclude(entries, ncd.NCDThreshold)
	ours := time.Since(start).Seconds()
	if len(copies) != 1 || py.Copies != 1 {
		return "", fmt.Errorf("%d and %d copies found, want 1", len(copies), py.Copies)
	}
	all := py.Seconds / float64(py.Pairs) * 256 * 255 / 2
	return line("AllPairs", all/ours, "x-python", ours, "s", all, "python-s"), nil
}
