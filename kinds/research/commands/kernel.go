package commands

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// maxReference bounds what is read of a reference module; ImportKernel says what is too long.
const maxReference = 1 << 20

// importKernel makes a task of a module in KernelBench's form.
func (a commands) importKernel() *cobra.Command {
	var c kr.KernelConfig
	need := agon.GPUNeed{}
	var memory int64
	cmd := &cobra.Command{
		Use: "import-kernel FILE DIR", Short: "Make a task of a kernel: a reference module to be faster than", Args: cli.Args(2, 2, "a module and a directory that does not exist"),
		Long: `Make a research task of a module in KernelBench's form: a class Model, get_inputs and get_init_inputs. Entries change
solution.py, whose ModelNew must give the reference's answers faster. Each runs in a box of its own on inputs drawn by
the replay's seed, at three scales, in the same memory from call to call; times are taken outside of both. Inputs and
answers of one replay are at most 64 and 32 MB. JSON: {dir, files}.`,
		Example: "  agon research import-kernel matmul.py ./my-matmul\n  agon task preflight ./my-matmul",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return &agon.Error{Code: "no_file", Status: 404, Message: err.Error(), Mend: "name a module in KernelBench's form"}
			}
			defer f.Close()
			if c.Reference, err = io.ReadAll(io.LimitReader(f, maxReference)); err != nil {
				return fmt.Errorf("read the reference: %w", err)
			}
			if need.MemoryBytes = memory << 20; need.Count > 0 || len(need.Models) > 0 || memory > 0 {
				c.GPU = &need
			}
			names, err := kr.ImportKernel(args[1], c)
			if err != nil {
				var ae *agon.Error
				if errors.As(err, &ae) {
					return err
				}
				return &agon.Error{Code: "bad_kernel", Status: 422, Message: err.Error(), Mend: "name a directory that does not exist; its last part is the task's name"}
			}
			value := map[string]any{"dir": args[1], "files": names}
			return a.Printer.Print(cmd.Context(), output.Result{Value: value, Human: func(h *output.Human) {
				h.Line("wrote %d files to %s", len(names), args[1])
				h.Line("next: agon task preflight %s", args[1])
			}})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&c.Image, "image", "", "`image`, by its digest, with what the module imports")
	fl.IntVar(&need.Count, "gpus", 0, "`how many` GPUs its boxes have; the GPU's own time is measured then")
	fl.StringSliceVar(&need.Models, "gpu-type", nil, "`model` that will do, such as H100; may be repeated")
	fl.Int64Var(&memory, "gpu-memory", 0, "least memory of each GPU, in `MB`")
	fl.Float64Var(&c.Tolerance, "tolerance", 1e-4, "how far an element may be off, as a `share` of the answer's size")
	fl.IntVar(&c.Calls, "calls", 2, "`inputs` at each of three scales")
	return cmd
}
