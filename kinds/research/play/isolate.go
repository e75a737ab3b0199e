package play

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

// Bounds of one program that a benchmark asks for.
const (
	maxProgramIn   = 64 << 20 // bytes of standard input
	maxProgramOut  = 32 << 20 // bytes of each output stream that are handed on
	maxProgramHead = 256 << 10
	maxPrograms    = 2000 // per benchmark
)

// programs runs the miner's programs for an isolated benchmark. The benchmark
// posts a JSON line {args, env, timeout, gpu} and the standard input behind it, and
// gets a JSON line {code, limit, wall, cpu, gpu, stdout, stderr} and the bytes of
// both streams. Every program has a fresh box over the workspace as setup left
// it: no hidden data, no door, nothing of the programs before it. Times are
// seconds as the host measured them, which no program can forge.
type programs struct {
	p        *player
	x        *side
	ctx      context.Context
	deadline time.Time
	token    string
	srv      *http.Server
	url      string
	served   chan struct{}

	mu    sync.Mutex // one program at a time; guards what follows
	n     int
	err   error // ours: the box or its driver
	end   bool
	ahead ahead
}

// programs opens the host's side. Only the benchmark's door knows the token.
func (p *player) programs(ctx context.Context, x *side, wall time.Duration) (*programs, error) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	r := &programs{p: p, x: x, ctx: ctx, deadline: p.k.cfg.Now().Add(wall), token: hex.EncodeToString(b[:]), served: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the benchmark: %w", err)
	}
	r.url = "http://" + l.Addr().String()
	r.srv = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(r.served)
		_ = r.srv.Serve(l) // ends with stop
	}()
	return r, nil
}

func (r *programs) door() sandbox.Door {
	return sandbox.Door{Listen: playDoor, Target: r.url, Header: map[string]string{"Authorization": "Bearer " + r.token}}
}

// stop waits for the program that runs, whose own time is bounded, and for the ends of
// all boxes, and tells what failed on our side.
func (r *programs) stop() error {
	r.mu.Lock()
	r.end = true
	err := r.err
	r.ahead.drop()
	r.mu.Unlock()
	_ = r.srv.Close()
	<-r.served
	return err
}

type programRequest struct {
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Timeout float64           `json:"timeout"` // seconds; 0: what is left
	GPU     bool              `json:"gpu"`     // time it by the first GPU's clock
}

type programReply struct {
	Code   int     `json:"code"`
	Limit  string  `json:"limit"`
	Wall   float64 `json:"wall"`
	CPU    float64 `json:"cpu"`
	GPU    float64 `json:"gpu,omitempty"` // by the card's clock, where it was asked for
	Stdout int     `json:"stdout"`
	Stderr int     `json:"stderr"`
}

// ServeHTTP runs one program.
func (r *programs) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Header.Get("Authorization") != "Bearer "+r.token || req.Method != http.MethodPost || req.URL.Path != "/run" {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	in := bufio.NewReader(http.MaxBytesReader(w, req.Body, maxProgramIn+maxProgramHead))
	line, err := readLine(in, maxProgramHead)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var q programRequest
	if err := json.Unmarshal(line, &q); err != nil || len(q.Args) == 0 || len(q.Args) > 256 || len(q.Env) > 64 || !(q.Timeout >= 0 && q.Timeout < 1e6) {
		http.Error(w, "want a JSON line with args, and at most 64 variables", http.StatusBadRequest)
		return
	}
	data, err := io.ReadAll(in)
	if err != nil {
		http.Error(w, fmt.Sprintf("standard input: more than %d bytes", maxProgramIn), http.StatusRequestEntityTooLarge)
		return
	}
	reply, stdout, stderr, err := r.run(q, data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	reply.Stdout, reply.Stderr = len(stdout), len(stderr)
	head, err := json.Marshal(reply)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(append(head, '\n')) // the benchmark is gone if these fail
	_, _ = w.Write(stdout)
	_, _ = w.Write(stderr)
}

// readLine reads up to a newline, which is dropped.
func readLine(in *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > limit {
			return nil, fmt.Errorf("the first line is longer than %d bytes", limit)
		}
		if err == nil {
			return line[:len(line)-1], nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, errors.New("no line at the beginning")
		}
	}
}

var errEnded = errors.New("the benchmark has ended")

// run plays one program in a fresh box. The error is not the program's.
func (r *programs) run(q programRequest, data []byte) (out programReply, stdout, stderr []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.deadline.Sub(r.p.k.cfg.Now())
	switch {
	case r.end || left <= 0:
		return out, nil, nil, errEnded
	case r.err != nil:
		return out, nil, nil, r.err
	case r.n >= maxPrograms:
		return out, nil, nil, fmt.Errorf("more than %d programs in one benchmark", maxPrograms)
	}
	r.n++
	if t := time.Duration(q.Timeout * float64(time.Second)); t > 0 {
		left = min(left, t)
	}
	var env []string
	for _, k := range sortedKeys(q.Env) {
		if !envForm().MatchString(k) {
			return out, nil, nil, fmt.Errorf("%.40q is not a name of a variable", k)
		}
		env = append(env, k+"="+q.Env[k])
	}
	// The request's end does not end the program: it has its own time, and a
	// program that we cut off would look like a failure of ours.
	start := func() (sandbox.Box, error) { return r.p.env.Box(r.ctx, r.p.spec("program", r.x, left)) }
	b, err := r.ahead.take(start)
	if err != nil {
		r.err = err
		return out, nil, nil, err
	}
	defer r.ahead.end(b)
	if !q.GPU && r.n >= aheadFrom && r.p.spare() {
		defer r.ahead.next(aheadAfter, start)()
	}
	so, se := &tail{limit: maxProgramOut}, &tail{limit: 64 << 10}
	var x sandbox.Exit
	span, err := r.p.span(r.ctx, q.GPU, func() (err error) {
		x, err = b.Exec(r.ctx, sandbox.Cmd{
			Args: q.Args, Env: env, Dir: workspace, Stdin: bytes.NewReader(data), Stdout: so, Stderr: se, Wall: left, Untrusted: true,
		})
		return err
	})
	if err != nil {
		r.err = err
		return out, nil, nil, err
	}
	out = programReply{Code: x.Code, Limit: x.Limit, Wall: x.Wall.Seconds(), CPU: x.CPU.Seconds(), GPU: span.Took.Seconds()}
	return out, so.bytes(), se.bytes(), nil
}
