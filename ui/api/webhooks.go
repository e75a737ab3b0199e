package api

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// webhooks are the operator's alone: they say where this server sends what.
func (a *server) webhooks(api huma.API) {
	allowed := func(ctx context.Context) (Webhooks, error) {
		c := caller(ctx)
		switch {
		case !c.Operator:
			return nil, operatorOnly(c)
		case a.cfg.Webhooks == nil:
			return nil, &agon.Error{Code: "no_webhooks", Status: 404, Message: "this server has no webhooks"}
		}
		return a.cfg.Webhooks, nil
	}
	op(a, api, "GET", "/v1/webhooks", "list-webhooks", "Webhooks, and the key that signs them (operator)", func(ctx context.Context, _ *none) (*client.Webhooks, error) {
		w, err := allowed(ctx)
		if err != nil {
			return nil, err
		}
		list, err := w.List(ctx)
		return &client.Webhooks{Key: w.PublicKey(), Items: list}, err
	})
	op(a, api, "POST", "/v1/webhooks", "add-webhook", "Tell an address of events (operator)", func(ctx context.Context, in *struct {
		Body client.WebhookRequest
	},
	) (*agon.Webhook, error) {
		w, err := allowed(ctx)
		if err != nil {
			return nil, err
		}
		return w.Add(ctx, in.Body.URL, in.Body.Types)
	})
	op(a, api, "POST", "/v1/webhooks/{id}/remove", "remove-webhook", "Tell it no more (operator)", func(ctx context.Context, in *ByID) (*client.Webhooks, error) {
		w, err := allowed(ctx)
		if err == nil {
			err = w.Remove(ctx, in.ID)
		}
		if err != nil {
			return nil, err
		}
		list, err := w.List(ctx)
		return &client.Webhooks{Key: w.PublicKey(), Items: list}, err
	})
}

func operatorOnly(c platform.Caller) error {
	if c.Hotkey == "" {
		return &agon.Error{Code: "unsigned", Status: 401, Message: "this needs the operator's signature"}
	}
	return &agon.Error{Code: "not_operator", Status: 403, Message: "only the operator may do this", Mend: "sign with the operator's key: add --wallet.name operator --wallet.path DATA/wallets, where DATA is the server's data directory"}
}
