package corpus

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// importRows writes n rows in OpenAI's form as shopping agents leave them: a wish, four
// calls, and what the tools answered, some 12 KB a row; 32 rows of each wish.
func importRows(tb testing.TB, n int) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "rows.jsonl")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := make([]string, 4000)
	for i := range vocabulary {
		b := make([]byte, 3+r.IntN(6))
		for j := range b {
			b[j] = "abcdefghijklmnopqrstuvwxyz"[r.IntN(26)]
		}
		vocabulary[i] = string(b)
	}
	words := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = vocabulary[r.IntN(len(vocabulary))]
		}
		return strings.Join(out, " ")
	}
	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "find_product", "description": "Search", "parameters": map[string]any{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "string"}}}}}}
	enc := json.NewEncoder(w)
	wish := ""
	for i := range n {
		if i%32 == 0 {
			wish = words(25)
		}
		list := []any{map[string]any{"role": "system", "content": "You are a shopping agent."}, map[string]any{"role": "user", "content": wish}}
		for k := range 4 {
			name, id := "find_product", fmt.Sprintf("c%d", k)
			args, result := map[string]any{"q": words(5), "page": 1}, ""
			products := []any{}
			for j := range 10 {
				products = append(products, map[string]any{"product_id": fmt.Sprint(1000*i + 10*k + j), "shop_id": "5", "title": words(10), "price": r.IntN(9999), "service": []string{"COD"}})
			}
			b, _ := json.Marshal(products)
			result = string(b)
			if k == 3 {
				name, args, result = "recommend_product", map[string]any{"product_ids": fmt.Sprint(1000 * i)}, "Having recommended the products to the user."
			}
			b, _ = json.Marshal(args)
			list = append(list,
				map[string]any{"role": "assistant", "content": "<think>" + words(60) + "</think>", "tool_calls": []any{map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": string(b)}}}},
				map[string]any{"role": "tool", "tool_call_id": id, "name": name, "content": result})
		}
		list = append(list, map[string]any{"role": "assistant", "content": words(20)})
		if err := enc.Encode(map[string]any{"messages": list, "tools": tools}); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return path
}

// BenchmarkImport imports 15,000 rows: audits them, and also writes them as a corpus in
// every format.
func BenchmarkImport(b *testing.B) {
	path := importRows(b, 15_000)
	fi, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"audit", "written"} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(fi.Size())
			began := processTime(b)
			for b.Loop() {
				c := ImportConfig{Files: []string{path}, Licence: "MIT"}
				if name == "written" {
					c.Out = filepath.Join(b.TempDir(), "out")
				}
				a, err := Import(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				if a.Read != 15_000 || a.Rows < 14_000 {
					b.Fatalf("%+v", a)
				}
			}
			b.ReportMetric((processTime(b)-began)/float64(b.N), "cpu-s/op")
		})
	}
}

// processTime is what this process has used of processors, in seconds.
func processTime(tb testing.TB) float64 {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
