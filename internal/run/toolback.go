package run

import (
	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/tools"
	"github.com/agon-arena/agon/tools/desearch"
	"github.com/agon-arena/agon/tools/gitrepo"
)

// toolConfig is what a tool host is made of here: the HTTP provider of
// AGON_DESEARCH_URL and AGON_DESEARCH_KEY where one is configured, else docs;
// and git in boxes of d.
func toolConfig(o Options, docs tools.Search, d sandbox.Driver, rootfs string) (tools.Config, error) {
	c := tools.Config{Search: docs, Log: o.Log}
	if url := o.Getenv("AGON_DESEARCH_URL"); url != "" {
		s, err := desearch.New(desearch.Config{BaseURL: url, Key: o.Getenv("AGON_DESEARCH_KEY")})
		if err != nil {
			return c, &agon.Error{Code: "bad_search", Status: 422, Message: err.Error(), Mend: "check AGON_DESEARCH_URL and AGON_DESEARCH_KEY"}
		}
		c.Search = s
	}
	if d != nil {
		c.Repo = gitrepo.New(gitrepo.Config{Driver: d, Rootfs: rootfs})
	}
	return c, nil
}
