package roles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
)

// calibrate is `agon judge calibrate`. Without a model it measures what stands in
// for one, as `agon try` plays with it: the comparison of words, which is not kept.
func calibrate(ctx context.Context, kits kit.List, c cli.JudgeCalibrateOptions) (*judge.Calibration, error) {
	o := kits.Options(c.Common, "")
	exams := kits.Exams()
	i := slices.IndexFunc(exams, func(x judge.Exam) bool { return x.Prompt.Name == c.Prompt })
	if i < 0 {
		return nil, fmt.Errorf("no exam for prompt %q", c.Prompt) // the command has checked it
	}
	sheet, set, err := sheetOf(exams[i], c.File)
	if err != nil {
		return nil, err
	}
	if kit.NoModel(o, "a judge") != nil && o.Getenv("AGON_LLM_CASSETTE") == "" {
		if sheet.Lexically == nil {
			return nil, kit.NoModel(o, "a judge")
		}
		o.Sayf("no model key is set (AGON_LLM_BASE_URL, AGON_LLM_API_KEY, AGON_LLM_MODEL): words are compared in a model's place, as in demos; this opens no arena")
		got, err := sheet.Lexically()
		if err == nil {
			got.Judge(c.Gate, judge.GateFalseAccept)
		}
		return got, err
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
	j, s, err := kit.JudgeSession(ctx, gw, "calibrate", c.Prompt, models, c.Panel, c.Budget)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got, err := sheet.By(ctx, j, func(done, total int) {
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

// sheetOf reads a file of cases, or those that come with agon; set names them.
func sheetOf(x judge.Exam, file string) (s judge.Sheet, set string, err error) {
	if file == "" {
		s, err = x.Read(strings.NewReader(x.Shipped))
		return s, judge.SetShipped, err
	}
	f, err := os.Open(file)
	if err != nil {
		return s, "", &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: err.Error()}
	}
	h := sha256.New()
	s, err = x.Read(io.TeeReader(f, h))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return s, "", &agon.Error{Code: "bad_cases", Status: 422, Field: "file", Message: err.Error(), Mend: "agon judge calibrate --help shows the form"}
	}
	return s, agon.DigestPrefix + hex.EncodeToString(h.Sum(nil)), nil
}
