// Package distill turns plays into a model: it says what a training would take
// (Plan), makes the virtual environment that it needs, and drives the Python
// package agon (package sdk), whose trainers are TRL's (Run). docs/training.md.
package distill

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus"
)

// Methods of training. Those that sample play the base in the arena first.
const (
	SFT  = "sft"
	KTO  = "kto"
	DPO  = "dpo"
	RFT  = "rft"
	GRPO = "grpo"
)

// Methods are all of them.
var Methods = []string{SFT, KTO, DPO, RFT, GRPO}

// Samples reports a method whose rows are plays of the base itself.
func Samples(method string) bool { return method == RFT || method == GRPO }

// Config says what to train on what. The zero value of a number is its default.
type Config struct {
	Arena, Base, Out, Method string

	Corpus string // directory of agon corpus build
	Rows   string // or a file of JSON lines {messages, tools?, task, reward}
	// Sampled rows: so many tasks are played, K times each.
	Tasks, K int

	Epochs       float64
	Batch        int // rows in a step
	MaxLength    int // tokens; a longer row is left out
	LearningRate float64
	LoRA         int // rank; 0 trains all weights
	MaxSteps     int // 0: as many as the epochs take
	Temperature  float64
	TurnTokens   int // at most in one turn of the model
	Seed         int64
	Threads      int  // of torch on a CPU; 0: its own choice
	Scripted     bool // rows of the stand-in script count, too

	Python Python
}

func (c *Config) defaults() {
	if c.K <= 0 {
		c.K = 4
	}
	if c.Epochs <= 0 {
		c.Epochs = 1
	}
	if c.Batch <= 0 {
		c.Batch = 16
	}
	if c.MaxLength <= 0 {
		c.MaxLength = 14336
	}
	if c.LearningRate <= 0 {
		c.LearningRate = map[string]float64{SFT: 1e-4, RFT: 1e-4}[c.Method]
		if c.LearningRate == 0 {
			c.LearningRate = 1e-6
		}
	}
	if c.Temperature <= 0 {
		c.Temperature = 1
	}
	if c.TurnTokens <= 0 {
		c.TurnTokens = 512
	}
	if c.Seed == 0 {
		c.Seed = 7
	}
}

// Plan is what a training would take.
type Plan struct {
	Method string `json:"method"`
	// Rows are plays to train on, Kept those that the rule of rewards keeps: solved
	// ones (sft, rft), all with a reward (kto, grpo), those of tasks with a solved and
	// an unsolved one (dpo). Methods that sample have Rows plays to make, and Kept of
	// those made already: 0 at the start.
	Rows   int   `json:"rows"`
	Kept   int   `json:"kept"`
	Tokens int64 `json:"tokens"` // of what is kept; of all rows at their longest where nothing was sampled yet
	Steps  int   `json:"steps"`
	// Memory is an estimate of what training holds at once: weights, gradients,
	// Adam's moments, activations and logits of a step (docs/training.md has the sum).
	Memory     int64    `json:"memory_bytes"`
	Parameters int64    `json:"parameters"`
	Held       int      `json:"held_out"` // tasks that are kept out of training, to measure by
	Python     string   `json:"python"`   // the interpreter that trains
	Ready      bool     `json:"ready"`    // its packages are installed
	Missing    []string `json:"missing"`  // what has to be mended first, a sentence each
}

// row is what a plan reads of a row of training, of either form.
type row struct {
	Task   string `json:"task"`
	Reward *reward
	Axis   string `json:"axis"`
	Tokens int    `json:"tokens"`
	Steps  []struct {
		Mark *bool `json:"loss_mask"`
	} `json:"steps"`
	Split string `json:"split"`
	From  struct {
		Arena    string `json:"arena"`
		Problem  string `json:"problem_id"`
		Scripted bool   `json:"scripted"`
	} `json:"provenance"`
	size int
}

// reward is a number, or a corpus row's object.
type reward struct {
	Outcome *float64 `json:"outcome"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *reward) UnmarshalJSON(b []byte) error {
	var n float64
	if json.Unmarshal(b, &n) == nil {
		r.Outcome = &n
		return nil
	}
	type plain reward
	return json.Unmarshal(b, (*plain)(r))
}

func (r *row) key() string {
	if r.From.Problem != "" {
		return r.From.Problem
	}
	return r.Task
}

func (r *row) length() int64 {
	if r.Tokens > 0 {
		return int64(r.Tokens)
	}
	return int64(r.size+3) / 4 // about four bytes a token
}

// file is where the rows stand, "" where none are named.
func (c *Config) file() string {
	if c.Corpus != "" {
		return filepath.Join(c.Corpus, "train", "rows.jsonl")
	}
	return c.Rows
}

// maxRow bounds a line of rows, in bytes.
const maxRow = 64 << 20

// read reads the rows of the arena; an error names file and line.
func (c *Config) read(ctx context.Context) ([]row, error) {
	if c.Corpus != "" {
		if _, err := corpus.ReadManifest(c.Corpus); err != nil {
			return nil, err
		}
	}
	path := c.file()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && c.Corpus != "" {
		return nil, nil // a corpus without rows for training
	}
	if err != nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "rows", Message: err.Error()}
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 1<<20), maxRow)
	var out []row
	for n := 1; in.Scan(); n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var r row
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return nil, &agon.Error{Code: "bad_rows", Status: 422, Field: "rows", Message: fmt.Sprintf("%s line %d: %v", path, n, err)}
		}
		if r.Split == corpus.Held {
			return nil, &agon.Error{Code: "bad_rows", Status: 422, Field: "rows", Message: fmt.Sprintf("%s line %d: it is of the split held, which is never trained on", path, n)}
		}
		r.size = len(in.Bytes())
		if (c.Corpus != "" && c.Arena != "" && r.From.Arena != c.Arena) || (r.From.Scripted && !c.Scripted) {
			continue
		}
		out = append(out, r)
	}
	if err := in.Err(); err != nil {
		return nil, &agon.Error{Code: "bad_rows", Status: 422, Field: "rows", Limit: "64 MiB a line", Message: fmt.Sprintf("%s: %v", path, err)}
	}
	return out, nil
}

// teaches reports a row that a method can train on: a model said one of the assistant's
// turns and, where the trainer knows no marks but takes all that follows a model's first
// word (kto, dpo), the agent's code none after that. agon/distill.py has the same.
func (r *row) teaches(method string) bool {
	said, first := 0, -1
	for i, s := range r.Steps {
		if s.Mark == nil || *s.Mark {
			said++
			if first < 0 {
				first = i
			}
		}
	}
	if said == 0 {
		return len(r.Steps) == 0 // a file of plays has no steps: a model said all
	}
	return method != KTO && method != DPO || said == len(r.Steps)-first
}

// keeps is the rule of rewards: which rows a method trains on.
func keeps(method string, list []row) []row {
	list = slices.DeleteFunc(slices.Clone(list), func(r row) bool { return !r.teaches(method) })
	solved := func(r row) bool { return r.Reward != nil && r.Reward.Outcome != nil && *r.Reward.Outcome >= 1 }
	var out []row
	both := map[string][2]bool{}
	for _, r := range list {
		b := both[r.key()]
		b[map[bool]int{true: 1}[solved(r)]] = true
		both[r.key()] = b
	}
	for _, r := range list {
		known := r.Reward != nil && r.Reward.Outcome != nil
		b := both[r.key()]
		if (method == SFT || method == RFT) && solved(r) || (method == KTO || method == GRPO) && known || method == DPO && known && b[0] && b[1] {
			out = append(out, r)
		}
	}
	return out
}

// Made says what is needed to plan: how many tasks can be played, how many of
// them are kept out, and why none can.
type Made struct {
	Tasks, Held int
	Why         string
}

// Plan reads rows, base and machine. What is wrong with them is in Missing; an
// error is ours.
func (c Config) Plan(ctx context.Context, m Made) (*Plan, error) {
	c.defaults()
	p := &Plan{Method: c.Method, Held: m.Held, Missing: []string{}}
	miss := func(format string, args ...any) { p.Missing = append(p.Missing, fmt.Sprintf(format, args...)) }
	if !slices.Contains(Methods, c.Method) {
		miss("method: %.40q is none of %s", c.Method, strings.Join(Methods, ", "))
	}
	base, err := readBase(c.Base)
	if err != nil {
		miss("base: %v", err)
		base = &model{}
	}
	p.Parameters = base.parameters
	if m.Why != "" {
		miss("environment: %s", m.Why)
	}
	if Samples(c.Method) {
		p.Rows = m.Tasks * c.K
		kept, err := c.sampled()
		if err != nil {
			miss("plays: %v", err)
		}
		p.Kept = len(kept)
		for _, r := range kept {
			p.Tokens += min(r.length(), int64(c.MaxLength))
		}
		if p.Kept == 0 {
			p.Tokens = int64(p.Rows) * int64(min(c.MaxLength, base.context()))
		}
		if m.Tasks == 0 && m.Why == "" {
			miss("tasks: there is none to sample plays of")
		}
	} else if err := c.planRows(ctx, p, miss); err != nil {
		return nil, err
	}
	n := p.Kept
	if Samples(c.Method) && n == 0 {
		n = p.Rows
	}
	p.Steps = int(math.Ceil(float64(n) * c.Epochs / float64(c.Batch)))
	if c.MaxSteps > 0 {
		p.Steps = min(p.Steps, c.MaxSteps)
	}
	p.Memory = base.memory(c)
	p.Python, p.Ready = c.Python.find()
	if why := c.Python.check(p.Ready); why != "" {
		miss("python: %s", why)
	}
	if c.Out == "" {
		miss("out: --out names the directory to make")
	}
	return p, nil
}

func (c *Config) planRows(ctx context.Context, p *Plan, miss func(string, ...any)) error {
	if c.file() == "" {
		miss("rows: name a corpus (--corpus, of agon corpus build) or a file of plays (--rows)")
		return nil
	}
	list, err := c.read(ctx)
	var e *agon.Error
	if errors.As(err, &e) {
		miss("rows: %s", e.Message)
		return nil
	}
	if err != nil {
		return err
	}
	p.Rows = len(list)
	for _, r := range keeps(c.Method, list) {
		if r.length() <= int64(c.MaxLength) {
			p.Kept++
			p.Tokens += r.length()
		}
	}
	if p.Kept == 0 {
		miss("rows: none of %d is kept by the rule of %s", p.Rows, c.Method)
	}
	return nil
}

// sampled are the plays that an earlier try made, as far as they are kept.
func (c *Config) sampled() ([]row, error) {
	if c.Out == "" {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(c.Out, "plays.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 1<<20), maxRow)
	var list []row
	for in.Scan() {
		var r struct {
			row
			IDs []int `json:"ids"`
		}
		if json.Unmarshal(in.Bytes(), &r) != nil {
			break // the line that was being written when it stopped
		}
		r.row.Tokens = len(r.IDs)
		list = append(list, r.row)
	}
	return keeps(c.Method, list), in.Err()
}

// model is what a plan reads of a base.
type model struct {
	parameters int64
	Hidden     int64 `json:"hidden_size"`
	Layers     int64 `json:"num_hidden_layers"`
	Vocabulary int64 `json:"vocab_size"`
	Positions  int   `json:"max_position_embeddings"`
}

func (m *model) context() int {
	if m.Positions > 0 {
		return m.Positions
	}
	return 4096
}

// readBase reads the configuration and counts the weights of a model's directory.
func readBase(dir string) (*model, error) {
	if dir == "" {
		return nil, errors.New("--base names the directory of a model")
	}
	b, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("%s is not a model's directory: it has no config.json that can be read", dir)
	}
	m := new(model)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s/config.json: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
		return nil, fmt.Errorf("%s has no tokenizer.json", dir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no weights (*.safetensors)", dir)
	}
	for _, f := range files {
		n, err := weights(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		m.parameters += n
	}
	return m, nil
}

// weights counts the numbers in a file of safetensors: eight bytes say how long
// the JSON of shapes is that follows them.
func weights(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n uint64
	if err := binary.Read(f, binary.LittleEndian, &n); err != nil || n > 100<<20 {
		return 0, errors.New("it is not a file of safetensors")
	}
	head := map[string]struct {
		Shape []int64 `json:"shape"`
	}{}
	raw := map[string]json.RawMessage{}
	if err := json.NewDecoder(io.LimitReader(f, int64(n))).Decode(&raw); err != nil {
		return 0, errors.New("it is not a file of safetensors")
	}
	delete(raw, "__metadata__")
	var sum int64
	for name, b := range raw {
		t := head[name]
		if err := json.Unmarshal(b, &t); err != nil {
			return 0, fmt.Errorf("tensor %.80q: %w", name, err)
		}
		size := int64(1)
		for _, d := range t.Shape {
			if d < 0 || (d > 0 && size > math.MaxInt64/4/d) {
				return 0, fmt.Errorf("tensor %.80q has an impossible shape", name)
			}
			size *= d
		}
		sum += size
	}
	return sum, nil
}

// memory estimates the bytes that a step holds. All weights: 4 bytes each of weight and
// gradient and 8 of Adam's moments; LoRA: 2 a weight, and 16 for each of the few that are
// trained. Activations: 34 bytes for each token, layer and hidden number (Korthikanti et
// al. 2022, without attention scores, which are recomputed); logits: 8 a token and word.
func (m *model) memory(c Config) int64 {
	rows := int64(min(c.Batch, 4)) // more are accumulated
	tokens := rows * int64(min(c.MaxLength, m.context()))
	state := 16 * m.parameters
	if c.LoRA > 0 {
		state = 2*m.parameters + 16*int64(c.LoRA)*m.Hidden*m.Layers*14
	}
	return state + 34*tokens*m.Hidden*m.Layers + 8*tokens*m.Vocabulary
}
