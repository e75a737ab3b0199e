package pack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// openClawEpisode plays a scenario on another harness: agon serves the mock
// tools and fills the workspace, the harness runs its agent. Mechanical checks
// decide, and the cost is the harness's word.
func openClawEpisode(ctx context.Context, kits kit.List, c commands.EpisodeOptions) (*commands.Episode, error) {
	o := kits.Options(c.Common, "")
	if c.Workspace == "" {
		return nil, &agon.Error{Code: "usage", Status: 400, Field: "workspace", Message: "--openclaw wants the --workspace that the gateway's agent works in"}
	}
	set, err := scenarios(c.Scenarios)
	if err != nil {
		return nil, err
	}
	sc, err := ScenarioOf(set, c.Scenario)
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, set: set}
	var p *packfile.Pack
	if c.Pack != "" {
		p, err = readPack(c.Pack)
	} else {
		p, err = b.variant(sc, c.Variant)
	}
	if err != nil {
		return nil, err
	}
	user := clawbench.UserContext(sc.User, c.User)
	files := map[string]string{}
	for place, from := range sc.Workspace {
		raw, err := set.Fixture(sc, from)
		if err != nil {
			return nil, err
		}
		files[place] = clawbench.Fill(string(raw), user)
	}
	for _, name := range p.Files() {
		if text, ok := p.File(name); ok && fs.ValidPath(name) {
			files[name] = text
		}
	}
	root, err := os.OpenRoot(c.Workspace)
	if err != nil {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "workspace", Message: err.Error()}
	}
	defer func() { _ = root.Close() }()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := errors.Join(root.MkdirAll(filepath.Dir(filepath.FromSlash(name)), 0o755), root.WriteFile(filepath.FromSlash(name), []byte(files[name]), 0o644)); err != nil {
			return nil, fmt.Errorf("fill workspace: %w", err)
		}
	}
	fixtures, err := fs.Sub(set.FS, "fixtures")
	if err != nil {
		return nil, fmt.Errorf("open fixtures: %w", err)
	}
	tools, err := mock.New(mock.Config{Fixtures: fixtures, Workspace: root.FS(), Scenario: sc.Name, User: user, Slog: o.Log})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", c.MockListen)
	if err != nil {
		return nil, &agon.Error{Code: "listen", Status: 422, Field: "mock-listen", Message: err.Error()}
	}
	srv := &http.Server{Handler: tools.Tools(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends below
	}()
	defer func() { _ = srv.Close(); <-done }()
	prompt := clawbench.Fill(strings.TrimSpace(sc.Prompt), user)
	if c.Message != "" {
		prompt = c.Message
	}
	start := time.Now() //nolint:forbidigo // measures a real process
	session := fmt.Sprintf("clawbench-%s-%d", sc.Name, start.UnixMilli())
	reply, err := kindpack.OpenClaw{URL: c.OpenClaw, Token: o.Getenv("OPENCLAW_GATEWAY_TOKEN"), Wait: c.Timeout}.Ask(ctx, session, prompt)
	if err != nil {
		return nil, &agon.Error{Code: "harness", Status: 503, Fault: agon.FaultProvider, Message: err.Error(), Mend: "is the gateway up at " + c.OpenClaw + "?"}
	}
	raw, err := json.Marshal(kindpack.Episode{
		Scenario: sc.Name, Pack: p.Hash, Prompt: prompt, User: user, Response: reply.Response, Calls: tools.Calls(), Requests: tools.Requests(), Cost: reply.Cost,
	})
	if err != nil {
		return nil, fmt.Errorf("encode episode: %w", err)
	}
	e, err := b.report(sc, p, &validator.Attempt{Outcome: agon.OutcomeOK, Files: map[string][]byte{kindpack.FileEpisode: raw}})
	if err != nil {
		return nil, err
	}
	e.SessionKey, e.Raw, e.MS, e.Scripted, e.Variant = session, reply.Raw, time.Since(start).Milliseconds(), false, c.Variant
	e.Qualified, e.Cost = e.Success, nil
	if reply.Known {
		e.Cost = &commands.EpisodeCost{Input: reply.Cost.Input, Output: reply.Cost.Output, USD: reply.Cost.USD, Models: reply.Cost.Models}
		if len(reply.Cost.Models) > 0 {
			e.Cost.Model = reply.Cost.Models[0].Model
		}
	}
	return e, nil
}
