package distill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client/sdk"
)

// Environments are the servers that plays are made at: of the tasks that may be
// trained on, and of those that only measure.
type Environments struct{ Train, Held string }

// Event is a step of the work, as the Python side tells of it.
type Event struct {
	Stage string  `json:"stage"`
	Step  int     `json:"step"`
	Of    int     `json:"of"`
	Loss  float64 `json:"loss"`
}

// Figure is what a model did on the held-out tasks.
type Figure struct {
	Solved   int        `json:"solved"`
	Rate     float64    `json:"rate"`
	Interval [2]float64 `json:"interval"` // 95 %, Wilson
	PassAt   *float64   `json:"pass_at_k"`
	// What a model did to be paid, for a person to look at: see docs/training.md.
	Audit json.RawMessage `json:"audit"`
}

// Report is what came of a training.
type Report struct {
	Method  string  `json:"method"`
	Arena   string  `json:"arena"`
	Base    string  `json:"base"`
	Model   string  `json:"model"` // directory of the trained one
	Rows    int     `json:"rows"`
	Kept    int     `json:"kept"`
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss"`
	HeldOut int     `json:"held_out"`
	Before  *Figure `json:"before"`
	After   *Figure `json:"after"`
	// Gain is the mean difference of pairs with its 95 % interval; P is two-sided,
	// exact (McNemar). Null without held-out tasks.
	Gain         *[3]float64       `json:"gain"`
	P            *float64          `json:"p"`
	K            int               `json:"k"`
	Contaminated int               `json:"contaminated"` // rows of held-out tasks, which were left out
	Seconds      float64           `json:"seconds"`
	Artifacts    map[string]string `json:"artifacts"` // sha256 by path below OUT
}

// Run trains. The directory Out keeps every stage, so that a Run that was stopped
// goes on where it was; one process works in it at a time.
func (c Config) Run(ctx context.Context, at Environments, tell func(Event)) (*Report, error) {
	c.defaults()
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(c.Out, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, &agon.Error{Code: "busy", Status: 409, Field: "out", Message: "another training works in " + c.Out, Mend: "wait for it, or name another directory"}
	}
	python, err := c.Python.Ensure(ctx)
	if err != nil {
		return nil, err
	}
	code, err := os.MkdirTemp("", "agon-distill-")
	if err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	defer os.RemoveAll(code)
	if err := sdk.Write(code); err != nil {
		return nil, err
	}
	base, err := filepath.Abs(c.Base)
	if err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	out, err := filepath.Abs(c.Out)
	if err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	rows := ""
	if !Samples(c.Method) {
		if rows, err = filepath.Abs(c.file()); err != nil {
			return nil, fmt.Errorf("distill: %w", err)
		}
	}
	job, err := json.Marshal(map[string]any{
		"method": c.Method, "arena": c.Arena, "base": base, "out": out, "url": at.Train, "held_url": at.Held, "rows": rows, "corpus": c.Corpus != "", "scripted": c.Scripted,
		"k": c.K, "threads": c.Threads,
		"sampling": map[string]any{"temperature": c.Temperature, "turn_tokens": c.TurnTokens, "max_tokens": c.MaxLength},
		"train": map[string]any{
			"learning_rate": c.LearningRate, "epochs": c.Epochs, "batch": min(c.Batch, 16), "accumulate": max(1, c.Batch/16), "max_length": c.MaxLength, "lora_rank": c.LoRA, "seed": c.Seed,
			"max_steps": map[bool]int{true: c.MaxSteps, false: -1}[c.MaxSteps > 0],
		},
	})
	if err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	begun := time.Now() //nolint:forbidigo // measures a real process
	r, err := drive(ctx, lock, python, code, c.Threads, job, tell)
	if err != nil {
		return nil, err
	}
	r.Seconds = time.Since(begun).Seconds()
	return r, nil
}

// maxLine bounds a line of the Python side.
const maxLine = 16 << 20

// drive runs the Python side: the job on its input, events and the report, a JSON
// object a line, on its output. It is ended with its children when ctx ends. It holds
// the lock, too: what outlives this process keeps the directory.
func drive(ctx context.Context, lock *os.File, python, code string, threads int, job []byte, tell func(Event)) (*Report, error) {
	cmd := exec.CommandContext(ctx, python, "-m", "agon.distill")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+code, "PYTHONUNBUFFERED=1", "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "TOKENIZERS_PARALLELISM=false", "HF_HUB_DISABLE_TELEMETRY=1", "OMP_WAIT_POLICY=PASSIVE")
	if threads > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("OMP_NUM_THREADS=%d", threads))
	}
	cmd.Stdin = strings.NewReader(string(job))
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	var errs tail
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("distill: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("distill: start %s: %w", python, err)
	}
	var report *Report
	var mistake string
	in := bufio.NewScanner(out)
	in.Buffer(make([]byte, 0, 1<<20), maxLine)
	for in.Scan() {
		var v struct {
			Event
			Report  *Report `json:"report"`
			Mistake string  `json:"mistake"`
		}
		if json.Unmarshal(in.Bytes(), &v) != nil {
			continue // a library's own words
		}
		switch {
		case v.Report != nil:
			report = v.Report
		case v.Mistake != "":
			mistake = v.Mistake
		case v.Stage != "" && tell != nil:
			tell(v.Event)
		}
	}
	scan := in.Err()
	if scan != nil {
		_, _ = io.Copy(io.Discard, out) // so that it can end
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case mistake != "":
		return nil, &agon.Error{Code: "cannot_train", Status: 422, Field: "base", Message: mistake}
	case err != nil:
		return nil, &agon.Error{Code: "training_failed", Status: 500, Message: fmt.Sprintf("training ended with %v: %s", err, errs.String()), Mend: "the same command goes on where it stopped"}
	case report == nil:
		return nil, errors.Join(errors.New("distill: training ended without a report"), scan)
	}
	return report, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b); n > 64<<10 {
		t.b = append(t.b[:0], t.b[n-32<<10:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return last(t.b)
}
