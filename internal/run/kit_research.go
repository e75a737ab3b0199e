package run

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/judge"
	"github.com/agon-arena/agon/kind"
	kr "github.com/agon-arena/agon/kind/research"
	"github.com/agon-arena/agon/research"
	"github.com/agon-arena/agon/research/miner"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/tasks"
	"github.com/agon-arena/agon/wire/bitsota"
)

// researchTokenEnv names the admin's token of the coordinator.
const researchTokenEnv = "AGON_RESEARCH_ADMIN_TOKEN"

func researchKit() kit {
	return kit{
		name: kr.Name,
		build: func(p parts) kind.Kind {
			return kr.New(researchConfig(p.o, p.rootfs))
		},
		demo: func() ArenaFile {
			f := ArenaFile{
				ID: demoResearch, Kind: kr.Name, Title: "Research: compress a text better", Netuid: 4, Licence: "MIT", Sets: []string{"compress"}, Samples: true, SubmissionsPerColdkey: 50,
			}
			f.defaults()
			return f
		},
		sets:       []string{"compress", "kernel", "charlm"},
		load:       loadResearch,
		enter:      enterResearch,
		incentives: map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()},
		routes:     []string{"/api/v1/", "/git/", "/healthz", "/readyz", "/disclaimer", "/disclaimer.md", "/claims/", "/coldkey_address/"},
		serve:      func(_ context.Context, s *server, _ agon.Arena) (http.Handler, error) { return s.researchRoutes() },
		prepare: func(ctx context.Context, s *server, a *agon.Arena) error {
			for i := range a.Tasks {
				a.Tasks[i].Hidden = true // hidden data and the private environment are in the tree; miners clone the repository
			}
			if err := s.research.Prepare(ctx, a); err != nil {
				return err
			}
			if a.ID == demoResearch {
				a.Contest.Agree = 1 // the demo has one validator
			}
			return nil
		},
		opened: func(ctx context.Context, s *server, a *agon.Arena) error {
			if err := s.research.OpenTask(ctx, *a); err != nil {
				return err
			}
			s.o.say("arena %s: research task %s is claimed with agon research", a.ID, a.Title)
			return nil
		},
	}
}

// researchConfig is what replays need to know of this host.
func researchConfig(o Options, rootfs string) kr.Config {
	c := kr.Config{Rootfs: rootfs, Cache: filepath.Join(cacheDir(o), "clones")}
	if o.Getenv != nil {
		c.PackageIndex = o.Getenv("AGON_PACKAGE_INDEX")
	}
	return c
}

const demoResearch = "demo-research"

// loadResearch makes a set of each shipped task: an arena has one.
func loadResearch(_ Options, set string) ([]*task.Task, bool, error) {
	if !slices.Contains([]string{"compress", "kernel", "charlm"}, set) {
		return nil, false, nil
	}
	sub, err := fs.Sub(tasks.FS, "research/cpu")
	if err != nil {
		return nil, false, err
	}
	list, err := task.LoadSet(sub, "cpu")
	for _, t := range list {
		if t.Key == "cpu/"+set {
			return []*task.Task{t}, true, err
		}
	}
	return nil, true, err
}

// demoEntries are the samples of the demo, in this order: an improvement, an
// honest patch with a claim that is too good, a cheat that replays uncover, and
// one that is refused when it is submitted.
var demoEntries = []string{"word-codes", "overclaim", "stash", "rename-benchmark"}

// enterResearch enters the samples as miners do: claim, then submit, signed over HTTP.
func enterResearch(ctx context.Context, s *server, f ArenaFile) error {
	list, err := samples.Research("compress")
	if err != nil {
		return err
	}
	for _, name := range demoEntries {
		i := slices.IndexFunc(list, func(x samples.ResearchSample) bool { return x.Name == name })
		if i < 0 {
			return fmt.Errorf("enter samples: there is no sample %s", name)
		}
		if err := s.enterPatch(ctx, f, list[i]); err != nil {
			return fmt.Errorf("enter sample %s: %w", name, err)
		}
	}
	return nil
}

// enterPatch enters one sample; one that is there already changes nothing.
func (s *server) enterPatch(ctx context.Context, f ArenaFile, x samples.ResearchSample) error {
	p, err := loadParty(s.data.Path("wallets"), "miner-"+x.Name)
	if err != nil {
		return err
	}
	if ok, err := s.ensureRegistered(ctx, f.Arena(), p); err != nil || !ok {
		return err
	}
	c := &miner.Client{URL: s.url(), Key: p.Hotkey}
	t, err := c.Task(ctx, "", x.Task, false)
	if err != nil {
		return err
	}
	old, err := s.research.Submissions(ctx, research.SubmissionFilter{Task: t.ID, Miner: p.Hotkey.SS58(), Limit: 1})
	if err != nil || len(old) > 0 || t.State != research.StateLive {
		return err
	}
	var side miner.Sidecar
	if err := json.Unmarshal(x.Claim, &side); err != nil {
		return fmt.Errorf("read claim: %w", err)
	}
	cl, _, err := c.Claim(ctx, t.ID, "", "sample "+x.Name)
	if err != nil {
		return err
	}
	b, err := c.Submit(ctx, &miner.Submission{ClaimID: cl.ID, BaseRef: t.BaseSHA, Patch: string(x.Patch), Sidecar: side})
	var no *miner.APIError
	if errors.As(err, &no) {
		// A refusal is what some samples show. Its claim is free again.
		s.o.say("%s was refused: %s", x.Name, no.Code())
		_, err = c.Cancel(ctx, cl.ID)
		return err
	}
	if err != nil {
		return err
	}
	var sub research.Submission
	if err := json.Unmarshal(b, &sub); err != nil {
		return fmt.Errorf("read submission: %w", err)
	}
	s.o.say("entered %s as %s", x.Name, sub.ID)
	return nil
}

// openResearch completes the coordinator once there is a platform.
func (s *server) openResearch(ctx context.Context) error {
	stake, err := rao(s.o.Getenv, "AGON_RESEARCH_MIN_STAKE")
	if err != nil {
		return err
	}
	err = s.research.Open(research.Config{
		Platform: s.platform, Store: s.store, Blobs: s.blobs, Signer: s.operator.Hotkey, URL: s.publicURL, Now: time.Now, Log: s.o.Log, MinMinerStake: stake,
		Member: func(ctx context.Context, arena string, netuid uint16, hotkey string) (research.Member, bool, error) {
			a, err := s.platform.Arena(ctx, arena)
			if err != nil {
				return research.Member{}, false, err
			}
			c := chain{s.graphsOf(a.Arena)}
			coldkey, ok, err := c.Registered(ctx, netuid, hotkey)
			m := research.Member{Coldkey: coldkey, Stake: stake}
			if err != nil || !ok || stake == 0 {
				return m, ok, err
			}
			g, err := c.Metagraph(ctx, netuid)
			if err != nil {
				return m, false, err
			}
			for _, n := range g.Neurons {
				if n.Hotkey == hotkey {
					m.Stake, m.Validator = n.Stake, n.Validator
				}
			}
			return m, true, nil
		},
		Template: researchTemplate(), Planner: s.researchPlanner(),
	})
	if err != nil {
		return err
	}
	return s.research.Resume(ctx)
}

// plannerBudget bounds what one pass of the planner by a model costs.
const plannerBudget = agon.Micros(500_000)

// researchPlanner lends the configured model to the planner; nil without one.
func (s *server) researchPlanner() func(context.Context, func(*judge.Judge) error) error {
	if s.o.Getenv == nil || s.o.Getenv("AGON_LLM_BASE_URL") == "" {
		return nil
	}
	return func(ctx context.Context, use func(*judge.Judge) error) error {
		work, err := tempdir.Make("plan")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		gw, err := newGateway(ctx, s.o, work)
		if err != nil {
			return err
		}
		defer gw.Stop()
		j, session, err := judgeSession(ctx, gw, "planner", "plan", "", plannerBudget)
		if err != nil {
			return err
		}
		defer session.Close()
		return use(j)
	}
}

// researchTemplate is what tasks that an admin creates get besides themselves.
func researchTemplate() agon.Arena {
	f := ArenaFile{ID: "template", Kind: kr.Name, Netuid: 1, SubmissionsPerColdkey: 200}
	f.defaults()
	return f.Arena()
}

// rao reads an amount of the environment; "" is 0.
func rao(getenv func(string) string, name string) (uint64, error) {
	text := ""
	if getenv != nil {
		text = getenv(name)
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, &agon.Error{Code: "bad_setting", Status: 422, Field: name, Message: name + ": want rao, a whole number"}
	}
	return n, nil
}

// publicURL is the address that task repositories are served at.
func (s *server) publicURL() string {
	if s.o.Getenv != nil {
		if u := s.o.Getenv("AGON_PUBLIC_URL"); u != "" {
			return strings.TrimRight(u, "/")
		}
	}
	return s.url()
}

// researchRoutes serves the coordinator's wire (docs/research.md).
func (s *server) researchRoutes() (http.Handler, error) {
	token, err := s.adminToken()
	if err != nil {
		return nil, err
	}
	getenv := s.o.Getenv
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	return bitsota.New(bitsota.Config{
		Coordinator: s.research, AdminToken: token, SignedReads: getenv("AGON_RESEARCH_SIGNED_READS") == "1", Verify: getenv("AGON_RESEARCH_VERIFY") != "0",
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{dialect.BitSota{}}, Now: time.Now, Replay: replay{s.platform}},
		Version:  agon.Version, Log: s.o.Log,
	})
}

// adminToken is that of the environment, or one that is made once and kept
// beside the database, for its owner only.
func (s *server) adminToken() (string, error) {
	if s.o.Getenv != nil {
		if t := s.o.Getenv(researchTokenEnv); t != "" {
			return t, nil
		}
	}
	path := s.data.Path("research.token")
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) >= 16 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read admin token: %w", err)
	}
	var raw [24]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	t := hex.EncodeToString(raw[:])
	if err := os.WriteFile(path, []byte(t+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write admin token: %w", err)
	}
	return t, nil
}
