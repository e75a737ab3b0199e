package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/pack/consensus"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/minio/minio-go/v7"
	"github.com/spf13/cobra"
)

// packPlace is where a miner's packs lie for everybody to read.
type packPlace struct{ bucket, dir, base string }

func (p *packPlace) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.bucket, "bucket", "", "the `bucket` of an S3-compatible store (S3_BUCKET)")
	f.StringVar(&p.dir, "dir", "", "a `directory` that a web server shows, instead of a bucket")
	f.StringVar(&p.base, "base", "", "with --dir: the `address` at which it does")
}

// check completes p from the environment.
func (p *packPlace) check(getenv func(string) string) error {
	if p.bucket == "" && p.dir == "" {
		p.bucket = getenv("S3_BUCKET")
	}
	switch {
	case (p.dir == "") != (p.base == ""):
		return output.Usage("dir", "give --dir DIR and --base URL", "--dir and --base go together")
	case p.dir == "" && p.bucket == "":
		return output.Usage("bucket", "name it: --bucket NAME, or --dir DIR --base URL", "no place is named")
	case p.dir != "" && p.bucket != "":
		return output.Usage("bucket", "give one of them", "--bucket and --dir are two places")
	}
	return nil
}

// put shows a pack under the first 8 digits of its hash, at an address that a
// commitment can hold.
func (p *packPlace) put(ctx context.Context, getenv func(string) string, x *packfile.Pack) (at string, err error) {
	key := x.Hash[:8] + ".json"
	switch e := getenv("S3_ENDPOINT_URL"); {
	case p.dir != "":
		at = strings.TrimRight(p.base, "/") + "/" + key
	case e != "":
		at = strings.TrimRight(e, "/") + "/" + p.bucket + "/" + key
	default:
		at = "https://" + p.bucket + ".s3.amazonaws.com/" + key
	}
	if _, err := (packfile.Commitment{Hash: x.Hash, URL: at}).Write(); err != nil {
		return "", &agon.Error{Code: "too_long", Status: 422, Field: "base", Limit: "63 bytes", Message: err.Error(), Mend: "choose a shorter bucket, endpoint or base"}
	}
	if p.dir != "" {
		return at, cli.WriteFile(filepath.Join(p.dir, key), x.Canonical)
	}
	s, err := consensus.NewS3("s3://"+p.bucket, getenv)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := s.Client.PutObject(ctx, p.bucket, key, bytes.NewReader(x.Canonical), int64(len(x.Canonical)), minio.PutObjectOptions{ContentType: "application/json"}); err != nil {
		return "", &agon.Error{Code: "upload", Status: 503, Fault: agon.FaultProvider, Message: "the store takes no upload: " + err.Error()}
	}
	return at, nil
}

func (a commands) packUploadCmd() *cobra.Command {
	var place packPlace
	cmd := &cobra.Command{
		Use:   "upload PACK (--bucket NAME | --dir DIR --base URL)",
		Short: "Put a pack where validators can read it, at an address that a commitment can hold",
		Long: `Put a pack into a bucket of an S3-compatible store, or into a directory that a web server
shows, under the first 8 digits of its hash. The address must fit a commitment: at most 63 bytes.
Reads S3_BUCKET, S3_ENDPOINT_URL, S3_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
JSON: {url, hash, size}.`,
		Example: "  agon pack upload pack.json --bucket packs\n  agon pack upload pack.json --dir /srv/www/p --base https://example.org/p\n  agon pack submit $(agon pack upload pack.json --bucket packs -o id) --netuid 11",
		Args:    cli.Args(1, 1, "one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := place.check(a.Env.Getenv); err != nil {
				return err
			}
			p, err := readPackFile(args[0])
			if err != nil {
				return err
			}
			if issues := p.Issues(packfile.SchemaAny); len(issues) > 0 {
				return &agon.Error{Code: "schema", Status: 422, Field: args[0], Message: issues[0], Mend: "agon pack check " + args[0]}
			}
			at, err := place.put(cmd.Context(), a.Env.Getenv, p)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: map[string]any{"url": at, "hash": p.Hash, "size": len(p.Canonical)}, IDs: []string{at}, Human: func(h *output.Human) { h.Line("%s", at) }})
		},
	}
	place.flags(cmd)
	return cmd
}

// enterable is a file's name where it can stand in a command line as it is, else FILE.
func enterable(name string) string {
	if name == "" || len(name) > 80 || strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '/' || r == '.' || r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}) {
		return "FILE"
	}
	return name
}

func (a commands) packSubmitCmd() *cobra.Command {
	var netuid int
	var private bool
	var schema string
	cmd := &cobra.Command{
		Use:   "submit URL",
		Short: "Commit a published pack on the ledger: fetch, check, hash, commit, read back",
		Long: `Fetch the pack as validators will, check it, commit its hash and address with the hotkey in
force, and read the commitment back. JSON: {hash, url, block}.`,
		Example: "  agon pack submit https://example.org/pack.json --netuid 11",
		Args:    cli.Args(1, 1, "an address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSchema(schema); err != nil {
				return err
			}
			if !strings.Contains(args[0], "://") {
				return &agon.Error{
					Code: "bad_url", Status: 422, Field: "url", Message: fmt.Sprintf("%.80q is not an address: this command commits the https address of a pack that is already published", args[0]),
					Mend: "to enter an arena: `agon submission submit " + enterable(args[0]) + " --arena ARENA`",
				}
			}
			ctx := cmd.Context()
			b, err := fetch.New(fetch.Config{AllowPrivate: private}).Get(ctx, args[0])
			if err != nil {
				return published(err)
			}
			p, err := packfile.Read(b)
			if err != nil {
				return err
			}
			if issues := p.Issues(schema); len(issues) > 0 {
				return &agon.Error{Code: "schema", Status: 422, Field: "pack", Message: "the pack at that address would be refused: " + issues[0]}
			}
			text, err := packfile.Commitment{Hash: p.Hash, URL: args[0]}.Write()
			if err != nil {
				return &agon.Error{Code: "bad_commitment", Status: 422, Field: "url", Limit: fmt.Sprintf("%d bytes", packfile.MaxCommitment), Message: err.Error()}
			}
			key, err := a.Key()
			if err != nil {
				return err
			}
			return a.WithLedger(ctx, func(l ledger.Full) error {
				n, err := cli.SubnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				block, err := commitPack(ctx, l, n, key.SS58(), p.Hash, text)
				if err != nil {
					return err
				}
				return a.Printer.Print(ctx, output.Result{Value: map[string]any{"hash": p.Hash, "url": args[0], "block": block}, IDs: []string{p.Hash}, Human: func(h *output.Human) {
					h.Line("Submitted successfully!")
					h.Line("  Pack hash: %s", p.Hash)
					h.Line("  Pack URL:  %s", args[0])
				}})
			})
		},
	}
	cli.NetuidFlag(cmd, &netuid)
	schemaFlag(cmd, &schema, packfile.SchemaAny)
	cmd.Flags().BoolVar(&private, "allow-private", false, "fetch from a private address too")
	return cmd
}

// commitPack commits and reads back.
func commitPack(ctx context.Context, l ledger.Full, netuid uint16, hotkey, hash, text string) (block uint64, err error) {
	if block, err = l.Commit(ctx, netuid, hotkey, ledger.Raw([]byte(text))); err != nil {
		return 0, err
	}
	got, _, err := ownCommitment(ctx, l, netuid, hotkey)
	if err != nil {
		return 0, err
	}
	if got.Hash != hash {
		return 0, &agon.Error{Code: "not_read_back", Status: 409, Message: "the ledger does not show the commitment that was made", Mend: "agon pack status says what it shows"}
	}
	return block, nil
}

// ownCommitment reads what a hotkey has committed; raw is empty where that is nothing.
func ownCommitment(ctx context.Context, l ledger.Full, netuid uint16, hotkey string) (c packfile.Commitment, raw string, err error) {
	list, err := l.Commitments(ctx, netuid)
	if err != nil {
		return c, "", err
	}
	for _, x := range list {
		if x.Hotkey != hotkey {
			continue
		}
		for _, f := range x.Fields {
			raw += string(f.Data)
		}
		c, _ = packfile.ParseCommitment(raw)
	}
	return c, raw, nil
}

func (a commands) packStatusCmd() *cobra.Command {
	var netuid int
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the hotkey's own commitment",
		Long:    "Show the hotkey's own commitment. JSON: {hotkey, hash, url, raw, valid}. Exit code 1 if there is none that validators can read.",
		Example: "  agon pack status --netuid 11",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			key, err := a.Key()
			if err != nil {
				return err
			}
			return a.WithLedger(ctx, func(l ledger.Full) error {
				n, err := cli.SubnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				c, raw, err := ownCommitment(ctx, l, n, key.SS58())
				if err != nil {
					return err
				}
				valid := c.Hash != ""
				err = a.Printer.Print(ctx, output.Result{Value: map[string]any{"hotkey": key.SS58(), "hash": c.Hash, "url": c.URL, "raw": plainText(raw), "valid": valid}, IDs: []string{c.Hash}, Human: func(h *output.Human) {
					switch {
					case raw == "":
						h.Line("No commitment found on-chain.")
					case !valid:
						h.Line("The commitment is none of a pack: %s", raw)
					default:
						h.Fields([2]string{"hash", c.Hash}, [2]string{"url", c.URL})
					}
				}})
				if err == nil && !valid {
					return &cli.Exit{Code: cli.CodeFailed}
				}
				return err
			})
		},
	}
	cli.NetuidFlag(cmd, &netuid)
	return cmd
}

// published says what to do about an address that could not be read.
func published(err error) error {
	out := agon.Error{Code: "failed", Message: err.Error(), Err: err} // no such host, no answer
	var e *agon.Error
	if errors.As(err, &e) {
		if e.Mend != "" {
			return err
		}
		out = *e
	}
	switch out.Code {
	case "private_address":
		out.Mend = "validators are elsewhere: publish the pack at an address of the internet, or say --allow-private on a network of your own"
	case "bad_url":
		out.Mend = "give the address as https://HOST/PATH"
	default:
		out.Mend = "validators fetch the pack from there: open the address from another machine, then commit it"
	}
	return &out
}
