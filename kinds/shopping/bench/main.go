// Command shopscore scores the same episodes of the shopping arena in Go and
// in a straightforward Python, compares every score, and prints both rates in
// one run:
//
//	go run ./kinds/shopping/bench [-episodes N] [-python python3]
//
// Rates are episodes per second of processor time, so that other work on the
// machine does not decide; Python runs on one core, agon's wall-clock rate is
// that of all cores.
//
// Both read an episode's JSON from a line, score it against a catalogue in
// memory, and write the scores as JSON. Episodes are those of a ReAct loop: a
// thought and a call per step, with the call's result, some 8 KB in all.
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

//go:embed score.py
var script []byte

func main() {
	n := flag.Int("episodes", 4000, "how many")
	python := flag.String("python", "python3", "interpreter")
	flag.Parse()
	if err := run(context.Background(), *n, *python); err != nil {
		fmt.Fprintln(os.Stderr, "shopscore:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, n int, python string) error {
	dir, err := os.MkdirTemp("", "agon-shopscore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(ctx, dir)
	if err != nil {
		return err
	}
	if err := w.episodes(ctx, n); err != nil {
		return err
	}
	wall, ours, err := w.goScores(ctx, runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	before, err := processor()
	if err != nil {
		return err
	}
	if _, _, err := w.goScores(ctx, 1); err != nil {
		return err
	}
	after, err := processor()
	if err != nil {
		return err
	}
	one := float64(n) / (after - before).Seconds()
	rate, theirs, err := w.pythonScores(ctx, python)
	if err != nil {
		return err
	}
	if err := same(ours, theirs); err != nil {
		return err
	}
	fmt.Printf("agon %.0f episodes/s on one core, Python %.0f: %.1fx, on %d cores %.1fx; wall clock %.0f/s; %d equal scores\n",
		one, rate, one/rate, runtime.GOMAXPROCS(0), one/rate*float64(runtime.GOMAXPROCS(0)), wall, len(ours))
	fmt.Printf("BenchmarkScoring 1 %.0f episodes/s %.2f x-python %.2f x-python-all-cores\n", one, one/rate, one/rate*float64(runtime.GOMAXPROCS(0)))
	return nil
}

// processor is the processor time that this process has used.
func processor() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// world is what episodes are scored against.
type world struct {
	dir      string
	index    *search.Index
	products score.Products
	problems []shop.Problem
	vectors  map[string][]float32
	lines    [][]byte
}

func newWorld(ctx context.Context, dir string) (*world, error) {
	w := &world{dir: dir, products: score.Products{}, vectors: map[string][]float32{}}
	list, err := catalogue.Products(catalogue.Options{Products: problem.DemoProducts, Seed: problem.DemoSeed})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	r := catalogue.NewRandom(1, "vectors")
	for _, p := range list {
		line, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		b.Write(append(line, '\n'))
		w.products[p.ProductID] = p
		// Short vectors stand for the encoder, so that a loop over a thousand
		// numbers does not decide the comparison.
		w.vectors[p.Title] = []float32{float32(r.Float()), float32(r.Float()), float32(r.Float() - .5)}
	}
	if err := os.WriteFile(filepath.Join(dir, "catalogue.jsonl"), b.Bytes(), 0o600); err != nil {
		return nil, err
	}
	if w.index, err = search.Memory(ctx, &b); err != nil {
		return nil, err
	}
	if w.problems, err = problem.Generate(ctx, problem.DemoSuite(w.index, encode.Ngram{})); err != nil {
		return nil, err
	}
	// The other scorer knows neither problems without an answer nor what a product must not be.
	w.problems = slices.DeleteFunc(w.problems, func(p shop.Problem) bool { return p.Unanswerable })
	for i := range w.problems {
		w.problems[i].TitleEncoder = ""
		for j := range w.problems[i].Reward.Items {
			w.problems[i].Reward.Items[j].Exclude = nil
		}
	}
	for name, v := range map[string]any{"problems.json": w.problems, "vectors.json": w.vectors} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// episodes makes n episodes as agents leave them: some right, some wrong, some malformed.
func (w *world) episodes(ctx context.Context, n int) error {
	r := catalogue.NewRandom(2, "episodes")
	s := &search.Service{Index: w.index}
	var ids []string
	for id := range w.index.IDs {
		ids = append(ids, id)
	}
	type object map[string]any
	var file bytes.Buffer
	for i := range n {
		p := &w.problems[i%len(w.problems)]
		var steps []object
		add := func(think, name string, params object, result any) {
			steps = append(steps, object{
				"completion": object{"message": object{"think": think, "tool_call": []object{{"name": name, "parameters": params, "tool_call_id": "abcd1234", "result": result}}}},
				"extra_info": object{"step": len(steps) + 1, "query": p.Query, "timestamp": 1_700_000_000_000 + i},
			})
		}
		words := strings.Fields(p.Query)
		for range 2 + r.N(3) {
			q := words[r.N(len(words))] + " " + words[r.N(len(words))]
			found, err := s.Find(ctx, search.Args{"q": q, "page": "1"})
			if err != nil {
				return err
			}
			add("I look for "+q+" and compare what the shops offer before I decide.", "find_product", object{"q": q, "page": 1}, json.RawMessage(found))
		}
		var answer, seen []string
		for _, it := range p.Reward.Items {
			seen = append(seen, ids[r.N(len(ids))])
			if answer = append(answer, it.ProductID); r.Bool(.3) {
				answer[len(answer)-1] = seen[len(seen)-1]
			}
		}
		view, err := s.View(ctx, search.Args{"product_ids": strings.Join(seen, ",")})
		if err != nil {
			return err
		}
		add("Of these the first fits best: its price is lower and the material is right.", "view_product_information", object{"product_ids": strings.Join(seen, ",")}, json.RawMessage(view))
		if r.Bool(.1) {
			steps = append(steps, object{"completion": object{"message": object{"think": "a <tool_call> in a thought", "response": "done"}}, "extra_info": object{}})
		}
		add("All constraints are met.", "recommend_product", object{"product_ids": strings.Join(answer, ",")}, "Having recommended the products to the user: "+strings.Join(answer, ",")+".")
		if r.Bool(.9) {
			add("Done.", "terminate", object{"status": "success"}, "The interaction has been completed with status: success")
		}
		line, err := json.Marshal(steps)
		if err != nil {
			return err
		}
		file.Write(append(line, '\n'))
		w.lines = append(w.lines, line)
	}
	return os.WriteFile(filepath.Join(w.dir, "episodes.jsonl"), file.Bytes(), 0o600)
}

// goScores reads the episodes from their file on some goroutines.
func (w *world) goScores(ctx context.Context, workers int) (rate float64, out [][]byte, err error) {
	f, err := os.Open(filepath.Join(w.dir, "episodes.jsonl"))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	scorer := score.New(score.Config{Encoder: shop.Vectors{Table: w.vectors}})
	out = make([][]byte, len(w.lines))
	type job struct {
		n    int
		line []byte
	}
	jobs := make(chan job, 4*workers)
	lines := sync.Pool{New: func() any { return new([]byte) }}
	errs := make(chan error, workers)
	began := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for j := range jobs {
				s, err := scorer.Score(ctx, &w.problems[j.n%len(w.problems)], w.products, j.line)
				if err == nil {
					out[j.n], err = s.MarshalJSON()
				}
				lines.Put(&j.line)
				if err != nil {
					select {
					case errs <- fmt.Errorf("episode %d: %w", j.n, err):
					default:
					}
				}
			}
		})
	}
	in := bufio.NewReaderSize(f, 1<<20)
	for n := 0; ; n++ {
		part, err := in.ReadSlice('\n') // the buffer is larger than any episode
		if err == io.EOF {
			break
		}
		if err != nil {
			close(jobs)
			return 0, nil, err
		}
		line, _ := lines.Get().(*[]byte)
		jobs <- job{n, append((*line)[:0], part...)}
	}
	close(jobs)
	wg.Wait()
	took := time.Since(began)
	select {
	case err := <-errs:
		return 0, nil, err
	default:
	}
	return float64(len(out)) / took.Seconds(), out, nil
}

func (w *world) pythonScores(ctx context.Context, python string) (rate float64, out [][]byte, err error) {
	path := filepath.Join(w.dir, "score.py")
	if err := os.WriteFile(path, script, 0o600); err != nil {
		return 0, nil, err
	}
	cmd := exec.CommandContext(ctx, python, path, "catalogue.jsonl", "problems.json", "vectors.json", "episodes.jsonl")
	cmd.Dir = w.dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return 0, nil, fmt.Errorf("%s: %w: %s", python, err, stderr.String())
	}
	rate, err = strconv.ParseFloat(strings.TrimSpace(stderr.String()), 64)
	return rate, bytes.Split(bytes.TrimSpace(stdout.Bytes()), []byte("\n")), err
}

// same compares every field of every score.
func same(ours, theirs [][]byte) error {
	if len(ours) != len(theirs) {
		return fmt.Errorf("%d scores, Python has %d", len(ours), len(theirs))
	}
	for i := range ours {
		var a, b map[string]float64
		if err := json.Unmarshal(ours[i], &a); err != nil {
			return err
		}
		if err := json.Unmarshal(theirs[i], &b); err != nil {
			return err
		}
		if len(a) != len(b) {
			return fmt.Errorf("episode %d: %s, Python says %s", i, ours[i], theirs[i])
		}
		for k := range a {
			if v, ok := b[k]; !ok || math.Abs(a[k]-v) > 1e-9 {
				return fmt.Errorf("episode %d: %s, Python says %s", i, ours[i], theirs[i])
			}
		}
	}
	return nil
}
