package play

import (
	"bytes"
	"compress/zlib"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	sdk "github.com/agon-arena/agon/kinds/claim/sdk/python"
	"github.com/agon-arena/agon/sandbox/warm"
)

var (
	//go:embed runner/boot.py
	bootSource string
	//go:embed runner/confine.py
	confineSource string
	//go:embed runner/worker.py
	workerSource string
	//go:embed runner/server.py
	serverSource string
)

// maxArg is what one argument of a program may have on Linux, in bytes.
const maxArg = 128 << 10

// runnerArgs is the command that serves the sandbox protocol. Runner and SDK
// travel as an argument, so that no file in a box holds them.
var runnerArgs = sync.OnceValues(func() ([]string, error) {
	modules, err := sdk.Modules()
	if err != nil {
		return nil, err
	}
	modules["agon_confine"], modules["agon_worker"], modules["agon_runner"] = confineSource, workerSource, serverSource
	modules[warm.Module] = warm.Source
	b, err := json.Marshal(modules)
	if err != nil {
		return nil, fmt.Errorf("pack the runner: %w", err)
	}
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		return nil, fmt.Errorf("pack the runner: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the runner: %w", err)
	}
	arg := base64.StdEncoding.EncodeToString(z.Bytes())
	if len(arg) >= maxArg {
		return nil, fmt.Errorf("pack the runner: %d bytes do not fit into an argument", len(arg))
	}
	// -P and -s: nothing beside the standard library is on the path; -B: nothing is written.
	return []string{"python3", "-P", "-s", "-B", "-c", bootSource, arg}, nil
})
