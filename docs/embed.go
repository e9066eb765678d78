// Package docs holds the files of this directory that the process itself serves or prints. Its tests check that the
// pages link to what exists.
package docs

import _ "embed"

// Runbook is runbook.md.
//
//go:embed runbook.md
var Runbook []byte

// Writers is writers.md.
//
//go:embed writers.md
var Writers []byte

// ConfigurationSchema is configuration.schema.json.
//
//go:embed configuration.schema.json
var ConfigurationSchema []byte
