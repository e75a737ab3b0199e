package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// languages of the polyglot benchmark: how their tests are run.
var languages = map[string]string{
	"python": "python3 -m pytest -q -p no:cacheprovider %s", "go": "go test ./...", "rust": "cargo test -- --include-ignored", "javascript": "npm test --",
	"java": "./gradlew test --no-daemon", "cpp": "cmake -B build -DEXERCISM_RUN_ALL_TESTS=1 && cmake --build build",
}

// Polyglot imports exercises: LANGUAGE/exercises/practice/NAME below a directory.
// image is a template of the image's name, in which {language} is the exercise's.
func (w *Writer) Polyglot(ctx context.Context, dir, image string) error {
	found := false
	for _, lang := range slices.Sorted(mapKeys(languages)) {
		at := filepath.Join(dir, lang, "exercises", "practice")
		ents, err := os.ReadDir(at)
		if err != nil {
			continue
		}
		for _, e := range ents {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !e.IsDir() {
				continue
			}
			found = true
			source := path.Join(lang, e.Name())
			files, why, err := read(filepath.Join(at, e.Name()))
			if err != nil {
				return err
			}
			var out tree
			if why == "" {
				if out, err = exercise(lang, e.Name(), image, files); err != nil {
					why = err.Error()
				}
			}
			if why != "" {
				w.list = append(w.list, Imported{Task: Slug(lang + "-" + e.Name()), Source: source, Reason: why})
				continue
			}
			if err := w.add(lang+"-"+e.Name(), source, out); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("%s holds no LANGUAGE/exercises/practice/NAME", dir)
	}
	return nil
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// exercise makes the task directory of an exercise: its stub is shown, its tests and its example are not.
func exercise(lang, name, image string, files tree) (tree, error) {
	var meta struct {
		Files struct {
			Solution []string `json:"solution"`
			Test     []string `json:"test"`
			Example  []string `json:"example"`
		} `json:"files"`
	}
	if err := json.Unmarshal(files[".meta/config.json"], &meta); err != nil {
		return nil, fmt.Errorf(".meta/config.json: %w", err)
	}
	m := meta.Files
	if len(m.Solution) == 0 || len(m.Test) == 0 || len(m.Example) == 0 || len(m.Example) > len(m.Solution) {
		return nil, fmt.Errorf(".meta/config.json: want files of solution, test and example")
	}
	instruction := string(files[".docs/introduction.md"]) + string(files[".docs/instructions.md"]) + string(files[".docs/instructions.append.md"])
	if strings.TrimSpace(instruction) == "" {
		return nil, fmt.Errorf(".docs/instructions.md is missing")
	}
	out := tree{}
	hidden := slices.Concat(m.Test, m.Example)
	for p, b := range files {
		if !strings.HasPrefix(p, ".") && !slices.Contains(hidden, p) {
			out["environment/work/"+p] = b
		}
	}
	solve := "#!/bin/bash\nset -e\n"
	for i, p := range m.Example {
		b, ok := files[p]
		if !ok {
			return nil, fmt.Errorf("%s is missing", p)
		}
		to := fmt.Sprintf("solution/example-%d", i)
		out[to] = b
		solve += fmt.Sprintf("cat \"$(dirname \"$0\")/example-%d\" > /app/%s\n", i, quote(m.Solution[i]))
	}
	for _, p := range m.Test {
		b, ok := files[p]
		if !ok {
			return nil, fmt.Errorf("%s is missing", p)
		}
		out["tests/files/"+p] = b
	}
	run := languages[lang]
	if strings.Contains(run, "%s") {
		run = fmt.Sprintf(run, strings.Join(m.Test, " "))
	}
	out["tests/test.sh"] = []byte("#!/bin/bash\ncd /app || exit 1\ncp -R /tests/files/. .\nif " + run + "; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n")
	out["solution/solve.sh"] = []byte(solve)
	out["instruction.md"] = []byte(instruction + "\nThe work is in " + strings.Join(m.Solution, ", ") + ".\n")
	env := ""
	from := "scratch"
	if image != "" {
		from = strings.ReplaceAll(image, "{language}", lang)
		env = "\n[environment]\nworkdir = \"/app\"\ndocker_image = " + quote(from) + "\n"
	}
	out["environment/Dockerfile"] = []byte("FROM " + from + "\nWORKDIR /app\nCOPY work/ .\n")
	out["task.toml"] = []byte("schema_version = \"1.4\"\n\n[task]\nname = " + quote("polyglot/"+Slug(lang+"-"+name)) + "\nkeywords = [\"polyglot\", " + quote(lang) + "]\n\n[metadata]\nsource = " + quote("polyglot "+lang+"/"+name) +
		"\nlicence = \"MIT\"\n\n[agent]\ntimeout_sec = 600.0\n\n[verifier]\ntimeout_sec = 300.0\n" + env)
	return out, nil
}
