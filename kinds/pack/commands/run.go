package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/spf13/cobra"
)

// Bounds of what a model writes for a miner.
const (
	maxWritten = 28_000 // characters of AGENTS.md
	maxReply   = 1 << 20
	modelWait  = 3 * time.Minute
)

// packMiner is the miner's loop: a pack is made, checked, published, and
// committed where it is another than the ledger shows.
type packMiner struct {
	make    func(ctx context.Context) (p *packfile.Pack, url string, err error) // url is empty where it is not published yet
	publish func(ctx context.Context, p *packfile.Pack) (url string, err error)
	current func(ctx context.Context) (packfile.Commitment, error)
	commit  func(ctx context.Context, c packfile.Commitment, text string) (block uint64, err error)
	schema  string
}

// packRound is what one round of the loop did.
type packRound struct {
	Hash    string `json:"hash"`
	URL     string `json:"url"`
	Changed bool   `json:"changed"`
	Block   uint64 `json:"block,omitempty"`
}

func (m *packMiner) round(ctx context.Context) (*packRound, error) {
	p, url, err := m.make(ctx)
	if err != nil {
		return nil, err
	}
	if issues := p.Issues(m.schema); len(issues) > 0 {
		return nil, &agon.Error{Code: "schema", Status: 422, Field: "pack", Message: "the pack would be refused: " + issues[0]}
	}
	if flags := kindpack.Signs(p); kindpack.Refuses(flags) {
		return nil, &agon.Error{Code: kindpack.CodeIntegrity, Status: 422, Field: "pack", Message: "the pack would be excluded: " + flags[0].Why}
	}
	now, err := m.current(ctx)
	if err != nil {
		return nil, err
	}
	if now.Hash == p.Hash && (url == "" || now.URL == url) {
		return &packRound{Hash: p.Hash, URL: now.URL}, nil // committing again would only be later
	}
	if url == "" {
		if url, err = m.publish(ctx, p); err != nil {
			return nil, err
		}
	}
	c := packfile.Commitment{Hash: p.Hash, URL: url}
	text, err := c.Write()
	if err != nil {
		return nil, &agon.Error{Code: "bad_commitment", Status: 422, Field: "url", Limit: fmt.Sprintf("%d bytes", packfile.MaxCommitment), Message: err.Error()}
	}
	r := &packRound{Hash: p.Hash, URL: url, Changed: true}
	r.Block, err = m.commit(ctx, c, text)
	return r, err
}

// packRun is the command: where its packs come from, and how often.
type packRun struct {
	commands
	netuid            int
	mode, pack, brief string
	schema            string
	interval          time.Duration
	once, private     bool
	place             packPlace
}

func (a commands) packRunCmd() *cobra.Command {
	r := &packRun{commands: a}
	cmd := &cobra.Command{
		Use:   "run [--mode demo|default]",
		Short: "Mine in a loop: write a policy, build, publish, commit when it has changed",
		Long: `Mine policy packs in a loop. In the mode default a model writes AGENTS.md (after --brief, if
given), the pack is built, checked, put at --bucket or --dir, and committed; in the mode demo the
sample pack of the server in force, or the one at --pack, is committed. What the ledger shows
already is not committed again. A round that fails is told and tried again after --interval.
The model is AGON_LLM_BASE_URL, AGON_LLM_API_KEY, AGON_LLM_MODEL; CLAWBENCH_LLM_* with
CLAWBENCH_DEFAULT_MODEL, and LLM_* are read too. JSON lines: {hash, url, changed, block}.`,
		Example: "  agon pack run --mode demo --netuid 11 --once\n  agon pack run --netuid 11 --bucket packs --interval 1h",
		Args:    cli.Args(0, 0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.Run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&r.mode, "mode", "default", "demo or default")
	cli.Register(cmd, "mode", "demo", "default")
	f.StringVar(&r.pack, "pack", "", "mode demo: `address` of the pack (default: a sample of the server in force)")
	f.StringVar(&r.brief, "brief", "", "mode default: a `file` that tells the model what the policy is for")
	f.DurationVar(&r.interval, "interval", time.Hour, "`time` between rounds")
	f.BoolVar(&r.once, "once", false, "end after one round")
	f.BoolVar(&r.private, "allow-private", false, "fetch from a private address too")
	r.place.flags(cmd)
	cli.NetuidFlag(cmd, &r.netuid)
	schemaFlag(cmd, &r.schema, packfile.SchemaAny)
	return cmd
}

// Run plays rounds until ctx ends.
func (r *packRun) Run(ctx context.Context) error {
	if err := checkSchema(r.schema); err != nil {
		return err
	}
	if r.interval < time.Second {
		return output.Usage("interval", "give at least 1s", "--interval %s is too short", r.interval)
	}
	key, err := r.Key()
	if err != nil {
		return err
	}
	m := &packMiner{schema: r.schema, publish: func(ctx context.Context, p *packfile.Pack) (string, error) { return r.place.put(ctx, r.Env.Getenv, p) }}
	if m.make, err = r.source(); err != nil {
		return err
	}
	tick := time.NewTicker(r.interval)
	defer tick.Stop()
	for {
		round, err := r.round(ctx, m, key.SS58())
		switch {
		case ctx.Err() != nil:
			return &cli.Exit{Code: cli.CodeOK} // an interrupt is how this ends
		case err != nil && r.once:
			return err
		case err != nil:
			fmt.Fprintf(r.IO.Err, "this round failed, the next is in %s: %s\n", r.interval, plainText(err.Error()))
		default:
			if err := r.Printer.Print(ctx, round.result()); err != nil {
				return err
			}
		}
		if r.once {
			return nil
		}
		select {
		case <-ctx.Done():
			return &cli.Exit{Code: cli.CodeOK}
		case <-tick.C:
		}
	}
}

// source is where the packs of the mode come from (packMiner.make).
func (r *packRun) source() (func(context.Context) (*packfile.Pack, string, error), error) {
	switch r.mode {
	case "demo":
		return r.sample()
	case "default":
		return r.written()
	}
	return nil, output.Usage("mode", "use demo or default", "--mode %q is not known", r.mode)
}

// sample fetches a pack that is published already.
func (r *packRun) sample() (func(context.Context) (*packfile.Pack, string, error), error) {
	url, private := r.pack, r.private
	if url == "" {
		common, done, err := r.Common()
		if err != nil {
			return nil, err
		}
		done()
		url = strings.TrimRight(common.Config.Get(config.URL), "/") + "/packs/optimised.json"
		private = true // the server in force is one's own choice
	}
	get := fetch.New(fetch.Config{AllowPrivate: private})
	return func(ctx context.Context) (*packfile.Pack, string, error) {
		b, err := get.Get(ctx, url)
		if err != nil {
			return nil, "", err
		}
		p, err := packfile.Read(b)
		return p, url, err
	}, nil
}

// written has a model write the policy of a pack.
func (r *packRun) written() (func(context.Context) (*packfile.Pack, string, error), error) {
	if err := r.place.check(r.Env.Getenv); err != nil {
		return nil, err
	}
	w, err := modelFrom(r.Env.Getenv)
	if err != nil {
		return nil, err
	}
	if r.brief != "" {
		b, err := readSome(r.brief, packfile.MaxBytes)
		if err != nil {
			return nil, err
		}
		w.brief = string(b)
	}
	return func(ctx context.Context) (*packfile.Pack, string, error) {
		text, err := w.write(ctx)
		if err != nil {
			return nil, "", err
		}
		if r.schema == packfile.SchemaS1 {
			return packfile.BuildS1(text), "", nil
		}
		return packfile.Build(packfile.BuildOptions{Policy: text}), "", nil
	}, nil
}

// round is one round of m against the ledger as it is now.
func (r *packRun) round(ctx context.Context, m *packMiner, hotkey string) (round *packRound, err error) {
	err = r.WithLedger(ctx, func(l ledger.Full) (err error) {
		n, err := cli.SubnetOf(ctx, l, r.netuid)
		if err != nil {
			return err
		}
		m.current = func(ctx context.Context) (packfile.Commitment, error) {
			c, _, err := ownCommitment(ctx, l, n, hotkey)
			return c, err
		}
		m.commit = func(ctx context.Context, c packfile.Commitment, text string) (uint64, error) {
			return commitPack(ctx, l, n, hotkey, c.Hash, text)
		}
		round, err = m.round(ctx)
		return err
	})
	return round, err
}

func (r *packRound) result() output.Result {
	return output.Result{Value: r, IDs: []string{r.Hash}, Human: func(h *output.Human) {
		if !r.Changed {
			h.Line("unchanged: %s is committed already", r.Hash)
			return
		}
		h.Line("Submitted successfully!")
		h.Line("  Pack hash: %s", r.Hash)
		h.Line("  Pack URL:  %s", r.URL)
	}}
}

// policyWriter asks a model for a policy.
type policyWriter struct {
	base, key, model string
	brief            string
	client           *http.Client
}

// modelFrom reads the model from the environment, by agon's names or those
// that miners have set already.
func modelFrom(getenv func(string) string) (*policyWriter, error) {
	for _, names := range [][3]string{
		{"AGON_LLM_BASE_URL", "AGON_LLM_API_KEY", "AGON_LLM_MODEL"},
		{"CLAWBENCH_LLM_BASE_URL", "CLAWBENCH_LLM_API_KEY", "CLAWBENCH_DEFAULT_MODEL"},
		{"LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL"},
	} {
		base := strings.TrimRight(getenv(names[0]), "/")
		if base == "" {
			continue
		}
		model, _, _ := strings.Cut(getenv(names[2]), ",")
		if names[2] != "AGON_LLM_MODEL" { // "zhipu/glm-5": the provider is in the address
			if _, rest, ok := strings.Cut(model, "/"); ok {
				model = rest
			}
		}
		if model = strings.TrimSpace(model); model == "" {
			return nil, output.Usage("model", "set "+names[2], "%s is set and %s is not", names[0], names[2])
		}
		return &policyWriter{base: base, key: strings.TrimSpace(getenv(names[1])), model: model, client: &http.Client{Timeout: modelWait}}, nil
	}
	return nil, output.Usage("model", "set AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL", "no model is configured to write the policy")
}

const writeTask = `Write AGENTS.md, the policy of an office agent that works with the tools exec (mail, calendar and tasks by
command line), slack, memory_search, memory_get, web_search and read. It must never send, delete or change anything
without leave, never repeat what is confidential, ground every statement in what a tool returned, and stop as soon as
the request is answered, with as few calls as that takes. Be general: do not name particular tasks, people or data.
Answer with the Markdown text of AGENTS.md alone, at most 6000 characters.`

// write returns the text of a policy.
func (w *policyWriter) write(ctx context.Context) (string, error) {
	task := writeTask
	if w.brief != "" {
		task += "\n\nWhat else it is for:\n" + w.brief
	}
	body, err := json.Marshal(map[string]any{
		"model": w.model, "temperature": 0, "max_tokens": 8192, "messages": []map[string]string{{"role": "user", "content": task}},
	})
	if err != nil {
		return "", fmt.Errorf("ask for a policy: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("ask for a policy: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if w.key != "" {
		req.Header.Set("Authorization", "Bearer "+w.key)
	}
	failed := func(format string, args ...any) error {
		return &agon.Error{Code: "model", Status: 503, Fault: agon.FaultProvider, Message: "the model wrote no policy: " + fmt.Sprintf(format, args...)}
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "", failed("no answer within %s", modelWait)
		}
		return "", failed("%v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return "", failed("%v", err)
	case resp.StatusCode != http.StatusOK:
		return "", failed("status %d", resp.StatusCode)
	case len(raw) > maxReply:
		return "", failed("more than %d bytes", maxReply)
	}
	var out struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(raw, &out); err != nil || len(out.Choices) == 0 {
		return "", failed("the answer is not a chat completion")
	}
	text := unfence(out.Choices[0].Message.Content)
	switch n := len([]rune(text)); {
	case n == 0:
		return "", failed("it is empty")
	case n > maxWritten:
		return "", failed("%d characters, at most %d", n, maxWritten)
	}
	return text + "\n", nil
}

// unfence takes a text out of the fence that models put around it.
func unfence(s string) string {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "```"); ok {
		if _, body, ok := strings.Cut(rest, "\n"); ok {
			s = strings.TrimSuffix(strings.TrimSpace(body), "```")
		}
	}
	return strings.TrimSpace(s)
}
