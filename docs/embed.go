// Package docs holds the pages of this directory that the process itself serves. Its tests check that the pages link to
// what exists.
package docs

import _ "embed"

// Runbook is runbook.md.
//
//go:embed runbook.md
var Runbook []byte
