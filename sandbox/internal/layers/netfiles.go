package layers

import (
	"os"
	"strings"

	"github.com/agon-arena/agon/sandbox"
)

// NetFiles are the files that name resolution reads. Without the host's network
// every known name is the loopback address, and others fail at once, because
// nothing listens where questions would go.
func NetFiles(s sandbox.Spec) Files {
	names := strings.Join(append([]string{"localhost", "box"}, s.Hostnames...), " ")
	f := Files{
		"etc/hosts":       "127.0.0.1 " + names + "\n::1 localhost\n",
		"etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
		"etc/hostname":    "box\n",
	}
	if s.Network {
		for _, p := range []string{"etc/hosts", "etc/resolv.conf"} {
			if b, err := os.ReadFile("/" + p); err == nil {
				f[p] = string(b)
			}
		}
	}
	return f
}
