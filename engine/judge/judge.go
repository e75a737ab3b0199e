// Package judge asks models for verdicts: versioned prompts, strict parsing,
// retries, a cache and a budget (the gateway session's). It is shared by the
// kinds that grade with a model.
//
// What is judged was written by a thief. It travels as strings of one JSON
// document, so that it cannot leave its place; a reply counts only if it holds
// exactly one object, of the form that the prompt asks for, which the judged
// text cannot have brought. Whatever else happens is an error, and an error is
// never a verdict.
package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// Limits of what is sent and believed.
const (
	maxInput = 512 << 10 // the rendered document, bytes
	maxReply = 64 << 10  // what the model says, bytes
	maxBody  = 2 << 20   // the completion that holds it, bytes
)

var (
	// ErrNoVerdict says that no valid reply came: the provider's failure, or a
	// model that does not keep to the form. Never the contestant's.
	ErrNoVerdict = errors.New("no verdict")
	// ErrForm is wrapped as well where the model answered, but not in the form or not to
	// its end, or where its server refused the case.
	ErrForm = errors.New("reply is not in the form")
	// ErrBudget says that the judge's own budget is used up.
	ErrBudget = errors.New("the judge's budget is used up")
	// ErrInput says that the case cannot be sent: too large or not text.
	ErrInput = errors.New("case cannot be judged")
)

// Prompt is one versioned prompt.
type Prompt struct {
	Name    string
	Version int
	System  string
	// MaxTokens bounds the reply.
	MaxTokens int
}

// Hash covers everything that reaches the model besides the case.
func (p Prompt) Hash() agon.Digest {
	b, err := json.Marshal([]any{"agon-judge-prompt-v1", p.Name, p.Version, p.System, p.MaxTokens})
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	return agon.Sum(b)
}

// ID names a prompt in a scorer's version: "support.1-1f2e3d4c".
func (p Prompt) ID() string { return fmt.Sprintf("%s.%d-%s", p.Name, p.Version, p.Hash().Hex()[:8]) }

// Scorer is the version of a scorer that judges with p on model; it changes
// whenever the same record could be judged differently.
func Scorer(kind string, p Prompt, model string) string {
	if model == "" {
		model = "default"
	}
	return kind + "+" + p.ID() + "+" + model
}

// SupportScorer is the version of the scorer that asks models for support, a panel
// of them where panel is above 1.
func SupportScorer(models []string, panel int) string {
	v := Scorer("support", SupportPrompt(), strings.Join(models, ","))
	if panel > 1 {
		v += fmt.Sprintf("+panel-%d", panel)
	}
	return v
}

// ScorerModels are the models that a scorer's judge asks (SupportScorer,
// PairwiseScorer); nil: it asks none that has a name.
func ScorerModels(scorer string) []string {
	part := strings.SplitN(scorer, "+", 3)
	if len(part) < 3 {
		return nil
	}
	names := part[2]
	if i := strings.LastIndex(names, "+panel-"); i >= 0 {
		names = names[:i]
	}
	if names == "" || names == "default" {
		return nil
	}
	return strings.Split(names, ",")
}

// Config is what a judge is made of.
type Config struct {
	// Session pays and records. It is needed, and bounds what judging costs.
	Session gateway.Session
	Model   string // empty: the session's first
	// Others are asked in turn where Model gives no verdict. With Panel they are its further seats.
	Others []string
	// Panel is how many models give a verdict of each case of support; the most
	// count, a tie is not support. Below 2: one.
	Panel int
	// Attempts at a valid reply of one model, default 3; Timeout of each, default 30 s.
	Attempts int
	Timeout  time.Duration
	// Waits are those before the second and further attempts after a failure of the
	// provider; the last holds for all that follow. Default 1, 4 and 15 s. After a
	// reply in a wrong form the next attempt follows at once.
	Waits []time.Duration
	// Sleep waits between attempts; default really does. It returns early with ctx.
	Sleep  func(ctx context.Context, d time.Duration) error
	Client *http.Client // default: no proxy, no redirects
}

// Judge asks. Safe for concurrent use.
type Judge struct {
	cfg Config
	// refused holds "model field" for request fields that a server has said it does not take.
	refused *sync.Map
}

// New checks c.
func New(c Config) (*Judge, error) {
	if c.Session == nil {
		return nil, errors.New("make judge: no gateway session is given")
	}
	if c.Attempts <= 0 {
		c.Attempts = 3
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if len(c.Waits) == 0 {
		c.Waits = []time.Duration{time.Second, 4 * time.Second, 15 * time.Second}
	}
	if c.Panel > 1+len(c.Others) {
		return nil, fmt.Errorf("make judge: a panel of %d needs as many models, %d are named", c.Panel, 1+len(c.Others))
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	if c.Client == nil {
		c.Client = direct
	}
	return &Judge{cfg: c, refused: &sync.Map{}}, nil
}

var direct = &http.Client{
	Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Answer is a valid reply.
type Answer struct {
	Text  string // the object, as the model wrote it
	Model string // that gave it
	Tries int    // calls made for it; 0 from the cache
}

// Ask sends a case and returns the first reply that check accepts, of the
// judge's model or, where that gives none, of the next. input becomes the
// document; check gets the reply's object, already known to be one JSON object
// without duplicate keys. Errors wrap ErrNoVerdict, ErrBudget, ErrInput or the
// context's.
func (j *Judge) Ask(ctx context.Context, p Prompt, input any, check func(obj []byte) error) (Answer, error) {
	return j.askAny(ctx, j.models(), p, input, check)
}

// models are those that may be asked, in order.
func (j *Judge) models() []string { return append([]string{j.cfg.Model}, j.cfg.Others...) }

// askAny asks models in turn until one answers.
func (j *Judge) askAny(ctx context.Context, models []string, p Prompt, input any, check func(obj []byte) error) (Answer, error) {
	doc, err := Document(input)
	if err != nil {
		return Answer{}, err
	}
	var failed []error
	for _, m := range models {
		a, err := j.ask(ctx, m, p, doc, check)
		if err == nil || !errors.Is(err, ErrNoVerdict) {
			return a, err
		}
		failed = append(failed, err)
	}
	if len(failed) == 1 {
		return Answer{}, failed[0]
	}
	return Answer{}, fmt.Errorf("none of %d models: %w", len(failed), errors.Join(failed...))
}

// ask asks one model.
func (j *Judge) ask(ctx context.Context, model string, p Prompt, doc []byte, check func(obj []byte) error) (Answer, error) {
	var last error
	c := question{model: model, prompt: p, doc: doc, tokens: p.MaxTokens}
	failures, changes, refused := 0, 0, 0
	for try := 1; try <= j.cfg.Attempts; try++ {
		text, err := j.send(ctx, c)
		var no *refusal
		switch {
		case errors.Is(err, ErrBudget):
			return Answer{}, err
		case ctx.Err() != nil:
			return Answer{}, ctx.Err()
		case errors.As(err, &no) && no.field != "" && changes < 2:
			// The server named a field that it does not take: the same question without it.
			j.refused.Store(model+" "+no.field, true)
			changes++
			try--
			continue
		case errors.Is(err, errBrokeOff):
			// A model that thinks spends its output on thoughts; once more room is given.
			last = fmt.Errorf("%w: %w", ErrForm, err)
			c.tokens = min(c.tokens*4, maxTokens)
			continue
		case err != nil:
			last = err
			if no != nil && no.ofCase() {
				last = fmt.Errorf("%w: %w", ErrForm, err)
				if refused++; refused == maxRefused {
					return Answer{}, fmt.Errorf("%w after %d attempts: %w", ErrNoVerdict, try, last)
				}
			}
			if try < j.cfg.Attempts {
				w := j.cfg.Waits[min(failures, len(j.cfg.Waits)-1)]
				if no != nil && no.after > 0 {
					w = max(w, min(no.after, time.Minute))
				}
				failures++
				if err := j.cfg.Sleep(ctx, w); err != nil {
					return Answer{}, err
				}
			}
			continue
		}
		obj, err := find(text, doc)
		if err == nil {
			err = check(obj)
		}
		if err != nil {
			last = fmt.Errorf("%w: %w", ErrForm, err)
			c.structured = true
			continue
		}
		return Answer{Text: string(obj), Model: model, Tries: try}, nil
	}
	return Answer{}, fmt.Errorf("%w after %d attempts: %w", ErrNoVerdict, j.cfg.Attempts, last)
}

// Document renders a case. Strings are escaped beyond what JSON needs: no byte
// of them can look like markup, a fence or a control character.
func Document(input any) ([]byte, error) {
	b, err := json.Marshal(input) // escapes <, > and & too
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	if len(b) > maxInput {
		return nil, fmt.Errorf("%w: it has %d bytes, the limit is %d", ErrInput, len(b), maxInput)
	}
	return bytes.ReplaceAll(b, []byte("`"), []byte(`\u0060`)), nil
}

// maxDepth bounds the nesting of a reply.
const maxDepth = 16

// checkObject walks the tokens: one value, no key twice in an object, no deep nesting.
func checkObject(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	type frame struct {
		keys map[string]bool // nil for a list
		key  bool            // a key is due
	}
	var stack []frame
	for {
		t, err := d.Token()
		if err != nil {
			return errors.New("bad JSON")
		}
		top := len(stack) - 1
		if s, ok := t.(string); ok && top >= 0 && stack[top].key {
			if stack[top].keys[s] {
				return errors.New("a key is there twice")
			}
			stack[top].keys[s] = true
			stack[top].key = false
			continue
		}
		switch t {
		case json.Delim('{'):
			stack = append(stack, frame{map[string]bool{}, true})
		case json.Delim('['):
			stack = append(stack, frame{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if len(stack) > maxDepth {
			return errors.New("nested too deep")
		}
		if t != json.Delim('{') && t != json.Delim('[') {
			if n := len(stack); n > 0 {
				stack[n-1].key = stack[n-1].keys != nil
			}
		}
		if len(stack) == 0 {
			break
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the object")
	}
	return nil
}

// Spent is what the judge's session has paid so far.
func (j *Judge) Spent() agon.Micros { return j.cfg.Session.Spent() }
