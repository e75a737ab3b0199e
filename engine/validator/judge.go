package validator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
)

// Judges is what a Platform offers besides, whose validators judge each
// other's results again; *client.Client is one.
type Judges interface {
	// ClaimJudging waits up to the request's WaitMS; nil without an error means that nothing came.
	ClaimJudging(ctx context.Context, r client.ClaimRequest) (*client.JudgeLease, error)
	BeatJudging(ctx context.Context, lease string, h client.JudgeHeartbeat) (*client.HeartbeatReply, error)
	// JudgingResult may be repeated.
	JudgingResult(ctx context.Context, lease string, r client.JudgeResult) (*client.JudgeReply, error)
	// Blob returns verified bytes.
	Blob(ctx context.Context, d agon.Digest) ([]byte, error)
}

// Bounds of evidence that is judged again.
const (
	maxEvidenceFiles = 2000
	maxEvidenceBytes = 64 << 20
)

// Judge judges a record that another validator's play left, by the kind's Judge
// in a fresh environment, as that validator must have done. It plays nothing.
func (p *Player) Judge(ctx context.Context, arenaKind string, spec agon.RunSpec, attempt int, rec agon.Record) ([]agon.Score, error) {
	k, ok := p.Kinds[arenaKind]
	if !ok {
		return nil, fmt.Errorf("this validator does not judge %s", arenaKind)
	}
	if !agon.Ordinary(rec.Outcome) {
		return nil, fmt.Errorf("outcome %.40q is none that is judged", rec.Outcome)
	}
	e := &env{p: p, kind: k, job: Job{Run: spec, Attempt: attempt}, rec: &recorder{run: spec.Run, attempt: attempt, now: p.Now}, phase: PhaseJudge}
	defer e.close()
	scores, err := guard(func() ([]agon.Score, error) { return k.Judge(ctx, e, spec, rec) })
	if err != nil {
		return nil, err
	}
	if err := checkScores(spec.Tasks, scores); err != nil {
		return nil, err
	}
	for i := range scores {
		scores[i].Run, scores[i].Scorer = spec.Run, k.Scorer()
	}
	return scores, nil
}

// judges judges results of others until ctx ends, beside the play.
func (l *Loop) judges(ctx context.Context, j Judges) {
	req := l.request()
	errs := backoff{first: l.cfg.Backoff}
	for ctx.Err() == nil {
		req.MissingImages = l.images.missing(ctx)
		req.GPUs = l.gpus.now(ctx, l.cfg.Player, l.cfg.Log)
		lease, err := j.ClaimJudging(ctx, req)
		if err != nil {
			if ctx.Err() == nil {
				l.refused("claiming a result to judge", err)
				l.pause(ctx, errs.after(err))
			}
			continue
		}
		errs.answered()
		if lease != nil {
			l.judge(ctx, j, lease)
		}
	}
}

// judge serves one judge lease to its end.
func (l *Loop) judge(ctx context.Context, j Judges, lease *client.JudgeLease) {
	log := l.cfg.Log.With("run", lease.Run.Run, "judging", lease.ID)
	judgeCtx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.beatJudging(judgeCtx, stop, j, lease, log)
	}()
	res := client.JudgeResult{Token: lease.Token, Driver: l.cfg.Player.Driver.Info()}
	files, err := evidence(judgeCtx, j, lease.Evidence, l.cfg.Player.Kinds[lease.Arena.Kind])
	if err == nil {
		res.Scores, err = l.cfg.Player.Judge(judgeCtx, lease.Arena.Kind, lease.Run, lease.Attempt, agon.Record{Outcome: lease.Outcome, Files: files})
	}
	stop()
	<-done
	if err != nil {
		log.Warn("result not judged again", "err", err)
		res.Fault, res.Reason, res.Scores = agon.FaultValidator, fmt.Sprintf("%.1000s", err.Error()), nil
	}
	reportCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, err := j.JudgingResult(reportCtx, lease.ID, res); err != nil {
		log.Warn("judging not taken", "err", err) // its lease runs out
	}
}

func (l *Loop) beatJudging(ctx context.Context, stop func(), j Judges, lease *client.JudgeLease, log *slog.Logger) {
	every := time.Duration(lease.HeartbeatMS) * time.Millisecond
	if every <= 0 {
		every = 10 * time.Second
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		hctx, cancel := context.WithTimeout(ctx, every)
		r, err := j.BeatJudging(hctx, lease.ID, client.JudgeHeartbeat{Token: lease.Token})
		cancel()
		if err == nil && r.Cancel {
			log.Warn("judge lease lost")
			stop()
			return
		}
	}
}

// evidence fetches what a play left. What boxes printed may be gone: k judges nothing by it.
func evidence(ctx context.Context, j Judges, d agon.Digest, k kind.Kind) (map[string][]byte, error) {
	l := blob.TreeLimits{Files: maxEvidenceFiles, Bytes: maxEvidenceBytes}
	if p, ok := k.(kind.Printed); ok {
		l.Spare = p.Prints
	}
	list, err := blob.GetFiles(ctx, download{j}, d, l)
	if err != nil {
		return nil, fmt.Errorf("fetch evidence: %w", err)
	}
	out := make(map[string][]byte, len(list))
	for _, f := range list {
		out[f.Path] = f.Content
	}
	return out, nil
}

// download is a read-only blob.Store at the platform.
type download struct{ j Judges }

func (s download) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	b, err := s.j.Blob(ctx, d)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %w", blob.ErrNotFound, err)
	}
	return b, err
}

func (s download) Has(context.Context, agon.Digest) (bool, error) { return false, nil }

func (s download) Put(context.Context, []byte) (agon.Digest, error) {
	return "", fmt.Errorf("store evidence: this store is read-only")
}
