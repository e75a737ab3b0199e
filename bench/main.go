// Command bench measures agon and prints a table: what, measured, the bar, the
// verdict, and how it stands to the stored baseline. Ratios are taken in one
// run; absolute figures are what a quiet machine should show.
//
//	go run ./bench [-o json] [-baseline FILE] [-save FILE] [row ...]
//
// A row is named by any part of its name. A row that misses its bar or cannot be
// measured stops no other. The exit code is 1 where a figure is more than 15 %
// worse than the baseline's, also when it is measured twice more, and 2 where a
// row could not be measured. A baseline counts only for the kind of machine that
// it was taken on, and where a fixed piece of work takes longer than there, as on a
// busy machine, times and rates may be worse by as much. FILE has Go's benchmark format, which benchstat reads.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// rowTime is what one row may take.
const rowTime = 10 * time.Minute

// result is one row as it was measured.
type result struct {
	Row      string    `json:"row"`
	Command  string    `json:"command"`
	Seconds  float64   `json:"seconds"`
	Error    string    `json:"error,omitempty"`
	Barred   []verdict `json:"figures"`
	Measured []figure  `json:"all,omitempty"` // every figure, also those without a bar
}

// verdict is a figure beside its bar and the baseline.
type verdict struct {
	figure
	Bar    string   `json:"bar"`
	Holds  bool     `json:"holds"`
	Worse  *float64 `json:"worse,omitempty"`  // than the baseline, as a share; negative is better
	Slower bool     `json:"slower,omitempty"` // more than 15 % worse, three times
}

func main() {
	output := flag.String("o", "table", "`FORM` of the result: table or json")
	file := flag.String("baseline", "bench/baseline.txt", "`FILE` with the figures to compare with")
	save := flag.String("save", "", "write all figures to `FILE`")
	flag.Parse()
	code, err := bench(context.Background(), *output, *file, *save, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 2
	}
	os.Exit(code)
}

func bench(ctx context.Context, output, file, save string, names []string) (code int, err error) {
	if output != "table" && output != "json" {
		return 2, fmt.Errorf("-o %s: want table or json", output)
	}
	old, err := readBaseline(file)
	if err != nil {
		return 2, err
	}
	if old.machine != "" && old.machine != machine() {
		fmt.Fprintf(os.Stderr, "bench: %s was taken on %s, this is %s: not compared\n", file, old.machine, machine())
		old = baseline{}
	}
	var list []result
	if output == "table" {
		head(os.Stdout)
	}
	for _, r := range rows() {
		if len(names) > 0 && !slices.ContainsFunc(names, func(s string) bool { return strings.Contains(r.name, s) }) {
			continue
		}
		fmt.Fprintln(os.Stderr, "bench:", r.name)
		res, err := measure(ctx, r, old)
		if err != nil {
			return 2, err
		}
		list = append(list, res)
		code = max(code, res.code())
		if output == "table" {
			res.print(os.Stdout)
		}
	}
	if len(list) == 0 {
		return 2, fmt.Errorf("no row has %q in its name", names)
	}
	if output == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(map[string]any{"machine": machine(), "rows": list})
	}
	if save != "" {
		err = errors.Join(err, writeBaseline(save, list))
	}
	return code, err
}

// measure runs a row, and twice more where a figure is worse than the baseline's.
func measure(ctx context.Context, r row, old baseline) (result, error) {
	wanted, err := bars(r.bars)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", r.name, err)
	}
	res := result{Row: r.name, Command: r.cmd}
	begun := time.Now()
	for range 3 {
		if err := res.again(ctx, r, wanted, old); err != nil {
			res.Error = err.Error()
			break
		}
		if !slices.ContainsFunc(res.Barred, func(v verdict) bool { return v.Slower }) {
			break
		}
	}
	res.Seconds = time.Since(begun).Seconds()
	return res, nil
}

// again measures a row once and keeps the better figures.
func (res *result) again(ctx context.Context, r row, wanted []bar, old baseline) error {
	ctx, cancel := context.WithTimeout(ctx, rowTime)
	defer cancel()
	pace := paced()
	out, err := r.run(ctx)
	if err != nil {
		return err
	}
	first := res.Barred == nil
	if first {
		res.Measured = figures(out)
	}
	for i, b := range wanted {
		f, ok := b.of(figures(out))
		if !ok {
			return fmt.Errorf("no figure %s %s was printed", b.bench, b.unit)
		}
		if first {
			res.Barred = append(res.Barred, verdict{figure: f, Bar: b.String()})
		}
		v := &res.Barred[i]
		v.Value = b.better(v.Value, f.Value)
		v.Holds = b.holds(v.Value)
		if then, ok := old.figures[key(r.name, f)]; ok {
			worse := b.worse(then, v.Value)
			v.Worse, v.Slower = &worse, worse > 1.15*old.slack(f.Unit, pace)-1
		}
	}
	return nil
}

func (res result) code() int {
	switch {
	case res.Error != "":
		return 2
	case slices.ContainsFunc(res.Barred, func(v verdict) bool { return v.Slower }):
		return 1
	}
	return 0
}

// columns are what was measured, the figure, its bar, the verdict and the baseline.
const columns = "%-48s %21s  %-11s %-6s %s\n"

func head(w io.Writer) {
	fmt.Fprintf(w, columns, "WHAT", "MEASURED", "BAR", "", "BASE")
}

// print writes a row in at most 100 columns.
func (res result) print(w io.Writer) {
	name := res.Row
	if len(res.Barred) != 1 || len([]rune(name)) > 48 {
		fmt.Fprintln(w, name)
		name = ""
	}
	for _, v := range res.Barred {
		word, base := "misses", ""
		if v.Holds {
			word = "holds"
		}
		if v.Worse != nil {
			base = fmt.Sprintf("%+.0f %%", *v.Worse*100)
		}
		if v.Slower {
			base += " SLOWER"
		}
		fmt.Fprintf(w, columns, cmp.Or(name, "  "+v.Bench), show(v.Value, v.Unit), v.Bar, word, base)
	}
	if res.Error != "" {
		fmt.Fprintf(w, "  failed: %s\n", res.Error)
	}
}
