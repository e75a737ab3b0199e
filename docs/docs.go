// Package docs holds the project's pages of documentation, for servers to show.
package docs

import "embed"

// Files are the pages, as Markdown.
//
//go:embed *.md
var Files embed.FS
