// Package s3 is a blob.Store in a bucket of an S3-compatible server, which
// several agon processes may share.
//
// A blob is one object, PREFIX/ab/cdef…, named by its sha256. It is put on the
// condition that no such object exists, with its sha256 as the checksum that the
// server compares; large ones go in parts with a checksum each. Servers with strong
// read-after-write consistency are needed (Amazon S3 since 2020, and the usual
// others); what is read is verified by its digest all the same.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/blob"
)

const (
	// DefaultMaxBytes bounds one blob unless Options say otherwise.
	DefaultMaxBytes = 64 << 20
	// partBytes is the size of a part; larger blobs go in several (S3's least is 5 MiB).
	partBytes = 16 << 20
	// askFirst is from how many bytes on a blob is asked for before it is sent.
	askFirst = 256 << 10
	// tries bounds how often a request is sent that the server or the network lost.
	tries = 5
	// longestPresign is S3's limit.
	longestPresign = 7 * 24 * time.Hour
)

// Options tune a Store. Now is needed.
type Options struct {
	// MaxBytes bounds one blob, on Put and on Get; 0 means DefaultMaxBytes.
	MaxBytes int64
	// Cache keeps what was read, nil: nothing is kept. Its errors stop no read: the server has the bytes.
	Cache blob.Store
	// Getenv gives the credentials, as Amazon's tools name them: AWS_ACCESS_KEY_ID,
	// AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. Without them the shared file and the
	// machine's role are asked. nil: those only.
	Getenv func(string) string
	// Over names authorities to trust besides the system's; nil: none.
	Over *certs.Client
	Now  func() time.Time
}

// Store keeps blobs in one bucket. Safe for concurrent use.
type Store struct {
	c      *minio.Client
	once   *minio.Client // sends a request once: a delete that comes late must not take what was put again
	direct *minio.Client // signs reads for others; nil: their way to the bucket is not known
	bucket string
	prefix string // "" or with a slash at its end
	max    int64
	cache  blob.Store
	now    func() time.Time
}

// IsURL reports whether blobs are named by a URL of this driver.
func IsURL(s string) bool { return strings.HasPrefix(s, "s3://") }

// place is what a URL says.
type place struct {
	bucket, prefix   string
	endpoint, direct *url.URL // direct may be nil
	region           string
	lookup           minio.BucketLookupType
}

// parseURL reads s3://BUCKET/PREFIX?endpoint=…&region=…&direct=…&style=path|host.
func parseURL(raw string) (p place, err error) {
	bad := func(format string, args ...any) (place, error) {
		return place{}, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "blobs", Message: fmt.Sprintf(format, args...),
			Mend: "write s3://BUCKET/PREFIX?endpoint=https://HOST:PORT&region=REGION",
		}
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "s3" || u.Opaque != "" {
		return bad("the URL of the blobs cannot be read") // not shown: it may hold a password
	}
	if u.User != nil {
		return bad("the URL of the blobs holds credentials: give them in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	p.bucket, p.prefix = u.Host, strings.Trim(u.Path, "/")
	if err := s3utils.CheckValidBucketNameStrict(p.bucket); err != nil {
		return bad("bucket %q: %v", p.bucket, err)
	}
	if p.prefix != "" {
		if p.prefix += "/"; len(p.prefix) > 512 || strings.Contains(p.prefix, "//") {
			return bad("the prefix of the blobs has an empty part, or more than 512 bytes")
		}
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("the query of the blobs' URL cannot be read")
	}
	at := func(name, text string) (*url.URL, error) {
		e, err := url.Parse(text)
		if err != nil || (e.Scheme != "http" && e.Scheme != "https") || e.Host == "" || strings.Trim(e.Path, "/") != "" || e.User != nil || e.RawQuery != "" {
			_, err := bad("%s is not http://HOST:PORT or https://HOST:PORT", name)
			return nil, err
		}
		return e, nil
	}
	p.region, p.lookup = "us-east-1", minio.BucketLookupAuto
	text := "https://s3.amazonaws.com"
	for name, values := range q {
		if len(values) != 1 || values[0] == "" {
			return bad("%s is given empty or twice", name)
		}
		switch v := values[0]; name {
		case "endpoint":
			text = v
		case "region":
			p.region = v
		case "direct":
			if p.direct, err = at(name, v); err != nil {
				return place{}, err
			}
		case "style":
			if v != "path" && v != "host" {
				return bad("style %q: want path or host", v)
			}
			if p.lookup = minio.BucketLookupPath; v == "host" {
				p.lookup = minio.BucketLookupDNS
			}
		default:
			return bad("the blobs' URL has no setting %q", name)
		}
	}
	p.endpoint, err = at("endpoint", text)
	return p, err
}

// Open returns the store at an s3:// URL. It asks the server for the bucket.
func Open(ctx context.Context, rawURL string, o Options) (*Store, error) {
	p, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		return nil, errors.New("open blobs: no clock")
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	s := &Store{bucket: p.bucket, prefix: p.prefix, max: o.MaxBytes, cache: o.Cache, now: o.Now}
	creds := credentials.NewChainCredentials([]credentials.Provider{&credentials.FileAWSCredentials{}, &credentials.IAM{}})
	if o.Getenv != nil && o.Getenv("AWS_ACCESS_KEY_ID") != "" {
		creds = credentials.NewStaticV4(o.Getenv("AWS_ACCESS_KEY_ID"), o.Getenv("AWS_SECRET_ACCESS_KEY"), o.Getenv("AWS_SESSION_TOKEN"))
	}
	client := func(at *url.URL, retries int) (*minio.Client, error) {
		over, err := transport(at, o.Over)
		if err != nil {
			return nil, err
		}
		return minio.New(at.Host, &minio.Options{
			Transport: over,
			Creds:     creds, Secure: at.Scheme == "https", Region: p.region, BucketLookup: p.lookup, MaxRetries: retries,
			TrailingHeaders: true, // checksums need it
		})
	}
	if s.c, err = client(p.endpoint, tries); err == nil {
		s.once, err = client(p.endpoint, 1)
	}
	if err == nil && p.direct != nil {
		s.direct, err = client(p.direct, 1)
	}
	if err != nil {
		return nil, fmt.Errorf("open blobs in bucket %s: %w", p.bucket, err)
	}
	ok, err := s.c.BucketExists(ctx, s.bucket)
	if err != nil {
		return nil, fmt.Errorf("open blobs in bucket %s of %s: %w", p.bucket, p.endpoint.Host, err)
	}
	if !ok {
		return nil, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "blobs", Message: fmt.Sprintf("there is no bucket %s at %s", p.bucket, p.endpoint.Host),
			Mend: "make it first",
		}
	}
	return s, nil
}

// transport is the library's, with the authorities of over.
func transport(at *url.URL, over *certs.Client) (*http.Transport, error) {
	t, err := minio.DefaultTransport(at.Scheme == "https")
	if err != nil || !over.Own() || at.Scheme != "https" {
		return t, err
	}
	t.TLSClientConfig, err = over.Config("", false)
	return t, err
}

func (s *Store) key(d agon.Digest) string {
	h := d.Hex()
	return s.prefix + h[:2] + "/" + h[2:]
}

// gone is the mark of a sweep among the blobs that begin with two digits.
func (s *Store) gone(first string) string { return s.prefix + "sweep/" + first }

func status(err error) int { return minio.ToErrorResponse(err).StatusCode }

func missing(err error) bool {
	r := minio.ToErrorResponse(err)
	return r.Code == minio.NoSuchKey || r.StatusCode == http.StatusNotFound
}

// Put stores b. It returns after the server has it.
func (s *Store) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if int64(len(b)) > s.max {
		return "", fmt.Errorf("put blob: %w: %d bytes, limit %d bytes", blob.ErrTooLarge, len(b), s.max)
	}
	sum := sha256.Sum256(b)
	d := agon.Digest(agon.DigestPrefix + hex.EncodeToString(sum[:]))
	for {
		ok, err := s.put(ctx, d, sum, b)
		if err != nil {
			return "", fmt.Errorf("put blob %s: %w: %w", d, blob.ErrAway, err)
		}
		if ok {
			return d, nil
		}
	}
}

// put tries once; false says that a sweep may have taken the blob, and has ended.
func (s *Store) put(ctx context.Context, d agon.Digest, sum [32]byte, b []byte) (bool, error) {
	if len(b) < askFirst {
		err := s.send(ctx, d, sum, b, false)
		if err == nil {
			return true, nil
		}
		if code := status(err); code != http.StatusPreconditionFailed && code != http.StatusConflict {
			return false, err
		}
	}
	have, err := s.c.StatObject(ctx, s.bucket, s.key(d), minio.StatObjectOptions{Checksum: true})
	switch {
	case missing(err): // not there, or no more
		return true, s.send(ctx, d, sum, b, true)
	case err != nil:
		return false, err
	}
	damaged := have.Size != int64(len(b)) ||
		len(b) <= partBytes && have.ChecksumSHA256 != "" && have.ChecksumSHA256 != base64.StdEncoding.EncodeToString(sum[:])
	if damaged || s.now().Sub(have.LastModified) >= blob.RenewAfter/2 {
		if err := s.send(ctx, d, sum, b, true); err != nil {
			return false, err
		}
	}
	return s.unswept(ctx, d)
}

// send writes the object; without over only where there is none.
func (s *Store) send(ctx context.Context, d agon.Digest, sum [32]byte, b []byte, over bool) error {
	// The checksum of all parts is that of the whole object: servers differ in what
	// they make of a checksum of checksums.
	o := minio.PutObjectOptions{PartSize: partBytes, AutoChecksum: minio.ChecksumFullObjectCRC32C, ContentType: "application/octet-stream"}
	if !over {
		o.SetMatchETagExcept("*")
	}
	if len(b) <= partBytes {
		o.DisableMultipart = true
		o.UserMetadata = map[string]string{"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum[:])}
	}
	var r io.Reader = bytes.NewReader(b)
	if len(b) > partBytes {
		// Only a reader: the client then sends the checksum of a part before the part,
		// which more servers understand than one behind it.
		r = struct{ io.Reader }{r}
	}
	_, err := s.c.PutObject(ctx, s.bucket, s.key(d), r, int64(len(b)), o)
	return err
}

// Get returns the bytes of d, verified; from the cache where it has them.
func (s *Store) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if s.cache != nil {
		if b, err := s.cache.Get(ctx, d); err == nil {
			return b, nil
		}
	}
	b, err := s.fetch(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("get blob %s: %w", d, err)
	}
	if s.cache != nil {
		_, _ = s.cache.Put(ctx, b) // a full disk slows reads down, and stops none
	}
	return b, nil
}

func (s *Store) fetch(ctx context.Context, d agon.Digest) ([]byte, error) {
	o, err := s.c.GetObject(ctx, s.bucket, s.key(d), minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }()
	b, err := io.ReadAll(io.LimitReader(o, s.max+1))
	switch {
	case missing(err):
		return nil, blob.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("%w: %w", blob.ErrAway, err)
	case int64(len(b)) > s.max:
		return nil, fmt.Errorf("%w: limit %d bytes", blob.ErrTooLarge, s.max)
	case agon.Sum(b) != d:
		return nil, blob.ErrCorrupt
	}
	return b, nil
}

// Has reports whether the server holds d, whatever the cache has.
func (s *Store) Has(ctx context.Context, d agon.Digest) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := d.Validate(); err != nil {
		return false, err
	}
	_, err := s.c.StatObject(ctx, s.bucket, s.key(d), minio.StatObjectOptions{})
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stat blob %s: %w: %w", d, blob.ErrAway, err)
	}
	return true, nil
}

// Direct returns a URL from which anybody who has it reads d until it ends,
// without this process. "" says that readers have no way to the bucket, or that
// d is not there. What is read has to be verified by its digest.
func (s *Store) Direct(ctx context.Context, d agon.Digest, ends time.Duration) (string, error) {
	if s.direct == nil {
		return "", nil
	}
	if ends < time.Second || ends > longestPresign {
		return "", fmt.Errorf("sign a read of blob %s: it would end after %s, want 1s to %s", d, ends, longestPresign)
	}
	if ok, err := s.Has(ctx, d); err != nil || !ok {
		return "", err
	}
	u, err := s.direct.PresignedGetObject(ctx, s.bucket, s.key(d), ends, nil)
	if err != nil {
		return "", fmt.Errorf("sign a read of blob %s: %w", d, err)
	}
	return u.String(), nil
}
