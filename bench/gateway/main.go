// Command gateway measures what stands between a caller and a model, side by
// side in one run: nothing, a bare reverse proxy, agon's gateway with durable
// books, and bifrost core behind a front of twenty lines. Every part is a
// process of its own on loopback; the upstream is a dummy.
//
//	go run . [-for 5s] [-calls 0] [-streams 0]
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const replySize = 900 // bytes of text in the dummy's reply

func main() {
	role := flag.String("role", "", "internal: upstream, holding, proxy, agon, agon-memory, bifrost")
	up := flag.String("up", "", "internal: base URL of the upstream")
	runFor := flag.Duration("for", 5*time.Second, "time of each measurement, after a fifth of it to warm up")
	flat := flag.Int("calls", 0, "instead: make this many calls through agon in sessions of 1,000, and watch its memory")
	open := flag.Int("streams", 0, "instead: hold this many streams open, and watch the memory")
	only := flag.String("only", "", "measure this one only")
	litellm := flag.String("litellm", "", "measure LiteLLM's proxy too: its `program`")
	flag.Parse()
	if *role != "" {
		if err := serve(*role, *up); err != nil {
			fmt.Fprintln(os.Stderr, *role+":", err)
			os.Exit(1)
		}
		return
	}
	if *open > 0 {
		if err := streams(*open); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := measure(*runFor, *flat, *only, *litellm); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve plays one role until it is killed. It prints its address and, for
// agon, the header that opens a session.
func serve(role, up string) error {
	var h http.Handler
	extra := ""
	switch role {
	case "upstream":
		h = http.HandlerFunc(upstream)
	case "holding":
		h = &holding{release: make(chan struct{})}
	case "proxy":
		p, err := newProxy(up)
		if err != nil {
			return err
		}
		h = p
	case "agon", "agon-memory":
		g, header, err := newAgon(up, role == "agon")
		if err != nil {
			return err
		}
		h, extra = g, header
	case "bifrost":
		b, err := newBifrost(up)
		if err != nil {
			return err
		}
		h = b
	default:
		return fmt.Errorf("unknown role")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr().String() + " " + extra)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() { <-stop; os.Exit(0) }()
	return http.Serve(ln, h)
}

var (
	replyJSON = []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", replySize/5) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":200,"completion_tokens":180,"total_tokens":380}}`)
	replySSE = func() [][]byte {
		var out [][]byte
		for range 20 {
			out = append(out, []byte("data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word word word\"},\"finish_reason\":null}]}\n\n"))
		}
		return append(out,
			[]byte("data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"),
			[]byte("data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":60,\"total_tokens\":260}}\n\n"),
			[]byte("data: [DONE]\n\n"))
	}()
)

func upstream(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	if bytes.Contains(bytes.ReplaceAll(b, []byte(" "), nil), []byte(`"stream":true`)) { // bifrost writes blanks
		w.Header().Set("Content-Type", "text/event-stream")
		f := w.(http.Flusher)
		for _, c := range replySSE {
			_, _ = w.Write(c)
			f.Flush()
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(replyJSON)
}

// part is a process under measurement.
type part struct {
	name   string
	cmd    *exec.Cmd
	addr   string
	header string
	path   string
	group  bool // it has processes below it, all of one process group
}

func start(role, up string) (*part, error) {
	cmd := exec.Command(os.Args[0], "-role", role, "-up", up)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // none outlives us
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s did not start: %w", role, err)
	}
	addr, header, _ := strings.Cut(strings.TrimSpace(line), " ")
	return &part{name: role, cmd: cmd, addr: addr, header: header, path: "/v1/chat/completions"}, nil
}

func (p *part) stop() {
	if p.group {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// rss is the memory of its processes in MB.
func (p *part) rss() (sum int) {
	for _, pid := range p.members() {
		b, _ := os.ReadFile("/proc/" + pid + "/status")
		for l := range strings.Lines(string(b)) {
			if f := strings.Fields(l); len(f) > 1 && f[0] == "VmRSS:" {
				n, _ := strconv.Atoi(f[1])
				sum += n / 1024
			}
		}
	}
	return sum
}

func (p *part) request(stream bool) []byte {
	body := `{"model":"m","max_tokens":1000,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 180) + `"}]}`
	if stream {
		body = strings.Replace(body, "{", `{"stream":true,`, 1)
	}
	head := "POST " + p.path + " HTTP/1.1\r\nHost: " + p.addr + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	if p.header != "" {
		head += p.header + "\r\n"
	}
	return []byte(head + "\r\n" + body)
}

// load calls p with so many callers for d and returns the times of all calls.
func (p *part) load(callers int, stream bool, d time.Duration, most int64) ([]time.Duration, error) {
	req := p.request(stream)
	end := time.Now().Add(d)
	var mu sync.Mutex
	var all []time.Duration
	var bad atomic.Value
	var n, failed atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			c, err := net.Dial("tcp", p.addr)
			if err != nil {
				bad.Store(err)
				return
			}
			defer func() { _ = c.Close() }()
			br := bufio.NewReaderSize(c, 64<<10)
			var mine []time.Duration
			for time.Now().Before(end) && (most == 0 || n.Add(1) <= most) {
				at := time.Now()
				_ = c.SetDeadline(at.Add(10 * time.Second))
				if _, err := c.Write(req); err != nil {
					bad.Store(err)
					return
				}
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					bad.Store(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || len(b) < 500 {
					if failed.Add(1) > 20 {
						bad.Store(fmt.Errorf("over 20 bad replies, the last: status %d, %d bytes: %.200s", resp.StatusCode, len(b), b))
						return
					}
					_ = c.Close()
					if c, err = net.Dial("tcp", p.addr); err != nil {
						bad.Store(err)
						return
					}
					br.Reset(c)
					continue
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if err, ok := bad.Load().(error); ok {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if k := failed.Load(); k > 0 {
		fmt.Fprintf(os.Stderr, "%s: %d bad replies left out\n", p.name, k)
	}
	slices.Sort(all)
	return all, nil
}

func measure(d time.Duration, flat int, only, litellm string) error {
	runtime.LockOSThread() // children die with the thread that made them
	up, err := start("upstream", "")
	if err != nil {
		return err
	}
	defer up.stop()
	base := "http://" + up.addr
	if flat > 0 {
		return memory(base, flat)
	}
	fmt.Printf("%d cores shared by caller, part and upstream; %s each, 1 KB requests\n\n", runtime.NumCPU(), d)
	fmt.Println("| part | JSON c=1 p50 | added | p99 | JSON c=64 req/s | p99 | SSE c=1 p50 | SSE c=64 req/s | p99 | RSS |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	medians, rates := map[string]time.Duration{}, map[string]float64{} // of one caller, of 64
	var later strings.Builder                                          // below the table
	roles := []string{"direct", "proxy", "agon-memory", "agon", "bifrost"}
	if litellm != "" {
		roles = append(roles, "litellm")
	}
	for _, role := range roles {
		if only != "" && role != only && role != "direct" {
			continue
		}
		p := up
		switch role {
		case "direct":
		case "litellm":
			p, err = startLiteLLM(litellm, base)
		default:
			p, err = start(role, base)
		}
		if err != nil {
			return err
		}
		row := []string{role}
		for _, c := range []struct {
			callers int
			stream  bool
		}{{1, false}, {64, false}, {1, true}, {64, true}} {
			if _, err := p.load(c.callers, c.stream, d/5, 0); err != nil {
				return err
			}
			at := time.Now()
			times, err := p.load(c.callers, c.stream, d, 0)
			if err != nil {
				return err
			}
			took := time.Since(at)
			p50, p99 := times[len(times)/2], times[len(times)*99/100]
			rate := float64(len(times)) / took.Seconds()
			switch {
			case c.callers == 1 && !c.stream:
				medians[role] = p50
				row = append(row, ms(p50), "+"+ms(p50-medians["direct"]), ms(p99))
			case c.callers == 1:
				row = append(row, ms(p50))
			default:
				if c.stream {
					rates[role+" SSE"] = rate
				} else {
					rates[role+" JSON"] = rate
				}
				row = append(row, fmt.Sprintf("%.0f", rate), ms(p99))
			}
		}
		fmt.Printf("| %s | %d MB |\n", strings.Join(row, " | "), p.rss())
		if role == "agon" {
			half := rates["agon JSON"] / 2
			times, err := p.paced(64, half, d)
			if err != nil {
				return err
			}
			fmt.Fprintf(&later, "BenchmarkHalf 1 %.0f calls/s %s p99-ms\n", half, strings.TrimSuffix(ms(times[len(times)*99/100]), " ms"))
		}
		if p != up {
			p.stop()
		}
	}
	fmt.Print(later.String())
	if only == "" {
		fmt.Printf("BenchmarkJSON 1 %.3f x-proxy\nBenchmarkSSE 1 %.3f x-proxy\nBenchmarkDurable 1 %.3f added-ms\n", rates["agon JSON"]/rates["proxy JSON"],
			rates["agon SSE"]/rates["proxy SSE"], float64((medians["agon"]-medians["direct"]).Microseconds())/1000)
	}
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f ms", float64(d.Microseconds())/1000) }

// memory makes many calls in sessions of a thousand.
func memory(base string, calls int) error {
	p, err := start("agon", base)
	if err != nil {
		return err
	}
	defer p.stop()
	fmt.Println("| calls | RSS |\n|---|---|")
	at := time.Now()
	for done := 0; done < calls; {
		n := min(calls-done, calls/10)
		if _, err := p.load(64, false, time.Hour, int64(n)); err != nil {
			return err
		}
		done += n
		fmt.Printf("| %d | %d MB |\n", done, p.rss())
	}
	fmt.Printf("%.0f req/s\n", float64(calls)/time.Since(at).Seconds())
	return nil
}
