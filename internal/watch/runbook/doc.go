// Package runbook is docs/runbook.md as HTML, for sites from which the published page cannot be reached, and the links
// to its sections.
//
// The HTML is rendered from Markdown that is compiled in, once, on the first request. It has the section names that
// GitHub gives the published page, so links differ only in the part before the "#".
package runbook
