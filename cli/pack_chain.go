package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/cli/output"
	"github.com/agon-arena/agon/consensus"
	"github.com/agon-arena/agon/fetch"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/pack"
)

func (a *App) packUploadCmd() *cobra.Command {
	var bucket string
	cmd := &cobra.Command{
		Use:   "upload PACK --bucket NAME",
		Short: "Put a pack into an S3-compatible store, at an address that a commitment can hold",
		Long: `Put a pack into a bucket, under the first 8 digits of its hash. The address must fit a
commitment: at most 63 bytes. Reads S3_BUCKET, S3_ENDPOINT_URL, S3_REGION, AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY. JSON: {url, hash, size}.`,
		Example: "  agon pack upload pack.json --bucket packs\n  agon pack submit $(agon pack upload pack.json --bucket packs -o id) --netuid 11",
		Args:    args(1, 1, "one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if bucket == "" {
				bucket = a.Env.Getenv("S3_BUCKET")
			}
			if bucket == "" {
				return output.Usage("bucket", "name it: --bucket NAME", "no bucket is named")
			}
			p, err := readPackFile(args[0])
			if err != nil {
				return err
			}
			if issues := p.Issues(pack.SchemaAny); len(issues) > 0 {
				return &agon.Error{Code: "schema", Status: 422, Field: args[0], Message: issues[0], Mend: "agon pack check " + args[0]}
			}
			s, err := consensus.NewS3("s3://"+bucket, a.Env.Getenv)
			if err != nil {
				return err
			}
			key := p.Hash[:8] + ".json"
			at := "https://" + bucket + ".s3.amazonaws.com/" + key
			if e := a.Env.Getenv("S3_ENDPOINT_URL"); e != "" {
				at = strings.TrimRight(e, "/") + "/" + bucket + "/" + key
			}
			if _, err := (pack.Commitment{Hash: p.Hash, URL: at}).Write(); err != nil {
				return &agon.Error{Code: "too_long", Status: 422, Field: "bucket", Limit: "63 bytes", Message: err.Error(), Mend: "choose a shorter bucket or endpoint"}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			if _, err := s.Client.PutObject(ctx, bucket, key, bytes.NewReader(p.Canonical), int64(len(p.Canonical)), minio.PutObjectOptions{ContentType: "application/json"}); err != nil {
				return &agon.Error{Code: "upload", Status: 503, Fault: agon.FaultProvider, Message: "the store takes no upload: " + err.Error()}
			}
			return a.printer.Print(cmd.Context(), output.Result{Value: map[string]any{"url": at, "hash": p.Hash, "size": len(p.Canonical)}, IDs: []string{at}, Human: func(h *output.Human) { h.Line("%s", at) }})
		},
	}
	cmd.Flags().StringVar(&bucket, "bucket", "", "the `bucket` (S3_BUCKET)")
	return cmd
}

func (a *App) packSubmitCmd() *cobra.Command {
	var netuid int
	var private bool
	var schema string
	cmd := &cobra.Command{
		Use:   "submit URL",
		Short: "Commit a published pack on the ledger: fetch, check, hash, commit, read back",
		Long: `Fetch the pack as validators will, check it, commit its hash and address with the hotkey in
force, and read the commitment back. JSON: {hash, url, block}.`,
		Example: "  agon pack submit https://example.org/pack.json --netuid 11",
		Args:    args(1, 1, "an address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSchema(schema); err != nil {
				return err
			}
			ctx := cmd.Context()
			b, err := fetch.New(fetch.Config{AllowPrivate: private}).Get(ctx, args[0])
			if err != nil {
				return err
			}
			p, err := pack.Read(b)
			if err != nil {
				return err
			}
			if issues := p.Issues(schema); len(issues) > 0 {
				return &agon.Error{Code: "schema", Status: 422, Field: "pack", Message: "the pack at that address would be refused: " + issues[0]}
			}
			text, err := pack.Commitment{Hash: p.Hash, URL: args[0]}.Write()
			if err != nil {
				return &agon.Error{Code: "bad_commitment", Status: 422, Field: "url", Limit: fmt.Sprintf("%d bytes", pack.MaxCommitment), Message: err.Error()}
			}
			key, err := a.key()
			if err != nil {
				return err
			}
			return a.withLedger(ctx, func(l ledger.Full) error {
				n, err := subnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				block, err := l.Commit(ctx, n, key.SS58(), ledger.Raw([]byte(text)))
				if err != nil {
					return err
				}
				got, _, err := ownCommitment(ctx, l, n, key.SS58())
				if err != nil {
					return err
				}
				if got.Hash != p.Hash {
					return &agon.Error{Code: "not_read_back", Status: 409, Message: "the ledger does not show the commitment that was made", Mend: "agon pack status says what it shows"}
				}
				return a.printer.Print(ctx, output.Result{Value: map[string]any{"hash": p.Hash, "url": args[0], "block": block}, IDs: []string{p.Hash}, Human: func(h *output.Human) {
					h.Line("Submitted successfully!")
					h.Line("  Pack hash: %s", p.Hash)
					h.Line("  Pack URL:  %s", args[0])
				}})
			})
		},
	}
	netuidFlag(cmd, &netuid)
	schemaFlag(cmd, &schema, pack.SchemaOPP)
	cmd.Flags().BoolVar(&private, "allow-private", false, "fetch from a private address too")
	return cmd
}

// ownCommitment reads what a hotkey has committed; raw is empty where that is nothing.
func ownCommitment(ctx context.Context, l ledger.Full, netuid uint16, hotkey string) (c pack.Commitment, raw string, err error) {
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
		c, _ = pack.ParseCommitment(raw)
	}
	return c, raw, nil
}

func (a *App) packStatusCmd() *cobra.Command {
	var netuid int
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the hotkey's own commitment",
		Long:    "Show the hotkey's own commitment. JSON: {hotkey, hash, url, raw, valid}. Exit code 1 if there is none that validators can read.",
		Example: "  agon pack status --netuid 11",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			key, err := a.key()
			if err != nil {
				return err
			}
			return a.withLedger(ctx, func(l ledger.Full) error {
				n, err := subnetOf(ctx, l, netuid)
				if err != nil {
					return err
				}
				c, raw, err := ownCommitment(ctx, l, n, key.SS58())
				if err != nil {
					return err
				}
				valid := c.Hash != ""
				err = a.printer.Print(ctx, output.Result{Value: map[string]any{"hotkey": key.SS58(), "hash": c.Hash, "url": c.URL, "raw": plainText(raw), "valid": valid}, IDs: []string{c.Hash}, Human: func(h *output.Human) {
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
					return &Exit{Code: CodeFailed}
				}
				return err
			})
		},
	}
	netuidFlag(cmd, &netuid)
	return cmd
}
