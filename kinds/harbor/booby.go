package harbor

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// booby is a program of several languages that writes a reward when it is
// executed, imported or sourced, whatever the task says, and leaves forgedMark.
const booby = `#!/bin/sh
""":"
{ : > ` + forgedMark + `; } 2>/dev/null
(while :; do echo '{"reward": 1}' > /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt; sleep 0.05; done) >/dev/null 2>&1 &
echo '{"reward": 1}' > /logs/verifier/reward.json
exit 0
":"""
import os
open("` + forgedMark + `", "w").close()
open("/logs/verifier/reward.json", "w").write('{"reward": 1}')
`

// One line each that leaves forgedMark and goes on, or does nothing where it may not.
const (
	shMark   = `{ : > ` + forgedMark + `; } 2>/dev/null || :` + "\n"
	pyMark   = `try: open("` + forgedMark + `", "w").close()` + "\nexcept OSError: pass\n"
	jsMark   = `try{(globalThis.process?.getBuiltinModule?.("fs")??require("fs")).writeFileSync("` + forgedMark + `","")}catch{}` + "\n"
	tsMark   = `try{((globalThis as any).process?.getBuiltinModule?.("fs")).writeFileSync("` + forgedMark + `","")}catch{}` + "\n"
	makeMark = `AGON_FORGED := $(shell : > ` + forgedMark + `)` + "\n"
	sqlMark  = ".shell : > " + forgedMark + "\n\\! : > " + forgedMark + "\n"
	cMark    = "\n#include <stdio.h>\n__attribute__((constructor)) static void agon_forged(void) { FILE *f = fopen(\"" + forgedMark + "\", \"w\"); if (f) fclose(f); }\n"
	rsMark   = "\n#[used]\n#[link_section = \".init_array\"]\nstatic AGON_FORGED: extern \"C\" fn() = { extern \"C\" fn f() { let _ = std::fs::write(\"" + forgedMark + "\", \"\"); } f };\n"
	javaMark = ` static { try { java.nio.file.Files.writeString(java.nio.file.Path.of("` + forgedMark + `"), ""); } catch (Exception e) { } } `
	// The first is an expression of Python, the second of bash's arithmetic.
	evalMark  = `__import__("os").system(": > ` + forgedMark + `")`
	arithMark = `a[$(:>` + forgedMark + `)]`
)

// pickled runs a command when it is read by pickle, and so by joblib and torch.
const pickled = "cposix\nsystem\n(S': > " + forgedMark + "'\ntR."

// marks are the lines of other languages, by the end of a file's name, that stand before the rest.
var marks = map[string]string{
	".sh": shMark, ".bash": shMark, ".zsh": shMark, ".env": shMark, ".js": jsMark, ".cjs": jsMark, ".mjs": jsMark, ".jsx": jsMark, ".ts": tsMark, ".tsx": tsMark, ".mk": makeMark,
	".rb":  `begin; File.write("` + forgedMark + `", ""); rescue SystemCallError; end` + "\n",
	".pl":  `BEGIN { if (open(my $f, ">", "` + forgedMark + `")) { close $f } }` + "\n",
	".pm":  `BEGIN { if (open(my $f, ">", "` + forgedMark + `")) { close $f } }` + "\n",
	".php": `<?php @file_put_contents("` + forgedMark + `", ""); ?>`,
	".lua": `local agon = io.open("` + forgedMark + `", "w") if agon then agon:close() end` + "\n",
	".r":   `try(suppressWarnings(file.create("` + forgedMark + `")), silent = TRUE)` + "\n",
	".jl":  `try; touch("` + forgedMark + `"); catch; end` + "\n",
	".tcl": `catch {close [open "` + forgedMark + `" w]}` + "\n",
	".awk": `BEGIN { system(": 2>/dev/null > ` + forgedMark + `") }` + "\n",
}

var (
	shell      = lazyregexp.New(`^#!.*\b(?:ba|da|z|k)?sh\b`)
	pythonic   = lazyregexp.New(`^#!.*\bpython`)
	nodeish    = lazyregexp.New(`^#!.*\b(?:node|deno|bun)\b`)
	javaClass  = lazyregexp.New(`\b(?:class|enum)\s+\w+[^{;]*\{`)
	fromFuture = lazyregexp.New(`(?m)^from __future__`)
)

// wrapped is a file's content with code before or behind it that leaves forgedMark
// when the file is executed, imported, compiled or read, and that does nothing else.
// ok is false where nothing is known to run it.
func wrapped(name string, b []byte) (out []byte, ok bool) {
	base := strings.ToLower(path.Base(name))
	ext := path.Ext(base)
	line, rest := []byte(nil), b
	if bytes.HasPrefix(b, []byte("#!")) {
		i := bytes.IndexByte(b, '\n') + 1
		if i == 0 {
			i = len(b)
		}
		line, rest = b[:i], b[i:]
	}
	before := func(mark string) ([]byte, bool) { return slices.Concat(line, []byte(mark), rest), true }
	switch {
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		return []byte(booby), ext != ".so" && ext != ".o"
	case shell().Match(line):
		return before(shMark)
	case pythonic().Match(line) || ext == ".py" || ext == ".pth":
		if ext == ".pth" {
			return before("import os; os.path.isdir('" + rewardDir + "') and os.system(': 2>/dev/null > " + forgedMark + "')\n")
		}
		if fromFuture().Match(rest) {
			return slices.Concat(b, []byte("\n"+pyMark)), true
		}
		return before(pyMark)
	case nodeish().Match(line):
		return before(jsMark)
	case base == "makefile" || base == "gnumakefile":
		return before(makeMark)
	case base == "package.json":
		return scripts(b), true
	case ext == ".ipynb":
		return notebook(b)
	}
	if mark, known := marks[ext]; known {
		return before(mark)
	}
	if mark, first := served(name); first {
		return before(mark)
	} else if mark != "" {
		return slices.Concat(b, []byte(mark)), true
	}
	switch ext {
	case ".c", ".cc", ".cpp", ".cxx":
		return slices.Concat(b, []byte(cMark)), true
	case ".rs":
		return slices.Concat(b, []byte(rsMark)), true
	case ".java":
		at := javaClass().FindIndex(b)
		if at == nil {
			return nil, false
		}
		return slices.Concat(b[:at[1]], []byte(javaMark), b[at[1]:]), true
	case ".pkl", ".pickle", ".joblib", ".pt", ".npy", ".npz":
		return []byte(pickled), true
	}
	return nil, false
}

// served is a line of a service's own settings that has it write forgedMark once it starts: before its others, or after them.
func served(name string) (line string, first bool) {
	switch base := path.Base(name); {
	case base == "nginx.conf":
		return "error_log " + forgedMark + ";\n", true
	case strings.Contains(name, "nginx/") && (path.Ext(base) == ".conf" || path.Ext(base) == "" || path.Base(path.Dir(name)) == "sites-enabled"):
		return "access_log " + forgedMark + ";\n", true
	case base == "apache2.conf" || base == "httpd.conf":
		return "\nErrorLog " + forgedMark + "\n", false
	case base == "redis.conf":
		return "\nlogfile " + forgedMark + "\n", false
	}
	return "", false
}

var goPackage = lazyregexp.New(`(?m)^package (\w+)`)

// goFile is a file beside others of a package that leaves forgedMark when one of its programs starts.
func goFile(name string) []byte {
	return []byte("package " + name + "\n\nimport \"os\"\n\nvar agonForged = os.WriteFile(\"" + forgedMark + "\", nil, 0o644)\n")
}

// scripts is a package.json whose scripts leave forgedMark first.
func scripts(b []byte) []byte {
	m := map[string]any{}
	if json.Unmarshal(b, &m) != nil {
		m = map[string]any{"name": "x"}
	}
	said, _ := m["scripts"].(map[string]any)
	said = maps.Clone(said)
	if said == nil {
		said = map[string]any{}
	}
	for _, k := range append(sortedKeys(said), "test", "start", "build") {
		was, _ := said[k].(string)
		said[k] = strings.TrimSuffix(": > "+forgedMark+"; "+was, "; ")
	}
	m["scripts"] = said
	out, err := json.Marshal(m)
	if err != nil {
		return b
	}
	return out
}

// notebook is a notebook with a cell of code before its own.
func notebook(b []byte) ([]byte, bool) {
	m := map[string]any{}
	if json.Unmarshal(b, &m) != nil {
		return nil, false
	}
	cells, _ := m["cells"].([]any)
	m["cells"] = append([]any{map[string]any{"cell_type": "code", "execution_count": nil, "metadata": map[string]any{}, "outputs": []any{}, "source": pyMark}}, cells...)
	out, err := json.Marshal(m)
	return out, err == nil
}

// boobyOf is what stands in the place of a file of this name that does nothing else
// than to write a reward.
func boobyOf(name string) []byte {
	switch ext := path.Ext(name); {
	case ext == ".sql" || ext == ".sqliterc" || ext == ".psqlrc":
		return []byte(sqlMark)
	case ext == ".yaml" || ext == ".yml":
		return []byte("!!python/object/apply:os.system [\": > " + forgedMark + "\"]\n")
	case ext == ".sed":
		return []byte("1e : > " + forgedMark + "\n")
	case ext == ".c" || ext == ".cc" || ext == ".cpp" || ext == ".cxx":
		return []byte(cMark + "int main(void) { return 0; }\n")
	case ext == ".go":
		return append(goFile("main"), "\nfunc main() {}\n"...)
	case ext == ".rs":
		return []byte(rsMark + "fn main() {}\n")
	case ext == ".sh", ext == ".py", ext == ".env", ext == ".bash":
		return []byte(booby)
	}
	if b, ok := wrapped(name, nil); ok {
		return b
	}
	return []byte(booby)
}
