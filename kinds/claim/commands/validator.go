package commands

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/libraries"
)

// seedPlayer plays the pairs of batches that a platform of the seed era pushes.
type seedPlayer struct {
	player *kit.Player
	blobs  blob.Store
	// epoch tells this process from the one before: a pair that a kill cut off
	// must not find its money half spent.
	epoch int64
	libs  *agon.Libraries // that scripts are shown; nil: none
}

// play implements wire.ValidatorConfig.Play.
func (s *seedPlayer) play(ctx context.Context, p wire.Pair) (wire.Result, error) {
	var cl play.Claim
	var ref play.Reference
	// The shapes are the same but for their places; both sides are checked again when the task is read.
	payload := map[string]any{
		"claim_text": p.Claim.Text, "rubric_title": p.Claim.Rubric.Title, "rubric_description": p.Claim.Rubric.Description,
		"verdict_options": []wire.Option(p.Claim.Rubric.Options),
	}
	if p.Claim.Context != nil {
		payload["context"] = p.Claim.Context
	}
	cl.ClaimID, cl.Budget = p.Claim.ClaimID, p.Claim.Budget()
	if err := recode(payload, &cl.Payload); err != nil {
		return wire.Result{}, err
	}
	if err := recode(p.Claim.Reference, &ref); err != nil {
		return wire.Result{}, err
	}
	digest, err := blob.PutFiles(ctx, s.blobs, []blob.File{{Path: play.AgentFile, Content: p.Script}}, blob.TreeLimits{})
	if err != nil {
		return wire.Result{}, err
	}
	sub := agon.Submission{ID: p.Candidate.ArtifactID, Arena: "pushed", Name: "script", Digest: digest}
	att, pair, err := rounds.PlayPair(ctx, s.player, s.blobs, sub, fmt.Sprintf("%s-%s-%s-%d", p.BatchID, p.Candidate.ArtifactID, p.Claim.ClaimID, s.epoch), p.Attempt, cl, ref, s.libs)
	if err != nil {
		return wire.Result{}, err
	}
	if pair == nil {
		return wire.Result{ErrorCode: wire.CodeInvocation, ErrorMessage: att.Outcome}, nil
	}
	r := wire.Result{Session: wire.Session{
		SessionID: pair.Session.ID, UID: p.Candidate.UID, Status: pair.Session.Status, IssuedAt: pair.Session.IssuedAt, ExpiresAt: pair.Session.ExpiresAt,
	}}
	for _, t := range pair.Tools {
		cost := float64(t.Cost) / 1e6
		switch {
		case t.Outcome != tools.OutcomeOK:
		case t.Tool == tools.LLMChat:
			r.Usage.LLMCalls++
			r.Usage.LLMCost += cost
			r.Usage.Prompt += t.Prompt
			r.Usage.Completion += t.Completion
		case tools.SearchTool(t.Tool):
			r.Usage.SearchCalls++
			r.Usage.SearchCost += cost
		}
	}
	if pair.Outcome != agon.OutcomeOK || pair.Response == nil || len(att.Scores) != 1 {
		r.ErrorCode, r.ErrorMessage = wire.CodeInvocation, pair.Outcome
		if e := pair.Error; e != nil {
			r.ErrorMessage = strings.TrimRight(pair.Outcome+": "+plain.Line(e.Exception+" "+e.Message), ": ")
		}
		return r, nil
	}
	score := att.Scores[0]
	r.Verdict, r.Justification, r.Rationale = pair.Response.Verdict, pair.Response.Justification, score.Detail
	r.VerdictScore, r.SupportScore = score.Metrics["verdict_score"], score.Metrics["support_score"]
	r.SupportPass = r.SupportScore > 0
	for _, h := range pair.Response.Citations {
		c := wire.Citation{ReceiptID: h.ReceiptID, ResultID: h.ResultID}
		if h.URL != nil {
			c.URL = *h.URL
		}
		if h.Note != nil {
			c.Note = *h.Note
		}
		r.Citations = append(r.Citations, c)
	}
	return r, nil
}

func recode(from, to any) error {
	b, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

// seedPlatform is the platform that pushes batches: scripts come from it, and
// this validator tells it where it listens.
type seedPlatform struct {
	base   *url.URL
	key    auth.Signer
	client *http.Client

	mu    sync.Mutex
	known string // why the platform does not know of us yet; guarded by mu
}

// ready implements wire.ValidatorConfig.Ready.
func (p *seedPlatform) ready() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

func (p *seedPlatform) is(word string) {
	p.mu.Lock()
	p.known = word
	p.mu.Unlock()
}

func newSeedPlatform(address string, key auth.Signer) (*seedPlatform, error) {
	u, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Path != "" {
		return nil, errors.New("want the platform's address: https://host")
	}
	return &seedPlatform{base: u, key: key, known: wire.WaitingForRegistration, client: &http.Client{
		Timeout: time.Minute, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a signature is for one address
	}}, nil
}

// send signs and sends one request; it returns at most limit bytes of a 200.
func (p *seedPlatform) send(ctx context.Context, method, path string, body []byte, limit int64) ([]byte, error) {
	sig, err := p.key.Sign(signin.Message(method, path, body))
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", fmt.Sprintf(`Bittensor ss58="%s",sig="%s"`, p.key.SS58(), hex.EncodeToString(sig)))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask platform: status %d", resp.StatusCode)
	}
	// One byte more than allowed tells the reader that it is too large.
	return io.ReadAll(io.LimitReader(resp.Body, limit+1))
}

func (p *seedPlatform) fetch(ctx context.Context, batch, artifact string) ([]byte, error) {
	return p.send(ctx, http.MethodGet, "/v1/miner-task-batches/"+url.PathEscape(batch)+"/artifacts/"+url.PathEscape(artifact), nil, wire.MaxScript)
}

// registerEvery is how often a validator tells where it is.
const registerEvery = time.Minute

func (p *seedPlatform) register(ctx context.Context, base string, failed func(error)) {
	body, err := json.Marshal(map[string]string{"base_url": base})
	if err != nil {
		failed(err)
		return
	}
	t := time.NewTicker(registerEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		if _, err := p.send(ctx, http.MethodPost, "/v1/validators/register", body, 4096); err == nil {
			p.is("")
		} else if ctx.Err() == nil {
			p.is(wire.RegistrationFailed)
			failed(err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// validatorOptions is `agon claim validator`.
type validatorOptions struct {
	client   *client.Client // of the agon server whose ledger tells who is who
	key      auth.Signer
	platform string // address of the platform that pushes batches
	baseURL  string // where the platform reaches this validator; "" = what it listens on
	owner    string // coldkey of the subnet's owner
	netuid   uint16
	weights  bool // give those of the platform on the ledger
	// libraries is a list of packages that scripts are shown; "" = none.
	libraries string
}

// seedValidator takes batches of a platform of the seed era and plays them
// until ctx ends.
func seedValidator(ctx context.Context, o kit.Options, v validatorOptions) error {
	up, err := newSeedPlatform(v.platform, v.key)
	if err != nil {
		return &agon.Error{Code: "bad_platform", Status: 422, Field: "platform", Message: err.Error()}
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return err
	}
	dir := filepath.Join(o.Data, "seed-validator")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	s := &seedPlayer{epoch: time.Now().Unix()} //nolint:forbidigo // a rehearsal from the command line
	if s.blobs, err = blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{}); err != nil {
		return err
	}
	if v.libraries != "" {
		list, err := libraryList(o, v.libraries)
		if err != nil {
			return err
		}
		packages, err := libraries.Parse(list)
		if err != nil {
			return err
		}
		digest, err := blob.PutFiles(ctx, s.blobs, []blob.File{{Path: libraries.File, Content: list}}, blob.TreeLimits{})
		if err != nil {
			return err
		}
		s.libs = &agon.Libraries{List: digest, Packages: packages}
	}
	k := o.Kinds(root)[play.Name]
	if s.player, err = kit.NewPlayer(ctx, o, d, root, map[string]kind.Kind{k.Name(): k}, s.blobs, filepath.Join(dir, "trees")); err != nil {
		return err
	}
	defer s.player.Close()
	return s.serve(ctx, o, v, up, dir, s.player.Tools)
}

func (s *seedPlayer) serve(ctx context.Context, o kit.Options, v validatorOptions, up *seedPlatform, dir string, th *validator.ToolHost) error {
	graph := dialect.NewMetagraph(time.Now, func(ctx context.Context) ([]dialect.Member, error) {
		g, err := v.client.Ledger(ctx, v.netuid)
		if err != nil {
			return nil, err
		}
		return membersOf(g), nil
	})
	if err := graph.Refresh(ctx); err != nil {
		return err
	}
	me, _, err := graph.Member(ctx, v.key.SS58())
	if err != nil {
		return err
	}
	weights, err := newSetWeights(o, v, up, dir)
	if err != nil {
		return err
	}
	if why, err := unmeasured(o); err != nil {
		return err
	} else if why != "" && kit.NoModel(o, "comparing scripts") == nil {
		o.Sayf("it does not vote on how much of a script is new: %s", why)
	}
	val, err := wire.NewValidator(wire.ValidatorConfig{
		Weights: weights.state, Ready: up.ready, Key: v.key,
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{Detail: true}}, Now: time.Now, Replay: auth.NewMemoryReplay(time.Now), Members: graph, Strict: o.Getenv("AGON_STRICT_SIGNATURES") != "0"},
		Owner:    v.owner, UID: int(me.UID), Fetch: up.fetch, Play: s.play, Compare: s.comparer(o), Dir: filepath.Join(dir, "batches"), Log: o.Log,
	})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return &agon.Error{Code: "listen", Status: 409, Field: "listen", Message: err.Error(), Mend: "choose another address with --listen"}
	}
	srv := &http.Server{Handler: val.Handler(th.Host), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	var wg sync.WaitGroup
	work, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { val.Run(work) })
	wg.Go(func() { graph.Run(work, func(err error) { o.Log.Warn("refreshing the metagraph", "err", err) }) })
	base := v.baseURL
	if base == "" {
		base = "http://" + ln.Addr().String()
	}
	wg.Go(func() {
		up.register(work, base, func(err error) { o.Log.Warn("registering with the platform", "err", err) })
	})
	if v.weights {
		wg.Go(func() {
			weights.run(work, weightsEvery, func(err error) { o.Log.Warn("giving weights", "err", err) })
		})
	}
	wg.Go(func() { <-work.Done(); _ = srv.Close() })
	o.Sayf("taking batches of %s at %s", up.base, base)
	err = srv.Serve(ln)
	stop()
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func membersOf(g *client.Metagraph) []dialect.Member {
	out := make([]dialect.Member, 0, len(g.Neurons))
	for _, n := range g.Neurons {
		out = append(out, dialect.Member{Hotkey: n.Hotkey, Coldkey: n.Coldkey, UID: n.UID, Validator: n.Validator, Stake: n.Stake})
	}
	return out
}
