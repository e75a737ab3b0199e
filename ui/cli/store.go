package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/gc"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/ui/cli/output"
)

// Stores is what holds a server's data.
type Stores struct {
	// Copy copies rows or blobs from one place to another.
	Copy func(ctx context.Context, c Common, from, to string) (*StoreCopied, error)
	// Collect removes what nothing needs.
	Collect func(context.Context, CollectOptions) (*gc.Report, error)
	// Backup adds a snapshot of the data directory to a backup, Restore writes one
	// into a new data directory.
	Backup  func(ctx context.Context, c Common, to string) (*BackupMade, error)
	Restore func(ctx context.Context, c Common, from string) (*BackupRestored, error)
}

// CollectOptions is `agon gc`.
type CollectOptions struct {
	Common
	DryRun bool
	// KeepEvidence and DropArchive 0: for ever; KeepOutput 0: as KeepEvidence; Archive 0: never.
	Grace, KeepEvidence, KeepOutput, Archive, DropArchive time.Duration
}

// StoreCopied is what `agon store copy` did.
type StoreCopied struct {
	From     string              `json:"from"`
	To       string              `json:"to"`
	Rows     int64               `json:"rows,omitempty"`
	Tables   []store.CopiedTable `json:"tables,omitempty"`
	Blobs    *blob.Copied        `json:"blobs,omitempty"`
	Corpus   *CorpusCopied       `json:"corpus,omitempty"`
	Copied   int64               `json:"copied"` // rows, blobs or files of a corpus
	Verified bool                `json:"verified"`
}

// CorpusCopied is a corpus that was copied to a bucket or from one.
type CorpusCopied struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

// BackupMade is a snapshot.
type BackupMade struct {
	Snapshot string `json:"snapshot"`
	Files    int64  `json:"files"`
	Bytes    int64  `json:"bytes"` // of the files
	Blobs    int64  `json:"blobs"`
	NewBlobs int64  `json:"new_blobs"` // that the backup did not hold
}

// BackupRestored is a data directory made of a snapshot.
type BackupRestored struct {
	Snapshot string    `json:"snapshot"`
	At       time.Time `json:"at"`
	Data     string    `json:"data"`
	Files    int64     `json:"files"`
	Blobs    int64     `json:"blobs"`
}

// maxDays bounds the flags that give days.
const maxDays = 36500

// daysFlag adds a flag that gives days, 0 for none, and returns how to read it. Without the
// flag the variable env says it, "" for none. No file does: an agon.toml may come with a
// stranger's files, and what is removed does not come back.
func (a *App) daysFlag(cmd *cobra.Command, name, env, zero, usage string) func() (time.Duration, error) {
	days := cmd.Flags().Int(name, 0, usage)
	return func() (time.Duration, error) {
		n, of := *days, "--"+name
		if text := a.Env.Getenv(env); env != "" && text != "" && !cmd.Flags().Changed(name) {
			var err error
			if n, err = strconv.Atoi(text); err != nil {
				n = -1
			}
			of = env
		}
		if n < 0 || n > maxDays {
			return 0, output.Usage(name, fmt.Sprintf("give 1 to %d, or 0 for %s", maxDays, zero), "%s: not a number of days from 0 to %d", of, maxDays)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
}

func (a *App) gcCmd(s Stores) *cobra.Command {
	o := CollectOptions{}
	var keepEvidence, keepOutput, archive, drop func() (time.Duration, error)
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove bytes that nothing refers to, release evidence and archive rows of old runs",
		Long: `Remove blobs that nothing in the database refers to and that nobody has put for the
grace. With --keep-evidence-days the evidence of runs that ended earlier (trees and what boxes
printed) is released; its bytes go with the next gc. Scores, events, receipts and decisions
stay, and so does the evidence of who sits or sat, of undecided submissions, and of what is
appealed or judged again. A run whose evidence is gone cannot be judged again. With
--keep-output-days what boxes printed goes earlier: nothing is judged by it.

With --archive-days the events and receipts of runs that ended earlier move from the database
into Parquet files of the blob store. Pages, agon run trace and agon verify read them there as
before. Those of who sits, of undecided submissions, and of what is judged again stay.

With --drop-archive-days files of the archive go once all of their runs ended so long ago and
nothing waits for them: the steps of these runs are gone then, and their pages say so. agon
verify can no longer check these steps. Scores, costs, decisions and the log stay.

Servers may be at work; the grace is at least 2h then. --dry-run changes nothing.

JSON: {dry_run, blobs, bytes, referenced, young, removed, freed_bytes, evidence_runs, output_runs,
evidence_blobs, evidence_bytes, output_blobs, output_bytes (these four of a dry run), archived:
{runs, events, receipts, files, bytes, months, kept}, dropped: {files, runs, bytes}}.`,
		Example: "  agon gc --dry-run -o json\n  agon gc --keep-evidence-days 180 --archive-days 30",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Collect == nil {
				return Missing("gc")
			}
			if o.Grace < 0 {
				return output.Usage("grace", "give a time like 24h", "--grace %s: below 0", o.Grace)
			}
			var err error
			if o.KeepEvidence, err = keepEvidence(); err != nil {
				return err
			}
			if o.KeepOutput, err = keepOutput(); err != nil {
				return err
			}
			if o.KeepEvidence > 0 && o.KeepOutput > o.KeepEvidence {
				return output.Usage("keep-output-days", "give at most as many days as to --keep-evidence-days", "what boxes printed goes with the evidence")
			}
			if o.Archive, err = archive(); err != nil {
				return err
			}
			if o.DropArchive, err = drop(); err != nil {
				return err
			}
			if o.DropArchive > 0 && o.DropArchive < o.Archive {
				return output.Usage("drop-archive-days", "give at least as many days as to --archive-days", "steps would be dropped before they are archived")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			r, err := s.Collect(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				would := "removed"
				if r.DryRun {
					would = "would be removed"
				}
				h.Line("%d blobs (%d MB): %d referenced, %d young, %d %s (%d MB)", r.Blobs, r.Bytes>>20, r.Referenced, r.Young, r.Removed, would, r.Freed>>20)
				if o.KeepEvidence > 0 {
					h.Line("evidence of %d runs is past its time", r.EvidenceRuns)
				}
				if r.EvidenceBlobs > 0 {
					h.Line("%d blobs (%d MB) are of that evidence alone", r.EvidenceBlobs, r.EvidenceBytes>>20)
				}
				if o.KeepOutput > 0 {
					h.Line("what boxes of %d runs printed is past its time", r.OutputRuns)
				}
				if r.OutputBlobs > 0 {
					h.Line("%d blobs (%d MB) are of that alone", r.OutputBlobs, r.OutputBytes>>20)
				}
				if d := r.Dropped; d != nil {
					would := "forgotten"
					if r.DryRun {
						would = "would be forgotten"
					}
					h.Line("%d files of the archive (%d MB) %s, with the steps of %d runs", d.Files, d.Bytes>>20, would, d.Runs)
				}
				switch a := r.Archived; {
				case a != nil && r.DryRun:
					h.Line("%d runs would be archived: %d events and %d receipts", a.Runs, a.Events, a.Receipts)
				case a != nil:
					h.Line("%d runs archived: %d events and %d receipts in %d files (%d MB); %d runs kept in the database", a.Runs, a.Events, a.Receipts, a.Files, a.Bytes>>20, a.Kept)
				}
			}})
		},
	}
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would go, and change nothing")
	cmd.Flags().DurationVar(&o.Grace, "grace", gc.DefaultGrace, "how long bytes stay that nothing refers to, a `time` like 24h")
	keepEvidence = a.daysFlag(cmd, "keep-evidence-days", "AGON_KEEP_EVIDENCE_DAYS", "for ever", "`days` that evidence stays after its run has ended (AGON_KEEP_EVIDENCE_DAYS; default: for ever)")
	keepOutput = a.daysFlag(cmd, "keep-output-days", "AGON_KEEP_OUTPUT_DAYS", "as long as evidence", "`days` that what boxes printed stays after its run has ended (AGON_KEEP_OUTPUT_DAYS; default: as evidence)")
	archive = a.daysFlag(cmd, "archive-days", "AGON_ARCHIVE_DAYS", "never", "`days` after which events and receipts of an ended run are archived (AGON_ARCHIVE_DAYS; default: never)")
	drop = a.daysFlag(cmd, "drop-archive-days", "", "never", "`days` after which archived events and receipts go for good (default: never)")
	storeFlag(cmd)
	return cmd
}

func (a *App) storeCmd(s Stores) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "Copy a server's rows or blobs to another store",
		Example: "  agon store copy ./data/agon.db postgres://agon@db.example/agon",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "copy FROM TO",
		Short: "Copy rows between SQLite and PostgreSQL, or blobs between a folder and a bucket",
		Long: `Copy what FROM holds and TO does not, and compare both: rows by count and digest of each
table, blobs by their digests. FROM and TO are a file of SQLite (DATA/agon.db) or a
postgres:// URL, or a folder of blobs (DATA/blobs) or an s3:// URL; or one is the directory of
a corpus and the other an s3:// URL. A copy that was stopped goes on; a second one copies
nothing. No server may use either meanwhile: for rows the target is empty or an earlier copy.

JSON: {from, to, rows, tables: [{table, rows, copied, sum}], blobs: {blobs, bytes, copied},
corpus: {files, bytes}, copied, verified}.`,
		Example: `  agon store copy ./data/agon.db postgres://agon@db.example/agon
  agon store copy ./data/blobs 's3://agon/arena?endpoint=https://s3.example:9000'
  agon store copy ./corpus 's3://agon/corpora/may?endpoint=https://s3.example:9000'`,
		Args: Args(2, 2, "FROM and TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Copy == nil {
				return Missing("store copy")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			r, err := s.Copy(cmd.Context(), common, args[0], args[1])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				if r.Corpus != nil {
					h.Line("%d files (%d MB) of a corpus, %d copied; all have their digests", r.Corpus.Files, r.Corpus.Bytes>>20, r.Copied)
					return
				}
				if r.Blobs != nil {
					h.Line("%d blobs (%d MB), %d copied; the target holds them all", r.Blobs.Blobs, r.Blobs.Bytes>>20, r.Copied)
					return
				}
				h.Line("%d rows of %d tables, %d copied; both sides are the same", r.Rows, len(r.Tables), r.Copied)
			}})
		},
	})
	return cmd
}

func (a *App) backupCmd(s Stores) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Add a snapshot of the data directory to a backup",
		Long: `Add a snapshot of the data directory to the backup in DIR: databases, log, keys, settings,
and blobs, which all snapshots share. A server may be at work. Rows of PostgreSQL (--store)
become a file of SQLite in it, blobs of a bucket (--blobs) a folder. The backup holds private
keys: keep it as safe as the server.

JSON: {snapshot, files, bytes, blobs, new_blobs}.`,
		Example: "  agon backup /mnt/backup/agon\n  agon backup --data ./data /mnt/backup/agon",
		Args:    Args(1, 1, "the directory of the backup"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Backup == nil {
				return Missing("backup")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			r, err := s.Backup(cmd.Context(), common, args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				h.Line("%s: %d files (%d MB), %d blobs, %d of them new", r.Snapshot, r.Files, r.Bytes>>20, r.Blobs, r.NewBlobs)
			}})
		},
	}
	storeFlag(cmd)
	return cmd
}

func (a *App) restoreCmd(s Stores) *cobra.Command {
	return &cobra.Command{
		Use:   "restore FROM",
		Short: "Make a data directory of a backup",
		Long: `Write a snapshot into the data directory, which must be empty or not there. FROM is a
snapshot, or a backup, whose newest finished snapshot is taken. Every file and blob is compared
with its digest; nothing is written where one is damaged. agon doctor --data then compares the
log with the rows, agon store copy brings rows and blobs into PostgreSQL and a bucket.

JSON: {snapshot, at, data, files, blobs}.`,
		Example: "  agon restore /mnt/backup/agon --data ./data",
		Args:    Args(1, 1, "a backup, or one of its snapshots"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.Restore == nil {
				return Missing("restore")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			r, err := s.Restore(cmd.Context(), common, args[0])
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				h.Line("%s is as of %s: %d files, %d blobs", r.Data, r.At.Format(time.RFC3339), r.Files, r.Blobs)
			}})
		},
	}
}
