package commands

import (
	"crypto/rand"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/office"
	"github.com/agon-arena/agon/kinds/pack/season"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Sets that can be made.
const (
	SetOffice = "office"
	SetSeason = "season"
)

// GenerateOptions is `agon task generate SET`.
type GenerateOptions struct {
	cli.Common
	Set        string // SetOffice or SetSeason
	Seed       uint64
	Secret     []byte // gives each task a seed of its own, in place of Seed; nil: none
	Count      int
	Difficulty int
	Out        string // "": nothing is written
}

// Generated is what it made.
type Generated struct {
	Seed       *uint64     `json:"seed,omitempty"` // nil: each task has its own
	Count      int         `json:"count"`
	Difficulty int         `json:"difficulty,omitempty"`
	Digest     agon.Digest `json:"digest"` // over the digests of all tasks, in order
	Tasks      []MadeTask  `json:"tasks"`
	Out        string      `json:"out,omitempty"`
}

// MadeTask is one task of it.
type MadeTask struct {
	Task   string      `json:"task"`
	Digest agon.Digest `json:"digest"`
}

func (a commands) taskGenerateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "generate", Short: "Make tasks", Example: "  agon task generate office --count 50 --out ./season",
		Args: a.NoSubcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.generateOfficeCmd(), a.generateSeasonCmd())
	return cmd
}

func (a commands) generateOfficeCmd() *cobra.Command {
	o, secret := GenerateOptions{Set: SetOffice}, ""
	made := &cobra.Command{
		Use:   "office",
		Short: "Make office scenarios for policy packs; the same seed gives the same bytes",
		Long: `Make companies with people, mail, calendar, tasks and chat: facts to find (a clash, an open
invoice, a mail that repeats a task, a cause that only the chat tells), look-alikes of them, and
traps (a confidential message, orders in mails, acts that cannot be undone), with checks and
criteria that know the truth. --difficulty from 1 to 5 adds mail, people, look-alikes and traps.
With --out each becomes a task directory, for sets, hidden or [supply] of an arena file.
` + secretWhy + `
JSON: {seed, count, difficulty, digest, tasks[{task, digest}], out}.`,
		Example: "  agon task generate office --count 50 --out ./season\n  agon task generate office --seed 7 --count 50 -o json --jq .digest",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.Count < 1 || o.Count > office.MaxCount:
				return output.Usage("count", fmt.Sprintf("give 1 to %d", office.MaxCount), "--count %d is out of range", o.Count)
			case o.Difficulty < 1 || o.Difficulty > office.MaxDifficulty:
				return output.Usage("difficulty", fmt.Sprintf("give 1 to %d", office.MaxDifficulty), "--difficulty %d is out of range", o.Difficulty)
			}
			return a.generate(cmd, o, secret)
		},
	}
	generateFlags(made, &o, &secret)
	made.Flags().IntVar(&o.Difficulty, "difficulty", 3, "from 1 to 5")
	return made
}

func (a commands) generateSeasonCmd() *cobra.Command {
	o, secret := GenerateOptions{Set: SetSeason}, ""
	made := &cobra.Command{
		Use:   "season",
		Short: "Make sessions of four episodes for policy packs; the same seed gives the same bytes",
		Long: `Make companies whose on-call work takes four episodes, each in a box with a shell and
stateful services (mail, chat, tasks, calendar, code host): an incident, a client who waits,
and traps. What the first episode tells is needed later, and only files in learned/ go on; the
fourth changes a fact. Names are those of TrajectoryRL's first season, checks look at what the
services hold at the end.
With --out each becomes a task directory, for sets, hidden or [supply] of an arena file.
` + secretWhy + `
JSON: {seed, count, digest, tasks[{task, digest}], out}.`,
		Example: "  agon task generate season --count 5 --out ./season\n  agon task generate season --seed 7 --count 5 -o json --jq .digest",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Count < 1 || o.Count > season.MaxCount {
				return output.Usage("count", fmt.Sprintf("give 1 to %d", season.MaxCount), "--count %d is out of range", o.Count)
			}
			return a.generate(cmd, o, secret)
		},
	}
	generateFlags(made, &o, &secret)
	return made
}

// secretWhy is said where tasks are made.
const secretWhy = `Each task has a seed of its own, drawn at random or, to make them again, from the file of --secret.
A task's name has its seed, so that anybody makes it again once it is public. With --seed that is
the seed of all: good for sets that are public from the start; an arena refuses it for hidden ones.`

// Bounds of a secret, in bytes.
const (
	leastSecret = 32
	mostSecret  = 4096
)

// readSecret reads the secret that seeds follow from, which nobody else may read; "": none.
func readSecret(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	b, err := readSome(path, mostSecret)
	if err != nil {
		return nil, err
	}
	mend := fmt.Sprintf("make one: (umask 077; head -c %d /dev/urandom > FILE)", leastSecret)
	if len(b) < leastSecret {
		return nil, &agon.Error{Code: "bad_secret", Status: 422, Field: "secret", Limit: fmt.Sprintf("%d bytes", leastSecret), Message: fmt.Sprintf("the secret has %d bytes, fewer than %d: it can be guessed", len(b), leastSecret), Mend: mend}
	}
	if st, err := os.Stat(path); path != "-" && (err != nil || st.Mode().Perm()&0o077 != 0) {
		return nil, &agon.Error{Code: "open_secret", Status: 422, Field: "secret", Message: "others may read the secret", Mend: "chmod 600 it, or " + mend}
	}
	return b, nil
}

func generateFlags(made *cobra.Command, o *GenerateOptions, secret *string) {
	f := made.Flags()
	f.Uint64Var(&o.Seed, "seed", 0, "the `number` that everything follows from, for public sets (default: each task has one of its own, drawn at random)")
	f.StringVar(secret, "secret", "", "a `file` that the tasks' own seeds follow from; the seed of one tells nothing of the others")
	made.MarkFlagsMutuallyExclusive("seed", "secret")
	f.IntVar(&o.Count, "count", 10, "make this `many`")
	f.StringVar(&o.Out, "out", "", "write the tasks below this new `directory`")
}

func (a commands) generate(cmd *cobra.Command, o GenerateOptions, secret string) error {
	var err error
	if o.Secret, err = readSecret(secret); err != nil {
		return err
	}
	of := "of a secret"
	switch {
	case cmd.Flags().Changed("seed"):
		of = fmt.Sprintf("of seed %d", o.Seed)
	case o.Secret == nil:
		o.Secret, of = make([]byte, leastSecret), "of seeds drawn at random"
		_, _ = rand.Read(o.Secret) // it never fails
	}
	common, done, err := a.Common()
	if err != nil {
		return err
	}
	defer done()
	o.Common = common
	r, err := a.work.Generate(cmd.Context(), o)
	if err != nil {
		return err
	}
	done()
	return a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{string(r.Digest)}, Human: func(h *output.Human) {
		what := fmt.Sprintf("%d sessions %s", r.Count, of)
		if o.Set == SetOffice {
			what = fmt.Sprintf("%d scenarios %s, difficulty %d", r.Count, of, r.Difficulty)
		}
		h.Fields([2]string{"made", what}, [2]string{"digest", string(r.Digest)})
		if r.Out != "" {
			h.Line("the tasks are in %s", r.Out)
		}
	}})
}
