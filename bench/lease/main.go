// Command lease measures the path of a lease over HTTP: `agon serve` as its own
// process on a durable store, and 200 (then 20) workers of 20 validators that
// claim runs and report results over /v1, each request signed.
//
//	make build && go run ./bench/lease [-finished 1000000] [-store postgres://…]
//
// With -finished each store is measured with no finished run and with so many, in turns.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

// Who plays. A validator may hold 16 leases of the demo arena.
const (
	validators = 20
	perOne     = 10
)

type options struct {
	bin      string
	listen   string
	finished int
	queued   int
	runFor   time.Duration
	rate     int
	store    string
	rounds   int
	servers  int
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/agon", "the program under measurement")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:18912", "its address")
	flag.IntVar(&o.finished, "finished", 0, "measure once more with so many finished runs in the store")
	flag.IntVar(&o.queued, "queued", 6000, "submissions in the queue, 27 runs each")
	flag.DurationVar(&o.runFor, "for", 6*time.Second, "time of each measurement, after a third of it to warm up")
	flag.IntVar(&o.rate, "rate", 3000, "pairs/s of the paced measurement")
	flag.StringVar(&o.store, "store", "", "measure databases beside this PostgreSQL `database` too, taking turns with SQLite; they are made and dropped")
	flag.IntVar(&o.rounds, "rounds", 1, "measurements of each store")
	flag.IntVar(&o.servers, "servers", 1, "with -store, measure so many servers over one database too")
	flag.Parse()
	if err := measure(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) (err error) {
	fmt.Printf("workers of %d validators; caller and server share the machine\n\n", validators)
	fmt.Println("| store | finished runs | workers | pace | pairs/s | claim p50 | claim p99 | result p50 | result p99 | worst | CPU of a pair: server, PostgreSQL, workers |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	type kind struct {
		store    string
		finished int
		servers  int
	}
	var kinds []kind
	for _, at := range []string{"", o.store} {
		if at == "" && len(kinds) > 0 { // no PostgreSQL
			continue
		}
		kinds = append(kinds, kind{at, 0, 1})
		if o.finished > 0 {
			kinds = append(kinds, kind{at, o.finished, 1})
		}
		if o.servers > 1 && at != "" {
			kinds = append(kinds, kind{at, 0, o.servers})
		}
	}
	places := map[kind]*place{}
	defer func() {
		for _, p := range places {
			err = errors.Join(err, p.remove(context.WithoutCancel(ctx)))
		}
	}()
	for _, k := range kinds { // history takes long to store: once for all rounds
		if places[k], err = prepare(ctx, o, k.store, k.finished, k.servers); err != nil {
			return err
		}
	}
	seen := map[kind][]figures{}
	for range o.rounds {
		for _, k := range kinds {
			f, err := places[k].one(ctx, o, k.finished, k.servers)
			if err != nil {
				return err
			}
			seen[k] = append(seen[k], f)
		}
	}
	rate := func(f figures) float64 { return f.rate }
	if o.store != "" {
		lite, pg := middle(seen[kind{"", 0, 1}], rate), middle(seen[kind{o.store, 0, 1}], rate)
		fmt.Printf("\nas fast as it goes, medians of %d: %.0f pairs/s on SQLite, %.0f on PostgreSQL: ratio %.2f\n", o.rounds, lite, pg, pg/lite)
	}
	claim, cost := func(f figures) float64 { return f.claim }, func(f figures) float64 { return f.cpu }
	for _, k := range kinds {
		none, some := seen[kind{k.store, 0, 1}], seen[k]
		if k.servers > 1 {
			fmt.Printf("\n%d servers against one, medians of %d: %.0f pairs/s against %.0f (%.2f), a pair %.0f µs of processor against %.0f (%.2f)\n",
				k.servers, o.rounds, middle(some, rate), middle(none, rate), middle(some, rate)/middle(none, rate), middle(some, cost), middle(none, cost), middle(some, cost)/middle(none, cost))
		}
		if k.finished == 0 {
			continue
		}
		fmt.Printf("\n%s with %d finished runs against none, medians of %d: a claim at half the pace takes %.2f ms against %.2f (ratio %.2f), a pair %.0f µs of processor against %.0f (%.2f), %.0f pairs/s against %.0f\n",
			nameOf(k.store), k.finished, o.rounds, middle(some, claim), middle(none, claim), middle(some, claim)/middle(none, claim),
			middle(some, cost), middle(none, cost), middle(some, cost)/middle(none, cost), middle(some, rate), middle(none, rate))
	}
	return nil
}

// figures are what one server showed.
type figures struct {
	rate  float64 // pairs/s of all workers as fast as it goes
	claim float64 // median of a claim at half the pace, milliseconds
	cpu   float64 // of server and database for a pair at half the pace, microseconds
}

func middle(list []figures, of func(figures) float64) float64 {
	var all []float64
	for _, f := range list {
		all = append(all, of(f))
	}
	return median(all)
}

func nameOf(store string) string {
	if store != "" {
		return "PostgreSQL"
	}
	return "SQLite"
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// one measures servers of p, whose store holds so many finished runs.
func (p *place) one(ctx context.Context, o options, finished, servers int) (f figures, err error) {
	at, keys := p.at, p.keys
	var pids, addrs []string
	for range servers {
		each := o
		if each.listen, err = after(o.listen, len(addrs)); err != nil {
			return f, err
		}
		stop, pid, err := serve(ctx, each, p.dir, at)
		if err != nil {
			return f, err
		}
		defer func() { _ = stop() }()
		pids, addrs = append(pids, strconv.Itoa(pid)), append(addrs, each.listen)
	}
	audience, err := audienceOf(ctx, o)
	if err != nil {
		return f, err
	}
	name := nameOf(at)
	if servers > 1 {
		name = fmt.Sprintf("%s-%d", name, servers) // of servers
	}
	l := load{addrs: addrs, audience: audience, keys: keys}
	if _, err := l.run(o.runFor/3, validators*perOne, 0); err != nil {
		return f, err
	}
	for _, m := range []struct {
		name          string
		workers, rate int
	}{{"200", validators * perOne, 0}, {"200-paced", validators * perOne, o.rate}, {"200-half", validators * perOne, o.rate / 2}, {"20", validators, 0}} {
		server, own, db := cpu(pids...), cpu("self"), databaseCPU(at)
		s, err := l.run(o.runFor, m.workers, m.rate)
		if err != nil {
			return f, err
		}
		pairs := float64(len(s.results))
		server, own, db = cpu(pids...)-server, cpu("self")-own, databaseCPU(at)-db
		switch m.name {
		case "200":
			f.rate = s.rate
		case "200-half":
			slices.Sort(s.claims)
			f.claim, f.cpu = float64(s.claims[len(s.claims)/2].Microseconds())/1000, (server+db)/pairs*1e6
		}
		pace := "as fast as it goes"
		if m.rate > 0 {
			pace = fmt.Sprintf("%d/s", m.rate)
		}
		fmt.Printf("| %s | %d | %d | %s | %.0f | %s | %s | %s | %s | %s | %.0f µs, %.0f µs, %.0f µs |\n", name, finished, m.workers, pace, s.rate,
			ms(s.claims, 50), ms(s.claims, 99), ms(s.results, 50), ms(s.results, 99), ms(append(s.claims, s.results...), 100), server/pairs*1e6, db/pairs*1e6, own/pairs*1e6)
		all := append(s.claims, s.results...)
		slices.Sort(all)
		fmt.Printf("BenchmarkLease/%s/%s 1 %.0f pairs/s %.1f p99-ms %.0f cpu-µs/pair\n", name, m.name, s.rate, float64(all[len(all)*99/100].Microseconds())/1000, server/pairs*1e6)
	}
	return f, nil
}

// databaseCPU is the processor time in seconds of the connections of a PostgreSQL database
// on this machine; each is a process that bears its name.
func databaseCPU(at string) (sum float64) {
	u, err := url.Parse(at)
	if err != nil || at == "" {
		return 0
	}
	list, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range list {
		title, err := os.ReadFile(p + "/cmdline")
		if err == nil && bytes.HasPrefix(title, []byte("postgres: ")) && bytes.Contains(title, []byte(" "+strings.TrimPrefix(u.Path, "/")+" ")) {
			sum += cpu(filepath.Base(p))
		}
	}
	return sum
}

// cpu is the processor time that processes have used, in seconds.
func cpu(pids ...string) (sum float64) {
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		user, _ := strconv.ParseFloat(f[11], 64) // in ticks of 10 ms
		sys, _ := strconv.ParseFloat(f[12], 64)
		sum += (user + sys) / 100
	}
	return sum
}

// after is the address n ports above listen.
func after(listen string, n int) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	first, err := strconv.Atoi(port)
	return net.JoinHostPort(host, strconv.Itoa(first+n)), err
}

// ms is a percentile in milliseconds.
func ms(times []time.Duration, percent int) string {
	if len(times) == 0 {
		return "–"
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f ms", float64(times[min(len(times)-1, len(times)*percent/100)].Microseconds())/1000)
}

// serve starts the server on dir and waits until it answers.
func serve(ctx context.Context, o options, dir, at string) (stop func() error, pid int, err error) {
	file := filepath.Join(dir, "arena.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, arenaFile, arenaID, netuid), 0o600); err != nil {
		return nil, 0, err
	}
	cmd := exec.CommandContext(ctx, o.bin, "serve", "--data", dir, "--listen", o.listen, "--arena", file)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AGON_") })
	if at != "" {
		cmd.Env = append(cmd.Env, "AGON_STORE="+at)
	}
	if os.Getenv("AGON_BENCH_STDERR") != "" {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		_ = cmd.Wait()                         // by our signal
		return nil
	}
	for range 1500 {
		if _, err = audienceOf(ctx, o); err == nil {
			return stop, cmd.Process.Pid, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, 0, errors.Join(fmt.Errorf("the server does not answer: %w", err), stop())
}

func audienceOf(ctx context.Context, o options) (string, error) {
	c, err := client.New("http://"+o.listen, nil)
	if err != nil {
		return "", err
	}
	c.Tries = 1
	if as, err := c.Arenas(ctx); err != nil || len(as) == 0 {
		return "", errors.Join(errors.New("no arena yet"), err)
	}
	s, err := c.Server(ctx)
	if err != nil {
		return "", err
	}
	return s.Audience, nil
}

// register makes the validators' keys and registers them as the operator.
func register(ctx context.Context, o options, dir string) ([]*auth.Key, error) {
	w := auth.Wallet{Path: filepath.Join(dir, "wallets"), Name: "operator", Hotkey: "default"}
	op, err := w.LoadHotkey()
	if err != nil {
		return nil, err
	}
	c, err := client.New("http://"+o.listen, op)
	if err != nil {
		return nil, err
	}
	var keys []*auth.Key
	for range validators {
		hot, err := auth.NewKey()
		if err != nil {
			return nil, err
		}
		cold, err := auth.NewKey()
		if err != nil {
			return nil, err
		}
		if err := c.Register(ctx, netuid, client.RegisterRequest{Hotkey: hot.SS58(), Coldkey: cold.SS58(), Validator: true}); err != nil {
			return nil, fmt.Errorf("register a validator: %w", err)
		}
		keys = append(keys, hot)
	}
	return keys, nil
}
