package gpu

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// timerProgram is run outside of every box, by the host's own Python, with the
// driver's library that the host has.
//
//go:embed timer.py
var timerProgram string

// timerWait bounds one answer of the timing program; a span is longer only if the
// device does not come to its end.
const timerWait = 10 * time.Minute

// maxTimerLine bounds an answer, in bytes.
const maxTimerLine = 512

// Timer implements Driver: a process of the host that records CUDA events.
func (n *Nvidia) Timer(ctx context.Context, d Device) (Timer, error) {
	return startTimer(ctx, cmp.Or(n.c.Python, "python3"), n.c.Cuda, d.UUID)
}

func startTimer(ctx context.Context, python, cuda, uuid string) (*timer, error) {
	cmd := exec.Command(python, "-I", "-c", timerProgram, cmp.Or(cuda, "libcuda.so.1"))
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "CUDA_VISIBLE_DEVICES=" + uuid}
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start timer: %w", ErrDriver, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: start timer: %w", ErrDriver, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: start timer: %w", ErrDriver, err)
	}
	t := &timer{cmd: cmd, in: in, lines: make(chan string)}
	go t.read(out)
	if word, err := t.answer(ctx); err != nil || word != "ready" {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// timer implements Timer.
type timer struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // closed at the program's end

	mu      sync.Mutex // guards started and one exchange of question and answer
	started bool
	once    sync.Once
}

// read passes on the program's answers.
func (t *timer) read(out io.Reader) {
	defer close(t.lines)
	s := bufio.NewScanner(out)
	s.Buffer(nil, maxTimerLine)
	for s.Scan() {
		t.lines <- s.Text()
	}
}

// answer waits for a line. A program that failed, or whose caller gives up, is of no
// more use: its answers would be those to other questions.
func (t *timer) answer(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timerWait)
	defer cancel()
	select {
	case line, ok := <-t.lines:
		if text, bad := strings.CutPrefix(line, "error "); bad {
			return "", fmt.Errorf("%w: timer: %s", ErrDriver, text)
		}
		if !ok {
			return "", fmt.Errorf("%w: the timing program ended", ErrDriver)
		}
		return line, nil
	case <-ctx.Done():
		_ = t.cmd.Process.Kill()
		return "", ctx.Err()
	}
}

func (t *timer) ask(ctx context.Context, word string) (string, error) {
	if _, err := io.WriteString(t.in, word+"\n"); err != nil {
		return "", fmt.Errorf("%w: timer: %w", ErrDriver, err)
	}
	return t.answer(ctx)
}

// Start implements Timer.
func (t *timer) Start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.ask(ctx, "start")
	t.started = err == nil
	return err
}

// Stop implements Timer.
func (t *timer) Stop(ctx context.Context) (time.Duration, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.started {
		return 0, fmt.Errorf("%w: timer: stop without start", ErrDriver)
	}
	t.started = false
	line, err := t.ask(ctx, "stop")
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(line, 10, 64)
	if err != nil || ns < 0 {
		return 0, fmt.Errorf("%w: timer says %.40q", ErrDriver, line)
	}
	return time.Duration(ns), nil
}

// Close implements Timer.
func (t *timer) Close() error {
	t.once.Do(func() {
		_ = t.in.Close()
		_ = t.cmd.Process.Kill()
		for range t.lines { // until its reader has ended
		}
		_ = t.cmd.Wait() // killed by us
	})
	return nil
}
