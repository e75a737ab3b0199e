// Command launcher starts a program of the layer that agon puts beside an
// image. The program's own loader and libraries stand in that layer, so it runs
// whatever the image holds, and finds them without a variable that the image's
// programs would inherit. It is known by the name that it is started by.
//
// It imports the standard library only: it is built apart, into a static program.
package main

import (
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
)

const layer = "/opt/agon"

func main() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil { // a box without /proc
		self = os.Args[0]
	}
	name := path.Base(self)
	args := append([]string{layer + "/lib/ld.so", "--library-path", layer + "/lib/libs", "--argv0", layer + "/bin/" + name, layer + "/libexec/" + name}, os.Args[1:]...)
	var env []string
	for _, e := range os.Environ() {
		// Of the image's libraries and modules.
		if k, _, _ := strings.Cut(e, "="); k != "LD_PRELOAD" && (k != "PYTHONHOME" || !strings.HasPrefix(name, "python")) {
			env = append(env, e)
		}
	}
	if name == "git" {
		env = append(env, "GIT_EXEC_PATH="+layer+"/lib/git-core", "GIT_TEMPLATE_DIR="+layer+"/share/git-core/templates")
	}
	err = syscall.Exec(args[0], args, env)
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	os.Exit(127)
}
