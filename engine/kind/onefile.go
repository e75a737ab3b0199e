package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// Finding codes of CheckOneFile.
const (
	FindNoFile     = "no_agent_file"
	FindExtraFile  = "extra_file"
	FindNotRegular = "not_regular"
)

// maxExtra bounds the findings on files that do not belong to a submission.
const maxExtra = 10

var errEnough = errors.New("enough")

// CheckOneFile decides whether a submission is the one regular file name, whose
// first limit+1 bytes are given to check: one more than allowed tells that it is
// too large. The walk ends at the tenth file that does not belong there.
func CheckOneFile(ctx context.Context, files fs.FS, name string, limit int64, check func(src []byte) []agon.Finding) ([]agon.Finding, error) {
	var findings []agon.Finding
	seen := false
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case path == ".":
		case path != name:
			findings = append(findings, agon.Finding{Code: FindExtraFile, Field: plain.Short(path, 120), Limit: "1 file", Message: "only " + name + " may be entered"})
			if len(findings) >= maxExtra {
				return errEnough
			}
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.Type().IsRegular():
			seen = true
			findings = append(findings, agon.Finding{Code: FindNotRegular, Field: name, Message: name + " must be a regular file"})
		default:
			seen = true
			src, err := ReadLimited(files, path, limit+1)
			if err != nil {
				return err
			}
			findings = append(findings, check(src)...)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("walk submission: %w", err)
	}
	if !seen && err == nil {
		findings = append(findings, agon.Finding{Code: FindNoFile, Field: name, Message: name + " is missing"})
	}
	return findings, nil
}

// ReadLimited reads the first limit bytes of a file.
func ReadLimited(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	return io.ReadAll(io.LimitReader(f, limit))
}
