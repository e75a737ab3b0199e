// Package docs holds the project's pages of documentation, for servers to show.
package docs

import "embed"

// Files are the pages, as Markdown, and the drawings in them.
//
//go:embed *.md pictures/*.svg
var Files embed.FS
