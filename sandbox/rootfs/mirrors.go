package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/pelletier/go-toml/v2"
)

// registriesConf is the file in which podman, buildah and skopeo name mirrors.
// Only what stands here is done; pull-from-mirror and the like are not.
// Source: containers-registries.conf(5), version 2.
type registriesConf struct {
	Registry []struct {
		Prefix   string   `toml:"prefix"`
		Location string   `toml:"location"`
		Insecure bool     `toml:"insecure"`
		Blocked  bool     `toml:"blocked"`
		Mirror   []mirror `toml:"mirror"`
	} `toml:"registry"`
}

type mirror struct {
	Location string `toml:"location"`
	Insecure bool   `toml:"insecure"`
}

const maxRegistriesConf = 1 << 20

// registriesFile is the first that is there of those that podman reads; "" without one.
func registriesFile(getenv func(string) string) string {
	if p := getenv("CONTAINERS_REGISTRIES_CONF"); p != "" {
		return p
	}
	conf := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); conf == "" && home != "" {
		conf = filepath.Join(home, ".config")
	}
	for _, dir := range []string{conf, "/etc"} {
		if p := filepath.Join(dir, "containers", "registries.conf"); dir != "" {
			if _, err := os.Stat(p); err == nil {
				return p
			}
		}
	}
	return ""
}

func readRegistries(file string) (*registriesConf, error) {
	c := &registriesConf{}
	if file == "" {
		return c, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read mirrors: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxRegistriesConf {
		return nil, fmt.Errorf("read mirrors: %s is not a file of at most %d bytes", file, maxRegistriesConf)
	}
	if err := toml.NewDecoder(f).Decode(c); err != nil {
		return nil, fmt.Errorf("read mirrors: %s: %w", file, err)
	}
	return c, nil
}

// places are where an image is looked for, in order: the mirrors of the longest
// prefix that its name has, then the place that stands for the prefix. A mirror
// is asked for the same digest, so it can withhold an image, not change it; of an
// image that is named by a tag, a mirror says what the tag means.
func (c *registriesConf) places(r name.Reference) ([]name.Reference, error) {
	full := r.Context().Name() // with its registry: index.docker.io/library/python
	full = strings.Replace(full, name.DefaultRegistry+"/", "docker.io/", 1)
	best := -1
	for i, g := range c.Registry {
		p := g.Prefix
		if p == "" {
			p = g.Location
		}
		if under(full, p) && (best < 0 || len(p) > len(c.prefix(best))) {
			best = i
		}
	}
	if best < 0 {
		return []name.Reference{r}, nil
	}
	g := c.Registry[best]
	if g.Blocked {
		return nil, badImage("%s: registries.conf blocks %s", r.Name(), c.prefix(best))
	}
	rest := strings.TrimPrefix(full, c.prefix(best))
	if strings.HasPrefix(c.prefix(best), "*.") {
		_, rest, _ = strings.Cut(full, "/")
		rest = "/" + rest
	}
	all := g.Mirror
	if g.Location != "" {
		all = append(all[:len(all):len(all)], mirror{g.Location, g.Insecure})
	}
	var out []name.Reference
	for _, m := range all {
		// A registry that may be asked without TLS is asked so.
		var options []name.Option
		if m.Insecure {
			options = append(options, name.Insecure)
		}
		sign := ":"
		if _, ok := r.(name.Digest); ok {
			sign = "@"
		}
		there, err := name.ParseReference(m.Location+rest+sign+r.Identifier(), options...)
		if err != nil {
			return nil, fmt.Errorf("registries.conf: mirror %.200q: %w", m.Location, err)
		}
		out = append(out, there)
	}
	if g.Location == "" {
		out = append(out, r)
	}
	return out, nil
}

func (c *registriesConf) prefix(i int) string {
	if p := c.Registry[i].Prefix; p != "" {
		return p
	}
	return c.Registry[i].Location
}

// under tells whether a name stands below a prefix: a host, a path or *.domain.
func under(full, prefix string) bool {
	if domain, ok := strings.CutPrefix(prefix, "*."); ok {
		host, _, _ := strings.Cut(full, "/")
		return domain != "" && strings.HasSuffix(host, "."+domain)
	}
	return prefix != "" && (full == prefix || strings.HasPrefix(full, prefix+"/"))
}
