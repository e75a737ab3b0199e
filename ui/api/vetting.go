package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
)

// vettings are the routes by which the operator, and workers with its key, answer for submissions.
func (a *server) vettings(api huma.API, p Vettings) {
	op(a, api, "GET", "/v1/arenas/{arena}/vettings", "list-vettings", "What somebody outside is asked of submissions before they are played, or sit (operator)", func(ctx context.Context, in *struct {
		ByArena
		What  string `query:"what" enum:"entry,seat" default:"entry" doc:"which of the two questions"`
		State string `query:"state" enum:"open,held,sent,done" doc:"absent: any"`
	},
	) (*client.Page[client.Vetting], error) {
		list, err := p.Vettings(ctx, caller(ctx), in.Arena, in.What, in.State)
		out := &client.Page[client.Vetting]{Items: []client.Vetting{}}
		for i := range list {
			out.Items = append(out.Items, *vettingView(&list[i]))
		}
		return out, err
	})
	op(a, api, "POST", "/v1/arenas/{arena}/vettings/take", "take-vetting", "Take the vetting that has waited longest; without an id where there is none (operator)", func(ctx context.Context, in *struct {
		ByArena
		Body client.VettingClaim
	},
	) (*client.Vetting, error) {
		v, token, err := p.ClaimVetting(ctx, caller(ctx), in.Arena, in.Body.What, in.Body.Worker, time.Duration(in.Body.Seconds)*time.Second)
		if v == nil || err != nil {
			return &client.Vetting{}, err
		}
		out := vettingView(v)
		out.Token = token
		return out, nil
	})
	op(a, api, "POST", "/v1/vettings/{id}/extend", "extend-vetting", "Keep a vetting that is held (operator)", func(ctx context.Context, in *struct {
		ByID
		Body client.VettingHold
	},
	) (*client.Vetting, error) {
		return seen(p.ExtendVetting(ctx, caller(ctx), in.ID, in.Body.Token, time.Duration(in.Body.Seconds)*time.Second))
	})
	op(a, api, "POST", "/v1/vettings/{id}/verdict", "answer-vetting", "Say what came of a vetting that is held (operator)", func(ctx context.Context, in *struct {
		ByID
		Body client.VettingAnswer
	},
	) (*client.Vetting, error) {
		r := in.Body
		return seen(p.AnswerVetting(ctx, caller(ctx), in.ID, platform.VetAnswer{Token: r.Token, Verdict: r.Verdict, Score: r.Score, Confidence: r.Confidence, Summary: r.Summary, Error: r.Error}))
	})
	op(a, api, "POST", "/v1/vettings/{id}/review", "review-vetting", "Settle a vetting that its worker was unsure of (operator)", func(ctx context.Context, in *struct {
		ByID
		Body client.VettingReview
	},
	) (*client.Vetting, error) {
		c := caller(ctx)
		return seen(p.ReviewVetting(ctx, c, in.ID, c.Hotkey, in.Body.Reason, in.Body.Pass))
	})
}

func seen(v *store.Vetting, err error) (*client.Vetting, error) {
	if err != nil {
		return nil, err
	}
	return vettingView(v), nil
}

func vettingView(v *store.Vetting) *client.Vetting {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	return &client.Vetting{
		ID: v.ID, Arena: v.Arena, Submission: v.Submission, What: v.What, State: v.State, Tries: v.Tries, Worker: v.Worker, LeaseUntil: at(v.LeaseUntil), NextAt: at(v.NextAt),
		Verdict: v.Verdict, Score: v.Score, Confidence: v.Confidence, Summary: v.Summary, Error: v.Error, Actor: v.Actor, CreatedAt: v.CreatedAt, EndedAt: at(v.EndedAt),
	}
}
