package harbor

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/harbor/dataset"
)

// Images of servers that tasks name beside their own, and that no package registry
// has: a package of Debian's stands in for each, built here once (`agon task import
// harbor --build`). An image is known again by its name, since nothing else of it tells
// how it is started.

//go:embed standin
var standinFiles embed.FS

// standin is what stands in for an image of a well-known name.
type standin struct {
	name       string // of the image, without registry and tag
	major      int    // version of Debian's package: a tag that names another is refused
	port       int
	entrypoint []string
	command    []string
}

var standins = []standin{
	{
		name: "redis", major: 7, port: 6379,
		entrypoint: []string{"sh", "-c", `[ "$1" = redis-server ] && shift; exec redis-server --protected-mode no --save "" --dir /tmp "$@"`, "sh"}, command: []string{"redis-server"},
	},
	{
		name: "postgres", major: 15, port: 5432,
		entrypoint: []string{"bash", "-c", standinText("postgres/start.sh"), "bash"}, command: []string{"postgres"},
	},
}

func standinText(name string) string {
	b, err := standinFiles.ReadFile(path.Join("standin", name))
	if err != nil {
		panic(err) // it is in the binary
	}
	return string(b)
}

// dockerfile is of what the image is built.
func (s *standin) dockerfile() string { return standinText(s.name + "/Dockerfile") }

// image names the built image: another Dockerfile is another name.
func (s *standin) image() string {
	return dataset.StandinImages + s.name + "-" + agon.Sum([]byte(s.dockerfile())).Hex()[:12]
}

// standinOf finds what stands in for an image by its name, such as redis:7-alpine; nil:
// nothing does. The error says that it is of another version.
func standinOf(ref string) (*standin, error) {
	name, tag, _ := strings.Cut(path.Base(ref), ":")
	for i := range standins {
		s := &standins[i]
		if s.name != name || strings.Contains(ref, "/") && !strings.HasPrefix(ref, "docker.io/library/") && !strings.HasPrefix(ref, "library/") {
			continue
		}
		if want, _, _ := strings.Cut(tag, "-"); want != "" {
			want, _, _ = strings.Cut(want, ".")
			if n, err := strconv.Atoi(want); err == nil && n != s.major {
				return nil, fmt.Errorf("%.100q: what can stand in here is %s %d", ref, s.name, s.major)
			}
		}
		return s, nil
	}
	return nil, nil
}

// builtStandin is what an image that was built here stands in for; nil: for none.
func builtStandin(ref string) *standin {
	rest, ok := strings.CutPrefix(ref, dataset.StandinImages)
	name, _, _ := strings.Cut(rest, "-")
	for i := range standins {
		if ok && standins[i].name == name {
			return &standins[i]
		}
	}
	return nil
}
