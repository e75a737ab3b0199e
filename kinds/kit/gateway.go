package kit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/cassette"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/gateway/provider/trainer"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/gateway/tool/search"
)

// NewGateway starts a gateway on loopback: a real upstream where one is
// configured, else the script of the samples. Its books and its key live in dir.
func NewGateway(ctx context.Context, o Options, dir string) (*gateway.Gateway, error) {
	return newGateway(ctx, o, dir)
}

// NewTrainerGateway is NewBriefGateway with a trainer's model behind the upstreams
// of this machine, which judges go on to ask. What it is asked costs its owner, not
// the run: its price is 0.
func NewTrainerGateway(ctx context.Context, o Options, up *trainer.Upstream) (*gateway.Gateway, error) {
	return newGateway(ctx, o, "", up)
}

// NewBriefGateway is NewGateway for a command whose accounts nobody asks for
// afterwards: its books are in memory.
func NewBriefGateway(ctx context.Context, o Options) (*gateway.Gateway, error) {
	return newGateway(ctx, o, "")
}

// newGateway keeps books in dir, or in memory where it is empty. free are upstreams
// whose models cost nothing.
func newGateway(ctx context.Context, o Options, dir string, free ...provider.Upstream) (*gateway.Gateway, error) {
	prices, err := gateway.LoadPrices()
	if err != nil {
		return nil, err
	}
	cfg := gateway.Config{Prices: prices, Log: o.Log, Dialects: o.Kits.Dialects()}
	oc, keyed, err := openai.FromEnv(o.Getenv)
	if err != nil {
		return nil, err
	}
	var up provider.Upstream
	if keyed {
		for _, m := range oc.Models {
			note, err := prices.Operator(m, o.Getenv)
			if err != nil {
				return nil, err
			}
			if note != "" {
				o.Sayf("%s", note)
			}
		}
		if up, err = openai.New(oc); err != nil {
			return nil, err
		}
	} else {
		script, err := o.script()
		if err != nil {
			return nil, err
		}
		up = scripted.New(script)
		if o.ScriptPrice {
			p := prices[scripted.Name]
			p.In, p.Out, p.Version = 1_000_000, 3_200_000, "made-up"
			if err := prices.Set(scripted.Name, p); err != nil {
				return nil, err
			}
		}
		if tape := o.Getenv("AGON_LLM_CASSETTE"); tape != "" {
			o.Sayf("model calls are played from the tape %s", tape)
		} else {
			o.Sayf("no model key is set (AGON_LLM_BASE_URL, AGON_LLM_API_KEY, AGON_LLM_MODEL): model calls are answered by a script, labelled scripted")
		}
	}
	if cfg.Upstreams, err = withOthers(o, prices, up); err != nil {
		return nil, err
	}
	for _, u := range free {
		for _, m := range u.Models() {
			if err := prices.Set(m, gateway.Price{Kind: "chat", MaxOutput: maxFreeOutput, Version: "free"}); err != nil {
				return nil, err
			}
		}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	if cfg.Tools, err = gatewayTools(o); err != nil {
		return nil, err
	}
	if dir == "" {
		cfg.AfterStop = func() error { return nil }
	} else if err := openBooks(ctx, &cfg, dir, o.Getenv); err != nil {
		return nil, err
	}
	gw, err := gateway.New(cfg)
	if err == nil {
		err = gw.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, cfg.AfterStop())
	}
	return gw, nil
}

// script is what answers where no model is configured: AGON_LLM_SCRIPT, or else what the
// kinds have for their samples.
func (o Options) script() (*scripted.Script, error) {
	if file := o.Getenv("AGON_LLM_SCRIPT"); file != "" {
		s, err := scripted.Load(file)
		if err != nil {
			return nil, &agon.Error{Code: "bad_config", Status: 422, Field: "AGON_LLM_SCRIPT", Message: err.Error(), Err: err, Mend: "name a script as docs/examples/rounds/script.json is one"}
		}
		return s, nil
	}
	return o.Kits.Script()
}

// maxFreeOutput bounds a reply of a model that costs nothing, in tokens.
const maxFreeOutput = 32 << 10

// maxKeepDays bounds AGON_KEEP_BODIES_DAYS.
const maxKeepDays = 36500

// keepBodies reads how long long bodies of calls stay beside the gateway; 0: for ever.
func keepBodies(getenv func(string) string) (time.Duration, error) {
	const name = "AGON_KEEP_BODIES_DAYS"
	text := getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxKeepDays {
		return 0, &agon.Error{Code: "bad_config", Status: 422, Field: name, Message: fmt.Sprintf("%.40q is not a number of days from 0 to %d", text, maxKeepDays), Limit: strconv.Itoa(maxKeepDays), Mend: "give 1 or more, or 0 for ever"}
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// openBooks gives a gateway durable books, its key and a place for long bodies, all in dir. What a
// crash left reserved is released here.
func openBooks(ctx context.Context, c *gateway.Config, dir string, getenv func(string) string) error {
	var err error
	if c.KeepBodies, err = keepBodies(getenv); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the gateway's directory: %w", err)
	}
	key, was, err := gateway.OpenKey(dir)
	if err != nil {
		return err
	}
	c.Successions = was
	if c.Bodies, err = blobfs.Open(filepath.Join(dir, "bodies"), blobfs.Options{}); err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "gateway.db"))
	if err != nil {
		return err
	}
	c.AfterStop = s.Close
	c.Books, err = gateway.NewBooks(ctx, gateway.BooksConfig{Journal: s, Key: key})
	if err != nil {
		_ = s.Close() // the error before says more
	}
	return err
}

// upstreamFile is AGON_LLM_UPSTREAMS: further servers, in order of preference
// behind the first. It holds keys, so nobody else may read it.
type upstreamFile struct {
	Upstream []struct {
		Name    string   `toml:"name"`
		BaseURL string   `toml:"base_url"`
		Key     string   `toml:"key"`
		Models  []string `toml:"models"`
		Speaks  []string `toml:"speaks"`
	} `toml:"upstream"`
}

// maxUpstreams bounds the file in bytes.
const maxUpstreams = 64 << 10

// withOthers adds the upstreams of AGON_LLM_UPSTREAMS behind up, and puts the
// first behind the tape of AGON_LLM_CASSETTE: with AGON_LLM_BASE_URL it
// records, without it plays.
func withOthers(o Options, prices gateway.Prices, up provider.Upstream) ([]provider.Upstream, error) {
	out := []provider.Upstream{up}
	if tape := o.Getenv("AGON_LLM_CASSETTE"); tape != "" {
		var c *cassette.Upstream
		var err error
		if o.Getenv("AGON_LLM_BASE_URL") != "" {
			c, err = cassette.Record(tape, up)
		} else {
			c, err = cassette.Play(tape, strings.FieldsFunc(o.Getenv("AGON_LLM_MODEL"), func(r rune) bool { return r == ',' || r == ' ' }))
			if err == nil && len(c.Models()) == 0 {
				err = errors.New("read AGON_LLM_MODEL: it is empty, and the replies of AGON_LLM_CASSETTE name no model")
			}
		}
		if err != nil {
			return nil, err
		}
		for _, m := range c.Models() {
			if _, err := prices.Operator(m, o.Getenv); err != nil {
				return nil, err
			}
		}
		out[0] = c
	}
	if base := o.Getenv("AGON_JUDGE_BASE_URL"); base != "" {
		models := ModelNames(o.Getenv("AGON_JUDGE_MODEL"))
		if len(models) == 0 {
			return nil, errors.New("read AGON_JUDGE_MODEL: it is empty but AGON_JUDGE_BASE_URL is set")
		}
		u, err := openai.New(openai.Config{Name: "judge", BaseURL: base, Key: strings.TrimSpace(o.Getenv("AGON_JUDGE_API_KEY")), Models: models})
		if err != nil {
			return nil, fmt.Errorf("the judge's upstream: %w", err)
		}
		for _, m := range models {
			note, err := prices.Operator(m, o.Getenv)
			if err != nil {
				return nil, err
			}
			if note != "" {
				o.Sayf("%s", note)
			}
		}
		out = append(out, u)
	}
	path := o.Getenv("AGON_LLM_UPSTREAMS")
	if path == "" {
		return out, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read AGON_LLM_UPSTREAMS: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 || st.Size() > maxUpstreams || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("read AGON_LLM_UPSTREAMS: %s must be a file of at most %d bytes that only its owner may read (0600)", path, maxUpstreams)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read AGON_LLM_UPSTREAMS: %w", err)
	}
	var f upstreamFile
	if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(&f); err != nil {
		return nil, errors.New("read AGON_LLM_UPSTREAMS: want [[upstream]] tables with name, base_url, key, models and, where it is not OpenAI's chat, speaks") // the parser's text may quote a key
	}
	for _, x := range f.Upstream {
		u, err := openai.New(openai.Config{Name: x.Name, BaseURL: x.BaseURL, Key: x.Key, Models: x.Models, Speaks: x.Speaks})
		if err != nil {
			return nil, fmt.Errorf("upstream %s: %w", x.Name, err)
		}
		for _, m := range x.Models {
			note, err := prices.Operator(m, o.Getenv)
			if err != nil {
				return nil, err
			}
			if note != "" {
				o.Sayf("%s", note)
			}
		}
		out = append(out, u)
	}
	return out, nil
}

// gatewayTools are the metered tools: those of the kinds, and search_web at
// AGON_SEARCH_URL (key in AGON_SEARCH_KEY), or over the documents in
// AGON_SEARCH_DIR. AGON_SEARCH_PRICE is in micro-dollars per result.
func gatewayTools(o Options) ([]tool.Tool, error) {
	var out []tool.Tool
	for _, k := range o.Kits {
		if k.Tools == nil {
			continue
		}
		list, err := k.Tools(o)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	var src search.Source
	var err error
	url, dir := o.Getenv("AGON_SEARCH_URL"), o.Getenv("AGON_SEARCH_DIR")
	switch {
	case url != "" && dir != "":
		return nil, errors.New("read AGON_SEARCH_URL: AGON_SEARCH_DIR is set as well")
	case url != "":
		src, err = search.NewHTTP("search", url, o.Getenv("AGON_SEARCH_KEY"))
	case dir != "":
		var docs *index.Folder
		if docs, err = index.Load(os.DirFS(dir), "index", time.Now); err == nil {
			src = tools.Source(docs)
		}
	default:
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	price := tool.Price{Version: "operator"}
	if s := o.Getenv("AGON_SEARCH_PRICE"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || n > 1_000_000 {
			return nil, fmt.Errorf("read AGON_SEARCH_PRICE: %q is not a whole number of micro-dollars per result", s)
		}
		price.PerResult = agon.Micros(n)
	}
	return append(out, search.New(src, price)), nil
}
