package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
)

// Files are objects with names, PREFIX/FOLDER/NAME beside the blobs: what is replaced as a
// whole, and is not named by its bytes. No collection of blobs touches them. Safe for
// concurrent use.
type Files struct {
	s      *Store
	prefix string
}

// Files returns the files of a folder ("": of the URL's own prefix). A name must not begin with a
// folder of two digits of hexadecimals, nor with sweep: blobs and marks stand there.
func (s *Store) Files(folder string) *Files {
	if folder != "" {
		folder += "/"
	}
	return &Files{s: s, prefix: s.prefix + folder}
}

func (f *Files) key(name string) (string, error) {
	if !fs.ValidPath(name) || name == "." {
		return "", fmt.Errorf("file %q in a bucket: %w", name, fs.ErrInvalid)
	}
	return f.prefix + name, nil
}

// Read returns a file of at most the store's bytes a blob; an error that wraps
// fs.ErrNotExist where there is none.
func (f *Files) Read(ctx context.Context, name string) ([]byte, error) {
	key, err := f.key(name)
	if err != nil {
		return nil, err
	}
	o, err := f.s.c.GetObject(ctx, f.s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s in the bucket: %w", name, err)
	}
	defer func() { _ = o.Close() }()
	b, err := io.ReadAll(io.LimitReader(o, f.s.max+1))
	switch {
	case missing(err):
		return nil, fmt.Errorf("read %s in the bucket: %w", name, fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("read %s in the bucket: %w", name, err)
	case int64(len(b)) > f.s.max:
		return nil, fmt.Errorf("read %s in the bucket: over %d bytes", name, f.s.max)
	}
	return b, nil
}

// Write replaces a file as a whole. It returns after the server has it.
func (f *Files) Write(ctx context.Context, name string, b []byte) error {
	key, err := f.key(name)
	if err != nil {
		return err
	}
	if int64(len(b)) > f.s.max {
		return fmt.Errorf("write %s in the bucket: %d bytes, limit %d bytes", name, len(b), f.s.max)
	}
	o := minio.PutObjectOptions{PartSize: partBytes, AutoChecksum: minio.ChecksumFullObjectCRC32C, ContentType: "application/octet-stream"}
	if len(b) <= partBytes {
		sum := sha256.Sum256(b)
		o.DisableMultipart = true
		o.UserMetadata = map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum[:])}
	}
	if _, err := f.s.c.PutObject(ctx, f.s.bucket, key, bytes.NewReader(b), int64(len(b)), o); err != nil {
		return fmt.Errorf("write %s in the bucket: %w", name, err)
	}
	return nil
}

// List gives the names below a folder of the files ("": all), in order.
func (f *Files) List(ctx context.Context, folder string, fn func(name string) error) error {
	prefix := f.prefix
	if folder != "" {
		key, err := f.key(folder)
		if err != nil {
			return err
		}
		prefix = key + "/"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing
	for o := range f.s.c.ListObjectsIter(ctx, f.s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return fmt.Errorf("list files in the bucket: %w", o.Err)
		}
		if err := fn(strings.TrimPrefix(o.Key, f.prefix)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Remove removes the named files; one that is not there is removed.
func (f *Files) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		key, err := f.key(name)
		if err != nil {
			return err
		}
		if err := f.s.c.RemoveObject(ctx, f.s.bucket, key, minio.RemoveObjectOptions{}); err != nil && !missing(err) {
			return fmt.Errorf("remove %s in the bucket: %w", name, err)
		}
	}
	return nil
}

// sumMeta is the object's metadata that holds the sha256 of an uploaded file.
const sumMeta = "Agon-Sha256"

// Upload writes a file of any size from disk, as name. sum is its sha256 in hexadecimals;
// false says that the bucket has these bytes already.
func (f *Files) Upload(ctx context.Context, name, path, sum string, size int64) (bool, error) {
	key, err := f.key(name)
	if err != nil {
		return false, err
	}
	have, err := f.s.c.StatObject(ctx, f.s.bucket, key, minio.StatObjectOptions{})
	if err == nil && have.Size == size && have.UserMetadata[sumMeta] == sum {
		return false, nil
	}
	if err != nil && !missing(err) {
		return false, fmt.Errorf("look for %s in the bucket: %w", name, err)
	}
	from, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("write %s in the bucket: %w", name, err)
	}
	// Only a reader, as in send.
	_, err = f.s.c.PutObject(ctx, f.s.bucket, key, struct{ io.Reader }{from}, size, minio.PutObjectOptions{
		PartSize: partBytes, AutoChecksum: minio.ChecksumFullObjectCRC32C, ContentType: "application/octet-stream", UserMetadata: map[string]string{sumMeta: sum},
	})
	err = errors.Join(err, from.Close())
	if err != nil {
		return false, fmt.Errorf("write %s in the bucket: %w", name, err)
	}
	return true, nil
}

// Download writes a file of any size to disk; an error that wraps fs.ErrNotExist where
// there is none. The caller compares its digest.
func (f *Files) Download(ctx context.Context, name, path string) error {
	key, err := f.key(name)
	if err != nil {
		return err
	}
	err = f.s.c.FGetObject(ctx, f.s.bucket, key, path, minio.GetObjectOptions{})
	if missing(err) {
		return fmt.Errorf("read %s in the bucket: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("read %s in the bucket: %w", name, err)
	}
	return nil
}
