package play

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/sandbox"
)

// warmConfig describes a box in which the runner serves one script.
type warmConfig struct {
	rootfs  string
	dir     string // host directory with agent.py
	tools   string // URL of the tool host, or of what stands for it
	limits  agon.Limits
	timeout time.Duration // of one call
	wall    time.Duration // of the box
	env     []string
	mounts  []sandbox.Mount // besides the script's
	open    func(context.Context, sandbox.Spec) (sandbox.Box, error)
	output  func(task string, l outputLine)
}

// outputLine is what the runner tells of a script's output. Foreign text.
type outputLine struct {
	Type    string `json:"type"`
	Session string `json:"session_id"`
	Stream  string `json:"stream"`
	Message string `json:"message"`
	Dropped int64  `json:"dropped"`
}

// warmBox is a box in which the runner serves one submission.
type warmBox struct {
	box    sandbox.Box
	client *http.Client
	stdin  *io.PipeWriter
	cancel context.CancelFunc
	ended  chan struct{} // closed when the runner has ended
	exit   sandbox.Exit  // valid after ended
	err    error         // valid after ended
	output func(task string, l outputLine)
	tasks  sync.Map // session id → task, for the log, which may lag behind the answers
}

// runnerEnv is what the runner reads when it starts, before it knows of a script.
var runnerEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "PYTHONHASHSEED=0", "HOME=/tmp"}

// startWarm makes a box and waits until the runner in it listens. The script is
// compiled there, but nothing of it runs before the first call.
func startWarm(ctx context.Context, c warmConfig) (*warmBox, error) {
	args, err := runnerArgs()
	if err != nil {
		return nil, err
	}
	memory := c.limits.MemoryBytes
	if memory == 0 {
		memory = sandbox.DefaultLimits.MemoryBytes
	}
	c.limits.WallMS = c.wall.Milliseconds()
	box, err := c.open(ctx, sandbox.Spec{
		Name:   "script",
		Rootfs: c.rootfs,
		Mounts: append([]sandbox.Mount{
			{Kind: sandbox.MountTmp, Target: "/tmp", SizeBytes: 64 << 20},
			{Kind: sandbox.MountReadOnly, Source: c.dir, Target: agentDir},
		}, c.mounts...),
		Doors:  []sandbox.Door{{Listen: toolsDoor, Target: c.tools}},
		Limits: c.limits,
		// The runner with its imports is the same for every script.
		Warm: &sandbox.Warm{Args: args, Env: runnerEnv},
		Env: append(append(slices.Clone(runnerEnv),
			"CASTER_AGENT_PATH="+agentDir+"/"+AgentFile, "SANDBOX_HOST=127.0.0.1", fmt.Sprintf("SANDBOX_PORT=%d", port),
			fmt.Sprintf("ENTRYPOINT_TIMEOUT_SECONDS=%g", c.timeout.Seconds()),
			// A script that fills its memory ends by itself, before the box does.
			fmt.Sprintf("AGON_WORKER_MEMORY=%d", memory/4*3), "AGON_WATCH_STDIN=1",
		), c.env...),
	})
	if err != nil {
		return nil, err
	}
	inR, inW := io.Pipe()
	execCtx, cancel := context.WithCancel(ctx)
	w := &warmBox{box: box, stdin: inW, cancel: cancel, ended: make(chan struct{}), output: c.output}
	w.client = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return box.Dial(ctx, port) },
		MaxIdleConnsPerHost: 4,
		DisableCompression:  true,
	}}
	ready := make(chan struct{})
	say := sync.OnceFunc(func() { close(ready) })
	lines := &lineWriter{max: 512 << 10, line: func(b []byte) { w.line(b, say) }}
	go func() {
		defer close(w.ended)
		w.exit, w.err = box.Exec(execCtx, sandbox.Cmd{
			Args: args, Dir: "/tmp", Stdin: inR, Stdout: lines, Stderr: io.Discard, Untrusted: true, Wall: c.wall,
		})
		_ = inR.Close()
	}()
	t := time.NewTimer(readyWait)
	defer t.Stop()
	select {
	case <-ready:
		return w, nil
	case <-w.ended:
		err = fmt.Errorf("the sandbox ended with status %d before it served", w.exit.Code)
		if w.err != nil {
			err = fmt.Errorf("run the sandbox: %w", w.err)
		}
	case <-t.C:
		err = fmt.Errorf("the sandbox did not serve within %s", readyWait)
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.close()
	return nil, err
}

// line reads one line of the runner's log.
func (w *warmBox) line(b []byte, ready func()) {
	var l outputLine
	if json.Unmarshal(b, &l) != nil {
		return
	}
	switch l.Type {
	case "ready":
		ready()
	case "output":
		v, _ := w.tasks.Load(l.Session)
		task, _ := v.(string)
		w.output(task, l)
	}
}

// call makes one call of the sandbox protocol. An error means that no answer came.
func (w *warmBox) call(ctx context.Context, entry string, within time.Duration, body []byte, s *tools.Session) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/entry/"+entry, bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, n := range Headers() {
		n.Set(req.Header, s)
	}
	req.Header.Set(headerHost, "http://"+toolsDoor)
	req.Header.Set(headerHost2, "http://"+toolsDoor)
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSandboxReply))
	return resp.StatusCode, b, err
}

// died says what to call the end of a call that got no answer.
func (w *warmBox) died(ctx context.Context, err error) (string, PairError) {
	t := time.NewTimer(time.Second) // an exit that is on its way tells more than a broken connection
	defer t.Stop()
	select {
	case <-w.ended:
		if w.exit.Limit != "" {
			return OutcomeBox, PairError{Message: w.exit.Limit + " limit of the box reached"}
		}
		return OutcomeBox, PairError{Message: fmt.Sprintf("the sandbox ended with status %d", w.exit.Code)}
	case <-t.C:
	case <-ctx.Done():
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return agon.OutcomeTimeout, PairError{Exception: "TimeoutError", Message: "no answer in time"}
	}
	return OutcomeBox, PairError{Message: "the connection to the sandbox broke"}
}

// close asks the runner to end, then ends the box. The runner leaves when its
// input does, so that its exit is its own and not a loss.
func (w *warmBox) close() {
	_ = w.stdin.Close()
	w.client.CloseIdleConnections()
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-w.ended:
	case <-t.C:
	}
	w.cancel()
	_ = w.box.Close()
	<-w.ended
}

// lineWriter hands on whole lines of at most max bytes; longer ones are dropped.
type lineWriter struct {
	max  int
	line func([]byte)
	buf  []byte
	skip bool
}

func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		adv, tok, _ := bufio.ScanLines(b, false)
		if adv == 0 {
			if l.skip = l.skip || len(l.buf)+len(b) > l.max; l.skip {
				l.buf = l.buf[:0]
			} else {
				l.buf = append(l.buf, b...)
			}
			break
		}
		if !l.skip && len(l.buf)+len(tok) <= l.max {
			l.line(append(l.buf, tok...))
		}
		l.buf, l.skip, b = l.buf[:0], false, b[adv:]
	}
	return n, nil
}
