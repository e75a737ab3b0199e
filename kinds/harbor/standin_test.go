package harbor

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/task"
)

// Images of well-known servers are built of Debian's packages, unless the task names
// another version, a registry or its own build; the built image starts as the known one does.
func TestStandins(t *testing.T) {
	redis, postgres := standins[0], standins[1]
	digest := "@sha256:" + strings.Repeat("ab", 32)
	for image, c := range map[string]struct {
		bad     string // part of why the task cannot be played
		standin string // what is built
		port    int    // where the service listens, once it can be played
		first   string // of what is started
	}{
		"redis":                              {bad: "services.a.image", standin: redis.image()},
		"redis:7-alpine":                     {bad: "services.a.image", standin: redis.image()},
		"redis:7.2.4":                        {bad: "services.a.image", standin: redis.image()},
		"docker.io/library/postgres:15":      {bad: "services.a.image", standin: postgres.image()},
		"postgres:alpine":                    {bad: "services.a.image", standin: postgres.image()},
		"postgres:16":                        {bad: "what can stand in here is postgres 15"},
		"ghcr.io/someone/redis:7":            {bad: "names no digest"},
		"bitnami/redis":                      {bad: "names no digest"},
		"mysql:8":                            {bad: "names no digest"},
		"":                                   {bad: "names no digest"},
		redis.image() + digest:               {port: 6379, first: "sh"},
		postgres.image() + digest:            {port: 5432, first: "bash"},
		"standin/other" + digest:             {bad: "services.a.expose: 0 ports"},
		"docker.io/standin/redis-x" + digest: {bad: "services.a.expose: 0 ports"},
	} {
		tk, err := task.Load(fstest.MapFS{
			"task.toml": {Data: []byte("[task]\nname = \"a/b\"\n")}, "instruction.md": {Data: []byte("x")}, "tests/test.sh": {Data: []byte("x")},
			composeFile: {Data: []byte("services:\n  a:\n    image: '" + image + "'\n")},
		}, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		if err := checkTask(tk); (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s: %v, want %q", image, err, c.bad)
		}
		if b := unbuilt(tk); b.Standin.Name != c.standin || (b.Name == "a") != (c.standin != "") || needsImage(tk) != (c.standin != "") {
			t.Errorf("%s: unbuilt %+v, needs an image: %v", image, b, needsImage(tk))
		}
		list, err := servicesOf(tk)
		if c.port != 0 && (err != nil || len(list) != 1 || len(list[0].ports) != 1 || list[0].ports[0] != c.port || list[0].args[0] != c.first) {
			t.Errorf("%s: %+v, %v", image, list, err)
		}
	}
}
