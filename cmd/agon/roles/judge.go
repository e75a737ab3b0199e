package roles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// calibrate is `agon judge calibrate`.
func calibrate(ctx context.Context, kits kit.List, c cli.JudgeCalibrateOptions) (*judge.Calibration, error) {
	o := kits.Options(c.Common, "")
	cases, err := judge.ShippedCases()
	set := judge.SetShipped
	if c.File != "" {
		var f *os.File
		if f, err = os.Open(c.File); err != nil {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: err.Error()}
		}
		h := sha256.New()
		cases, err = judge.ReadCases(io.TeeReader(f, h))
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		set = agon.DigestPrefix + hex.EncodeToString(h.Sum(nil))
	}
	if err != nil {
		return nil, &agon.Error{Code: "bad_cases", Status: 422, Field: "file", Message: err.Error(), Mend: "agon judge calibrate --help shows the form"}
	}
	if err := kit.NoModel(o, "a judge"); err != nil {
		return nil, err
	}
	work, err := tempdir.Make("judge")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	gw, err := kit.NewGateway(ctx, o, work)
	if err != nil {
		return nil, err
	}
	defer gw.Stop()
	models := kit.ModelNames(c.Model)
	if len(models) == 0 {
		models = o.Models(kit.RoleJudge)
	}
	if c.Panel > max(len(models), 1) {
		return nil, &agon.Error{Code: "bad_panel", Status: 422, Field: "panel", Message: fmt.Sprintf("a panel of %d needs as many models, %d are named", c.Panel, len(models)), Mend: "name them with --model a,b,c or AGON_JUDGE_MODEL"}
	}
	j, s, err := kit.JudgeSession(ctx, gw, "calibrate", "support", models, c.Panel, c.Budget)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got, err := j.Calibrate(ctx, cases, func(done, total int) {
		if done%20 == 0 || done == total {
			o.Sayf("%d of %d cases", done, total)
		}
	})
	if errors.Is(err, judge.ErrBudget) {
		return nil, &agon.Error{Code: "budget_exceeded", Status: 422, Field: "budget", Message: "the budget does not carry all cases", Mend: "give more with --budget"}
	}
	if err != nil {
		return nil, err
	}
	got.Judge(c.Gate, judge.GateFalseAccept)
	got.Kept = got.Judged > 0 && models != nil
	if !got.Kept {
		return got, nil
	}
	r := judge.Record{At: time.Now().UTC(), Set: set, Calibration: *got}
	if err := kit.Gauges(o.Data).Add(r); err != nil {
		return nil, err
	}
	return got, nil
}
