package cli

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/ui/cli/output"
)

// checkpointView is a signed head, for JSON.
type checkpointView struct {
	Key        string               `json:"key"`
	Origin     string               `json:"origin"`
	Size       int64                `json:"size"`
	Root       string               `json:"root"` // base64
	Commits    int64                `json:"commits,omitempty"`
	Checkpoint string               `json:"checkpoint"`
	Witnesses  map[string]time.Time `json:"witnesses,omitempty"`
}

func viewOfHead(key string, c translog.Checkpoint) checkpointView {
	return checkpointView{key, c.Origin, c.N, c.Hash.String(), c.Commits, c.Text, c.Witnesses}
}

func (a *App) logCmd(host Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "The transparency log: heads, proofs, witnesses, and what you entered",
		Long: `What a server has taken in, scored and decided stands in a transparency log: a Merkle
tree whose signed head (checkpoint) everybody may keep. A server that rewrites what it has
said contradicts a head that somebody has. Heads, tiles and proofs have C2SP's forms:
any tool for signed notes and tlog-tiles reads them (below /log/ of the server).`,
		Example: "  agon log checkpoint\n  agon log inclusion …4a40aa86b",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.logCheckpointCmd(), a.logInclusionCmd(), a.logConsistencyCmd(), a.logWitnessCmd(), a.logCheckCmd(), a.logRotateCmd(host))
	return cmd
}

// logKeyOf is the key to check a log with: the one given, the one remembered,
// else the server's own word, which is noted.
func (a *App) logKeyOf(ctx context.Context, c *client.Client, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	s, err := c.Server(ctx)
	if err != nil {
		return "", err
	}
	_, known, err := a.knownLog(c, "")
	if err != nil {
		return "", err
	}
	if known.Key != "" {
		return successor(ctx, c, known.Key, s.Log)
	}
	if s.Log == "" {
		return "", output.Usage("url", "it may be of an older version", "%s has no transparency log", c.URL())
	}
	a.IO.Notef("the key of the log is the server's own word: %s", s.Log)
	return s.Log, nil
}

// successor is the key of today of a log whose key was known: the server's word
// counts only as far as earlier keys have signed it.
func successor(ctx context.Context, c *client.Client, known, said string) (string, error) {
	if said == "" || said == known {
		return known, nil
	}
	b, err := c.LogKeys(ctx)
	if err != nil || b == nil {
		return known, err
	}
	list, err := translog.ParseKeys(b)
	if err != nil {
		return known, err
	}
	return translog.Current(known, list), nil
}

func (a *App) logRotateCmd(host Host) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Give the log of the data directory a new key, signed by the old one",
		Long: `Make a new key for the transparency log in --data. The old key signs that the new one
follows; the log itself says so, and readers who knew the old key follow. Heads and proofs
that the old key signed stay good. The server must be stopped.`,
		Example: "  agon log rotate --data ./arena",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if host.RotateLog == nil {
				return output.Usage("", "", "this binary has no server")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			s, err := host.RotateLog(common)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: s, IDs: []string{s.New}, Human: func(h *output.Human) {
				h.Line("the key of the log is now %s", s.New)
				h.Line("before it was             %s", s.Old)
			}})
		},
	}
}

func (a *App) logCheckpointCmd() *cobra.Command {
	var key string
	var witnesses []string
	cmd := &cobra.Command{
		Use:     "checkpoint",
		Short:   "Print the newest signed head of the log",
		Long:    "Print the newest signed head of the log, a C2SP checkpoint, after its signature was checked.",
		Example: "  agon log checkpoint\n  agon log checkpoint --log KEY -o json --jq .size",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Reader()
			if err != nil {
				return err
			}
			k, err := a.logKeyOf(cmd.Context(), c, key)
			if err != nil {
				return err
			}
			text, err := c.LogCheckpoint(cmd.Context())
			if err != nil {
				return err
			}
			head, err := translog.OpenCheckpoint(text, k, witnesses...)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: viewOfHead(k, head), IDs: []string{head.Hash.String()}, Human: func(h *output.Human) {
				h.Text(text)
			}})
		},
	}
	cmd.Flags().StringVar(&key, "log", "", "public `key` of the log")
	cmd.Flags().StringSliceVar(&witnesses, "witness", nil, "public `key` of a witness whose cosignature is looked for")
	return cmd
}

// kindsOfFact are what a proof can be of.
var kindsOfFact = []string{translog.TypeSubmission, translog.TypeResult, translog.TypeDecision, translog.TypeOperator, translog.TypeSeeds, translog.TypeReveal, translog.TypeJudging, translog.TypeTask, translog.TypeRetired}

// ofResult is RUN/ATTEMPT; ARENA/NAME is a submission.
var ofResult = lazyregexp.New(`/[0-9]+$`)

func (a *App) logInclusionCmd() *cobra.Command {
	var key, typ string
	cmd := &cobra.Command{
		Use:   "inclusion ID",
		Short: "Prove that a submission, result or decision stands in the log",
		Long: `Fetch and check the proof that a fact stands in the log. ID is of a submission or its
decision (or ARENA/NAME), RUN/ATTEMPT of a result, or the number of an operator's act (agon operator log).

JSON: {index, entry, salt, hashes, checkpoint, key}: hashes are an RFC 6962 inclusion
proof, entry the bytes of the leaf, salt what opens its commitment where you may read it.`,
		Example: "  agon log inclusion {arena}/mine\n  agon log inclusion {arena}/mine --type decision -o json",
		Args:    Args(1, 1, "what the fact is about"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			c, err := a.Reader()
			if err != nil {
				return err
			}
			id := args[0]
			switch {
			case typ == "" && ofResult().MatchString(id):
				typ = translog.TypeResult
			case typ == "":
				typ = translog.TypeSubmission
			}
			switch typ {
			case translog.TypeResult:
				run, attempt, _ := strings.Cut(id, "/")
				if run, err = a.runID(ctx, c, run); err != nil {
					return err
				}
				if attempt == "" {
					attempt = "1"
				}
				id = run + "/" + attempt
			case translog.TypeSubmission, translog.TypeDecision:
				if id, err = a.submissionID(ctx, c, id); err != nil {
					return err
				}
			}
			k, err := a.logKeyOf(ctx, c, key)
			if err != nil {
				return err
			}
			p, err := c.LogProof(ctx, typ, id)
			if err != nil {
				return err
			}
			e, head, err := translog.CheckProof(p, k)
			if err != nil {
				return err
			}
			return a.Printer.Print(ctx, output.Result{Value: p, IDs: []string{fmt.Sprint(p.Index)}, Human: func(h *output.Human) {
				h.Fields([2]string{"proved", fmt.Sprintf("%s %s is entry %d of a log of %d", e.Type, e.ID, p.Index, head.N)},
					[2]string{"log", head.Origin}, [2]string{"root", head.Hash.String()}, [2]string{"at", e.At.Format(time.RFC3339)},
					[2]string{"entry", string(p.Entry)})
			}})
		},
	}
	cmd.Flags().StringVar(&key, "log", "", "public `key` of the log")
	cmd.Flags().StringVar(&typ, "type", "", "submission, result, decision, operator, judging, seeds (ARENA/PERIOD) or reveal (ARENA/PERIOD/secret); default: result for RUN/ATTEMPT, else submission")
	Register(cmd, "type", kindsOfFact...)
	return cmd
}

func (a *App) logConsistencyCmd() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:     "consistency CHECKPOINT",
		Short:   "Check that the log of today continues a head that you kept",
		Long:    "Check that the newest log begins with the one of a head that you kept: the file of a checkpoint. Exit code 1: it does not, the log was rewritten.",
		Example: "  agon log checkpoint > head.txt   # today\n  agon log consistency head.txt    # next week",
		Args:    Args(1, 1, "the file of a checkpoint"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := os.ReadFile(args[0])
			if err != nil {
				return output.Usage("checkpoint", "agon log checkpoint prints one", "%v", err)
			}
			c, err := a.Reader()
			if err != nil {
				return err
			}
			k, err := a.logKeyOf(cmd.Context(), c, key)
			if err != nil {
				return err
			}
			var view checkpointView // as "agon log checkpoint -o json" prints it
			if json.Unmarshal(b, &view) != nil {
				view.Checkpoint = string(b)
			}
			old, err := translog.OpenCheckpoint(strings.TrimRight(view.Checkpoint, "\n")+"\n", k)
			if err != nil {
				return err
			}
			head, err := advance(cmd.Context(), c, old, k)
			if contradicts(err) {
				return a.showContradiction(err)
			}
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: viewOfHead(k, head), IDs: []string{head.Hash.String()}, Human: func(h *output.Human) {
				h.Line("the log of %d begins with the %d of %s", head.N, old.N, args[0])
			}})
		},
	}
	cmd.Flags().StringVar(&key, "log", "", "public `key` of the log")
	return cmd
}

// contradicts reports whether an error says that a log shows two histories.
func contradicts(err error) bool {
	var eq *translog.EquivocationError
	var stale *translog.StaleError
	return errors.As(err, &eq) || errors.As(err, &stale)
}

// showContradiction prints what proves it, and is the end with code 1.
func (a *App) showContradiction(err error) error {
	a.IO.Notef("%v", err)
	var eq *translog.EquivocationError
	if errors.As(err, &eq) {
		a.IO.Notef("both heads are signed by the log; keep them:\n%s\n%s", eq.Old, eq.New)
	}
	return &Exit{Code: CodeFailed}
}

func (a *App) logWitnessCmd() *cobra.Command {
	var key, dir, listen string
	var peers []string
	var once bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Follow a log, cosign its heads, and compare with other witnesses",
		Long: `Follow the log of a server: each head must follow the one before, and what other
witnesses were shown (--peer). Heads that do are cosigned (C2SP tlog-cosignature) and, with
--listen, served at /heads for others. A log that shows two histories ends the command with
code 1 and both signed heads, which prove it to anybody.

The witness's key and what it has seen are kept in --state.`,
		Example: "  agon log witness --url https://arena.example --once\n  agon log witness --url https://arena.example --listen 127.0.0.1:7799 --peer https://witness.example",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if every < time.Second {
				return output.Usage("every", "at least 1s", "--every %s is too often", every)
			}
			c, err := a.Client(nil)
			if err != nil {
				return err
			}
			if dir == "" {
				conf, err := a.Config()
				if err != nil {
					return err
				}
				dir = filepath.Join(conf.Get("data"), "witness")
			}
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return fmt.Errorf("make %s: %w", dir, err)
			}
			k, err := translog.LoadKey(filepath.Join(dir, "witness.key"), func(pub ed25519.PublicKey) string { return "agon/witness/" + hex.EncodeToString(pub[:8]) })
			if err != nil {
				return err
			}
			w := &translog.Witness{Key: k, Memory: translog.Memory{Path: filepath.Join(dir, "heads.json")}, Now: a.Now}
			var others []translog.Peer
			for _, p := range peers {
				others = append(others, translog.HTTPPeer{URL: p, Client: &http.Client{Timeout: 20 * time.Second}})
			}
			if listen != "" {
				ln, err := net.Listen("tcp", listen)
				if err != nil {
					return output.Usage("listen", "choose another address", "%v", err)
				}
				s := &http.Server{Handler: w, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
				go func() { _ = s.Serve(ln) }() // ends with Close
				defer s.Close()
				a.IO.Notef("cosigned heads at http://%s/heads, key %s", ln.Addr(), k.WitnessKey())
			}
			for {
				head, err := w.Look(ctx, c, key, others...)
				switch {
				case contradicts(err):
					return a.showContradiction(err)
				case err != nil && once:
					return err
				case err != nil:
					a.IO.Notef("%v", err)
				case once:
					return a.Printer.Print(ctx, output.Result{Value: viewOfHead(key, head), IDs: []string{head.Hash.String()}, Human: func(h *output.Human) { h.Text(head.Text) }})
				default:
					a.IO.Notef("cosigned %d leaves of %s", head.N, head.Origin)
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(every):
				}
			}
		},
	}
	f := cmd.Flags()
	f.StringVar(&key, "log", "", "public `key` of the log (default: the one that was seen first)")
	f.StringVar(&dir, "state", "", "`directory` of the witness's key and memory (default: witness in --data)")
	f.StringVar(&listen, "listen", "", "serve cosigned heads at this `address`")
	f.StringSliceVar(&peers, "peer", nil, "`URL` of another witness")
	f.BoolVar(&once, "once", false, "look once and end")
	f.DurationVar(&every, "every", time.Minute, "how often to look")
	return cmd
}

// receiptsDir is where proofs of what was entered are kept.
func (a *App) receiptsDir() string {
	if a.Env.UserConfigDir == "" {
		return ""
	}
	return filepath.Join(a.Env.UserConfigDir, "agon", "receipts")
}

// receipt is the server's signed word that it has taken a submission.
type receipt struct {
	URL   string           `json:"url"`
	ID    string           `json:"id"`
	Proof *client.LogProof `json:"proof"`
}

// keepReceipt asks for the proof that a submission stands in the log and keeps
// it, so that the server cannot deny it later. A server without a log gives none.
func (a *App) keepReceipt(ctx context.Context, c *client.Client, id string) {
	dir := a.receiptsDir()
	if dir == "" {
		return
	}
	p, err := c.LogProof(ctx, translog.TypeSubmission, id)
	if err != nil {
		if !notFound(err) {
			a.IO.Notef("no receipt: %v", err)
		}
		return
	}
	if _, _, err := translog.CheckProof(p, p.Key); err != nil {
		a.IO.Notef("the receipt of the server does not hold: %v", err)
		return
	}
	b, err := json.MarshalIndent(receipt{c.URL(), id, p}, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = WriteFile(filepath.Join(dir, id+".json"), b)
	}
	if err != nil {
		a.IO.Notef("the receipt is not kept: %v", err)
	}
}

// receiptChecked is one line of `agon log check`.
type receiptChecked struct {
	Submission string `json:"submission"`
	URL        string `json:"url"`
	OK         bool   `json:"ok"`
	Detail     string `json:"detail"`
}

func (a *App) logCheckCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that everything you entered still stands in the log",
		Long: `Each time "agon submission submit" enters something, the server's signed proof of it is
kept. This compares all of them with the log of today: an entry that was dropped or
changed since is named. Exit code 1: there is one.`,
		Example: "  agon log check",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			c, err := a.Reader()
			if err != nil {
				return err
			}
			names, err := filepath.Glob(filepath.Join(a.receiptsDir(), "*.json"))
			if err != nil {
				return err
			}
			list, bad := []receiptChecked{}, false
			for _, name := range names {
				b, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				var r receipt
				if err := json.Unmarshal(b, &r); err != nil || r.Proof == nil {
					return fmt.Errorf("read receipt %s: it is damaged", name)
				}
				if r.URL != c.URL() {
					continue
				}
				x := receiptChecked{Submission: r.ID, URL: r.URL, OK: true}
				if x.Detail, err = checkReceipt(ctx, c, r); err != nil {
					x.OK, x.Detail, bad = false, err.Error(), true
				}
				list = append(list, x)
			}
			if err := a.Printer.Print(ctx, output.Result{Value: list, Human: func(h *output.Human) {
				if len(list) == 0 {
					h.Line("no receipts of %s in %s", c.URL(), a.receiptsDir())
					return
				}
				rows := make([][]output.Cell, len(list))
				for i, x := range list {
					rows[i] = []output.Cell{output.Text(x.Submission), output.Text(map[bool]string{true: CheckOK, false: CheckFail}[x.OK]), output.Text(x.Detail)}
				}
				h.Table([]output.Column{{Title: "submission"}, {Title: "status"}, {Title: "detail", Min: 20}}, rows)
			}}); err != nil {
				return err
			}
			if bad {
				return &Exit{Code: CodeFailed}
			}
			return nil
		},
	}
	return cmd
}

// checkReceipt compares a receipt with the log of today.
func checkReceipt(ctx context.Context, c *client.Client, r receipt) (string, error) {
	_, old, err := translog.CheckProof(r.Proof, r.Proof.Key)
	if err != nil {
		return "", err
	}
	head, err := advance(ctx, c, old, r.Proof.Key)
	if err != nil {
		return "", err
	}
	p, err := c.LogProof(ctx, translog.TypeSubmission, r.ID)
	if err != nil {
		return "", fmt.Errorf("the server proves it no more: %w", err)
	}
	if _, _, err := translog.CheckProof(p, r.Proof.Key); err != nil {
		return "", err
	}
	if p.Index != r.Proof.Index || string(p.Entry) != string(r.Proof.Entry) {
		return "", fmt.Errorf("the log said %.200s, and says %.200s now", r.Proof.Entry, p.Entry)
	}
	return fmt.Sprintf("entry %d of a log of %d", p.Index, head.N), nil
}
