package roles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// corpusFolder is where a server's corpus stands, in its data directory and in its bucket.
const corpusFolder = "corpus"

// isCorpus reports whether a folder is one.
func isCorpus(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, corpus.ManifestName))
	return err == nil
}

// bucketOf opens the bucket of an s3:// URL.
func bucketOf(ctx context.Context, o kit.Options, url string) (*s3.Store, error) {
	o.Blobs = url
	b, err := openBlobs(ctx, nil, o)
	if err != nil {
		return nil, err
	}
	return b.(*s3.Store), nil
}

// copyCorpus copies a corpus to a bucket or from one into out. It reports false where from
// is not a corpus.
func copyCorpus(ctx context.Context, o kit.Options, from, to string, out *cli.StoreCopied) (bool, error) {
	*out = cli.StoreCopied{From: from, To: to, Corpus: &cli.CorpusCopied{}}
	switch {
	case isCorpus(from) && s3.IsURL(to):
		b, err := bucketOf(ctx, o, to)
		if err != nil {
			return true, err
		}
		if err := pushCorpus(ctx, b.Files(""), from, out); err != nil {
			return true, err
		}
	case s3.IsURL(from) && !s3.IsURL(to):
		b, err := bucketOf(ctx, o, from)
		if err != nil {
			return true, err
		}
		err = pullCorpus(ctx, b.Files(""), to, out)
		if errors.Is(err, iofs.ErrNotExist) { // blobs stand there
			return false, nil
		}
		if err != nil {
			return true, err
		}
	case isCorpus(from):
		return true, &agon.Error{Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "to", Message: from + " is a corpus: it is copied to a bucket", Mend: "give s3://BUCKET/PREFIX?endpoint=https://HOST:PORT"}
	default:
		return false, nil
	}
	out.Verified = true
	return true, nil
}

// fileID reads a file's digest and size.
func fileID(path string) (id corpus.FileID, err error) {
	f, err := os.Open(path)
	if err != nil {
		return id, err
	}
	h := sha256.New()
	id.Bytes, err = io.Copy(h, f)
	id.SHA256 = hex.EncodeToString(h.Sum(nil))
	return id, errors.Join(err, f.Close())
}

func otherFile(name, where string) error {
	return &agon.Error{
		Code: "bad_corpus", Status: http.StatusUnprocessableEntity, Field: name, Message: fmt.Sprintf("%s is not the file that the manifest of %s names", name, where),
		Mend: "agon corpus verify lists every file that is wrong",
	}
}

// pushCorpus writes a corpus to a bucket, the manifest last: where it is, all the files are.
func pushCorpus(ctx context.Context, files *s3.Files, dir string, out *cli.StoreCopied) error {
	m, err := corpus.ReadManifest(dir)
	if err != nil {
		return err
	}
	for _, name := range append(slices.Sorted(maps.Keys(m.Files)), corpus.ManifestName) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		id, err := fileID(path)
		if err != nil {
			return fmt.Errorf("read corpus: %w", err)
		}
		if want, ok := m.Files[name]; ok && (id.SHA256 != want.SHA256 || id.Bytes != want.Bytes) {
			return otherFile(name, dir)
		}
		wrote, err := files.Upload(ctx, name, path, id.SHA256, id.Bytes)
		if err != nil {
			return err
		}
		out.Corpus.Files++
		out.Corpus.Bytes += id.Bytes
		if wrote {
			out.Copied++
		}
	}
	return nil
}

// pullCorpus makes dir of a corpus in a bucket, or adds to it what it lacks. The manifest comes last.
func pullCorpus(ctx context.Context, files *s3.Files, dir string, out *cli.StoreCopied) error {
	tmp, err := os.MkdirTemp("", "agon-corpus-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := files.Download(ctx, corpus.ManifestName, filepath.Join(tmp, corpus.ManifestName)); err != nil {
		return err
	}
	m, err := corpus.ReadManifest(tmp)
	if err != nil {
		return err
	}
	get := func(name string, want corpus.FileID) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if have, err := fileID(path); err == nil && have.SHA256 == want.SHA256 {
			out.Corpus.Files++
			out.Corpus.Bytes += have.Bytes
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := files.Download(ctx, name, path); err != nil {
			return fmt.Errorf("read corpus: %w", err)
		}
		have, err := fileID(path)
		if err != nil {
			return err
		}
		if have.SHA256 != want.SHA256 {
			return otherFile(name, "the bucket")
		}
		out.Corpus.Files++
		out.Corpus.Bytes += have.Bytes
		out.Copied++
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return otherFile(name, "the bucket")
		}
		if err := get(name, m.Files[name]); err != nil {
			if errors.Is(err, iofs.ErrNotExist) {
				return otherFile(name, "the bucket") // named, and not there
			}
			return err
		}
	}
	id, err := fileID(filepath.Join(tmp, corpus.ManifestName))
	if err != nil {
		return err
	}
	return get(corpus.ManifestName, id)
}

// keepCorpus writes the server's corpus to the bucket of its blobs, if they are in one.
func (s *server) keepCorpus(ctx context.Context) error {
	b, ok := s.bytes.(*s3.Store)
	if !ok {
		return nil
	}
	out := &cli.StoreCopied{Corpus: &cli.CorpusCopied{}}
	return pushCorpus(ctx, b.Files(corpusFolder), s.Data.Path(corpusFolder), out)
}
