// Package commands is the command line of the shopping kind: agon shop.
package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// commands makes the kind's commands of one invocation.
type commands struct{ *cli.App }

// Of returns what the kind adds to the command line a.
func Of(a *cli.App) []cli.Extra {
	return []cli.Extra{{Group: "run", Command: commands{a}.shop()}}
}

func (a commands) shop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shop",
		Short: "Catalogues, search and problems of shopping arenas",
		Long: `Make a catalogue of products from a seed, index one, search it, and make problems from
it. Every command also takes ShoppingBench's files. kinds/shopping/README.md tells the forms.`,
		Example: "  agon shop generate --products 5000 --seed 2026 --out catalogue.jsonl\n  agon shop index catalogue.jsonl\n  agon shop search catalogue.jsonl.index 'electric kettle' --price 200-900",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.generate(), a.index(), a.search(), a.serve(), a.proxy(), a.vectors(), a.problems(), a.score(), a.bank(), a.report())
	return cmd
}

// replaceFile writes path as a whole, with mode: a temporary file beside it, synced, then
// renamed. Where write fails nothing is left and the old file stands.
func replaceFile(path string, mode os.FileMode, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}

// shopGenerated is what `agon shop generate --out` prints.
type shopGenerated struct {
	File     string `json:"file"`
	Products int    `json:"products"`
	Seed     uint64 `json:"seed"`
	Version  string `json:"generator"`
}

func (a commands) generate() *cobra.Command {
	var o catalogue.Options
	var out string
	cmd := &cobra.Command{
		Use:   "generate --products N --seed S",
		Short: "Make a catalogue of invented products, one JSON object a line",
		Long: `Make a catalogue of invented products in ShoppingBench's schema: titles in six languages,
brands, attributes, options, shops, prices and services. The same seed gives the same
bytes everywhere. Without --out it goes to stdout. JSON of --out: {file, products, seed,
generator}.`,
		Example: "  agon shop generate --products 5000 --seed 2026 --out catalogue.jsonl\n  agon shop generate --products 100 --seed 1 | head -1",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			make := func(w io.Writer) error {
				return catalogue.Generate(untilDone{cmd.Context(), w}, o)
			}
			if out == "" {
				return make(a.IO.Out)
			}
			if err := replaceFile(out, 0o644, make); err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.Result{
				Value: shopGenerated{out, o.Products, o.Seed, catalogue.Version}, IDs: []string{out},
				Human: func(h *output.Human) { h.Line("%d products in %s", o.Products, out) },
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Products, "products", 5000, "how many")
	f.Uint64Var(&o.Seed, "seed", 1, "the `seed`")
	f.StringVar(&out, "out", "", "write to this `file` instead of stdout")
	return cmd
}

// untilDone stops a writer when its context ends.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

// skippedShown bounds the wrong lines that are reported one by one.
const skippedShown = 20

func (a commands) index() *cobra.Command {
	var out string
	var skip bool
	cmd := &cobra.Command{
		Use:   "index FILE",
		Short: "Index a catalogue, once for all runs",
		Long: `Index a catalogue of products in ShoppingBench's schema, one JSON object a line, bare or
as the product of {id, contents, product}; plain, or packed with gzip or zstd. A line that
is wrong ends it: nothing is written then, and the error names line, field and limit. With
--skip-invalid such lines are named and passed over. JSON: {file, version, catalogue
(digest), products, skipped, terms, postings, tokens, documents}.`,
		Example: "  agon shop index catalogue.jsonl\n  agon shop index catalogue.jsonl --out shop.index",
		Args:    cli.Args(1, 1, "a catalogue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				out = args[0] + ".index"
			}
			f, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("read catalogue: %w", err)
			}
			defer func() { _ = f.Close() }()
			in, skipped := catalogue.NewReader(f), 0
			if skip {
				in.Skip = func(_ int, err error) {
					if skipped++; skipped <= skippedShown {
						a.IO.Notef("skipped: %v", err)
					}
				}
			}
			meta, err := search.BuildOf(cmd.Context(), in, out)
			if err != nil {
				return err
			}
			if skipped > skippedShown {
				a.IO.Notef("and %d more lines", skipped-skippedShown)
			}
			return a.Printer.Print(cmd.Context(), output.Result{
				Value: struct {
					File    string `json:"file"`
					Skipped int    `json:"skipped"`
					search.Meta
				}{out, skipped, meta}, IDs: []string{out},
				Human: func(h *output.Human) {
					h.Line("%d products, %d words in %s", meta.Products, meta.Terms, out)
					if skipped > 0 {
						h.Line("%d lines were skipped", skipped)
					}
				},
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the index to this `file` (default: FILE.jsonl.index)")
	cmd.Flags().BoolVar(&skip, "skip-invalid", false, "pass over lines that are wrong, and say which")
	return cmd
}

// openIndex opens an index; the mend tells how to make one.
func openIndex(path string) (*search.Index, error) {
	x, err := search.Open(path)
	if errors.Is(err, search.ErrIndex) {
		return nil, output.Usage("index", "make one with `agon shop index FILE.jsonl`", "%v", err)
	}
	return x, err
}

// foundProduct is a line of `agon shop search`.
type foundProduct struct {
	ProductID string   `json:"product_id"`
	ShopID    string   `json:"shop_id"`
	Title     string   `json:"title"`
	Price     float64  `json:"price"`
	Service   []string `json:"service"`
	SoldCount int64    `json:"sold_count"`
}

func (a commands) search() *cobra.Command {
	var page int
	var strict bool
	query := search.Args{}
	var price, shopID, sort, service string
	cmd := &cobra.Command{
		Use:   "search INDEX WORDS",
		Short: "Search an index as agents do",
		Long: `Answer find_product of the search service: at most ten products. --strict mends the quirks
of ORO's server, which keeps the 50 most relevant of the first 10,000 hits that pass the
filters before it sorts, and answers nothing where an argument is wrong.
JSON: a list of {product_id, shop_id, title, price, service, sold_count}.`,
		Example: "  agon shop search catalogue.jsonl.index 'electric kettle' --price 200-900\n  agon shop search catalogue.jsonl.index kettle --sort priceasc --strict",
		Args:    cli.Args(2, 2, "an index and what to look for"),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := openIndex(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = x.Close() }()
			query["q"], query["page"] = args[1], strconv.Itoa(page)
			for name, v := range map[string]string{"price": price, "shop_id": shopID, "sort": sort, "service": service} {
				if v != "" {
					query[name] = v
				}
			}
			body, err := (&search.Service{Index: x, Strict: strict}).Find(cmd.Context(), query)
			if err != nil {
				return err
			}
			var list []foundProduct
			if err := json.Unmarshal(body, &list); err != nil {
				return fmt.Errorf("read products: %w", err)
			}
			return a.Printer.Print(cmd.Context(), output.List(list, func(p foundProduct) string { return p.ProductID }, func(h *output.Human) {
				rows := make([][]output.Cell, len(list))
				for i, p := range list {
					rows[i] = []output.Cell{
						output.Text(p.ProductID), output.Text(p.ShopID), output.Text(p.Title), output.Text(strconv.FormatFloat(p.Price, 'f', -1, 64)),
						output.Text(strconv.FormatInt(p.SoldCount, 10)), output.Text(fmt.Sprint(p.Service)),
					}
				}
				h.Table([]output.Column{{Title: "product"}, {Title: "shop"}, {Title: "title", Min: 20}, {Title: "price", Right: true}, {Title: "sold", Right: true}, {Title: "services", Min: 8}}, rows)
			}))
		},
	}
	f := cmd.Flags()
	f.IntVar(&page, "page", 1, "the `page`, from 1")
	f.StringVar(&price, "price", "", "`low-high`; one side may be left out")
	f.StringVar(&shopID, "shop", "", "only products of this `shop`")
	f.StringVar(&sort, "sort", "", "order, priceasc, pricedesc or default")
	f.StringVar(&service, "service", "", "`list` of official, freeShipping, COD, flashsale")
	f.BoolVar(&strict, "strict", false, "without the quirks of ORO's server")
	cli.Register(cmd, "sort", "order", "priceasc", "pricedesc", "default")
	cli.Register(cmd, "service", "official", "freeShipping", "COD", "flashsale")
	return cmd
}

func (a commands) serve() *cobra.Command {
	var listen string
	var strict bool
	cmd := &cobra.Command{
		Use:   "serve INDEX",
		Short: "Serve an index over HTTP, with the routes of ORO's search server",
		Long: `Serve GET /find_product, /view_product_information, /get_product_raw and /health until
interrupted. There is no login: listen where only scorers and gateways reach it.`,
		Example: "  agon shop serve catalogue.jsonl.index --at 127.0.0.1:5632",
		Args:    cli.Args(1, 1, "an index"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			x, err := openIndex(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = x.Close() }()
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			srv := &http.Server{Handler: &search.Service{Index: x, Strict: strict}, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 60 * time.Second, MaxHeaderBytes: 1 << 20}
			fmt.Fprintf(a.IO.Err, "%d products on http://%s\n", x.Meta().Products, l.Addr())
			stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
			defer stop()
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return ctx.Err()
		},
	}
	cmd.Flags().StringVar(&listen, "at", "127.0.0.1:5632", "`address` to listen on")
	cmd.Flags().BoolVar(&strict, "strict", false, "without the quirks of ORO's server")
	return cmd
}

func (a commands) vectors() *cobra.Command {
	var out string
	var enc encoderFlags
	cmd := &cobra.Command{
		Use:   "vectors INDEX --out FILE",
		Short: "Encode all titles of an index, once",
		Long: `Encode every title of an index and write the table that --vectors and AGON_ENCODER_VECTORS
read, {title, vector} a line. JSON: {file, encoder, vectors}.`,
		Example: "  agon shop vectors catalogue.jsonl.index --encoder-url http://127.0.0.1:8080/v1 --encoder-model qwen3-embedding --out vectors.jsonl",
		Args:    cli.Args(1, 1, "an index"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return output.Usage("out", "name a file", "--out is missing")
			}
			ctx := cmd.Context()
			e, err := a.encoder(enc)
			if err != nil {
				return err
			}
			x, err := openIndex(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = x.Close() }()
			n := 0
			err = replaceFile(out, 0o644, func(w io.Writer) (err error) {
				n, err = encode.WriteVectors(ctx, w, e, func(yield func(string, error) bool) {
					for id := range x.IDs {
						p, err := x.Product(ctx, id)
						if err != nil {
							yield("", err)
							return
						}
						if !yield(p.Title, nil) {
							return
						}
					}
				})
				return err
			})
			if err != nil {
				return err
			}
			return a.Printer.Print(ctx, output.Result{
				Value: map[string]any{"file": out, "encoder": e.Name(), "vectors": n}, IDs: []string{out},
				Human: func(h *output.Human) { h.Line("%d vectors of %s in %s", n, e.Name(), out) },
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "write the table to this `file`")
	enc.add(cmd)
	return cmd
}
